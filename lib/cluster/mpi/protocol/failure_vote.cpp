#include "cluster/mpi/protocol/failure_vote.hpp"

#include <algorithm>
#include <utility>

namespace hetsgd::mpi {

FailureVote::FailureVote(Control& control) : control_(control) {
  on_values<Seconds>(control_, kLost, [this](int, Seconds detected) {
    if (!detected_) detected_ = detected;
  });
  on_values<Seconds>(control_, kHalt, [this](int, Seconds detected) { halt_since_ = detected; });
  on_values<std::vector<Calls>>(control_, kHalted,
                                [this](int, const std::vector<Calls>& calls) { on_halted(calls); });
  on_values<std::vector<Calls>>(control_, kComplete,
                                [this](int, const std::vector<Calls>& complete) {
                                  run_.call([&](VotingRun& run) { run.decide(complete); });
                                });
}

void FailureVote::reset() {
  halt_since_.reset();
  detected_.reset();
  told_ = false;
  halted_ranks_ = 0;
  common_.clear();
}

void FailureVote::tell_all() {
  told_ = true;
  send_values_to_all(control_, kHalt, *detected_);
}

void FailureVote::halt() {
  const Seconds detected = *std::exchange(halt_since_, std::nullopt);
  std::vector<Calls> calls;
  run_.call([&](VotingRun& run) { calls = run.lose(detected); });
  send_values(control_, 0, kHalted, calls);
}

// A member that has come to no call of a kind does not name it: nobody has got past the first one.
void FailureVote::on_halted(const std::vector<Calls>& all) {
  for (const Calls& calls : all) {
    Common& common = common_.try_emplace(calls.key, Common{0, calls}).first->second;
    ++common.ranks;
    common.calls.count = std::min(common.calls.count, calls.count);
  }
  if (++halted_ranks_ < control_.size()) return;
  std::vector<Calls> complete;
  for (const auto& [key, common] : common_) {
    if (common.ranks == common.calls.members) complete.push_back(common.calls);
  }
  send_values_to_all(control_, kComplete, complete);
}

}  // namespace hetsgd::mpi
