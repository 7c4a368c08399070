#include "cluster/mpi/check_ins.hpp"

#include "cluster/realtime/waiting.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {

std::optional<std::uint64_t> CheckIns::come(const CallKey& key, int members) {
  const std::lock_guard guard(mutex_);
  if (closed_) return std::nullopt;
  Calls& calls = calls_.try_emplace(key, Calls{key, members, 0}).first->second;
  return ++calls.count;
}

bool CheckIns::goes_on(const CallKey& key, std::uint64_t number) const {
  const std::lock_guard guard(mutex_);
  if (!complete_) return true;
  const auto found = complete_->find(key);
  return found != complete_->end() && number <= found->second;
}

std::vector<Calls> CheckIns::close() {
  const std::lock_guard guard(mutex_);
  closed_ = true;
  std::vector<Calls> all;
  for (const auto& [key, calls] : calls_) all.push_back(calls);
  return all;
}

void CheckIns::decide(const std::vector<Calls>& complete) {
  const std::lock_guard guard(mutex_);
  complete_.emplace();
  for (const Calls& calls : complete) complete_->emplace(calls.key, calls.count);
}

bool CheckIns::is_decided() const {
  const std::lock_guard guard(mutex_);
  return complete_.has_value();
}

// The world is told of a loss before the check-ins are closed: where come() refuses, the process
// halts.
CheckIn::CheckIn(CheckIns* check_ins, realtime::World& world, const CallKey& key, int members)
    : check_ins_(check_ins), key_(key) {
  realtime::begin_message(world);
  if (!check_ins_) return;
  const auto number = check_ins_->come(key, members);
  if (!number) realtime::begin_message(world);
  HETSGD_CHECK(number.has_value());
  number_ = *number;
  realtime::World::current().agreed = this;
}

CheckIn::~CheckIn() {
  if (check_ins_) realtime::World::current().agreed = nullptr;
}

}  // namespace hetsgd::mpi
