#include "cluster/sim/comm.hpp"

namespace hetsgd::sim {

// Only misses count: a loop that finds a message each time takes it and so comes to an end.
bool SimComm::poll(int from, int tag) {
  if (group_->mailbox(rank_).find(from, tag) != nullptr) return true;
  group_->world.engine.count_idle_call("poll");
  return false;
}

// Posting takes nobody's time: the link carries the message while the caller does something else.
void SimComm::send_raw(int to, int tag, std::span<const std::byte> data, Traffic kind, bool posts) {
  if (posts) return void(send_message(group_, rank_, to, tag, data, kind));
  Process& self = group_->world.engine.begin_communication("send");
  Engine& engine = group_->world.engine;
  const double called = engine.now(), left = send_message(group_, rank_, to, tag, data, kind);
  if (left > called) engine.sleep_until(left);
  self.breakdown->communicate += Seconds(left - called);
  self.communicated(called, left);
}

Envelope SimComm::receive_raw(int from, int tag, std::span<std::byte> data) {
  return receive_message(*group_, rank_, from, tag, data);
}

// One rank's part in one call. It owns the attendance that the rendezvous fills in, and keeps the
// request, to whose parts the rendezvous refers: so it stays where it is until the call is
// complete.
class StartedCalls::Call final : public PendingCall {
 public:
  Call(std::shared_ptr<Group> group, int rank, const CollectiveRequest& request)
      : group_(std::move(group)), rank_(rank), request_(request) {}

  void join(Rendezvous& rendezvous) {
    rendezvous_ = &rendezvous;
    rendezvous.join(rank_, request_, attendance_);
  }

  CallTime wait() override {
    Engine& engine = group_->world.engine;
    Process& self = engine.current("wait");
    if (!attendance_.complete) {
      const double since = engine.now();
      // From here on the completion wakes this process; before, it only marked the call complete.
      attendance_.process = &self;
      const AwaitingOthers waiting(group_->world, self);
      engine.block([this] { return describe(); });
      self.breakdown->wait += Seconds(engine.now() - since);
    }
    return {Seconds(attendance_.begin), Seconds(attendance_.end)};
  }

  // With `failing` the memory goes before the call is complete: the pool's threads must have left
  // it now, and no later event will touch it, as the run fails first.
  void settle(bool failing) noexcept override {
    Engine& engine = group_->world.engine;
    if (failing && !attendance_.complete && !engine.tearing_down()) rendezvous_->finish_moving();
    engine.settle(
        attendance_.complete, failing, [this] { wait(); }, [this] { return describe(); });
  }

 private:
  std::string describe() const {
    return fmt::format("{} ({} of {} arrived)",
                       blocked_in_started(collective_name(request_.call.collective)),
                       rendezvous_->arrived(), rendezvous_->size());
  }

  const std::shared_ptr<Group> group_;
  const int rank_;
  const CollectiveRequest request_;
  Rendezvous* rendezvous_ = nullptr;  // until it is complete
  Attendance attendance_{.started = true};
};

std::unique_ptr<PendingCall> StartedCalls::start(const std::shared_ptr<Group>& group, int rank,
                                                 const CollectiveRequest& request) {
  // Checks that a process runs: a handler and the function of a pause may not start calls.
  world_.engine.begin_communication("start");
  auto call = std::make_unique<Call>(group, rank, request);
  if (world_.engine.tearing_down()) return call;
  started_.resize(static_cast<std::size_t>(group->size()));
  call->join(rendezvous_of(*group, started_[static_cast<std::size_t>(rank)]++));
  return call;
}

// The rendezvous of the calls that are numbered `number` on each rank.
Rendezvous& StartedCalls::rendezvous_of(const Group& group, std::uint64_t number) {
  const auto index = static_cast<std::size_t>(number - completed_);
  if (index == open_.size()) {
    if (free_.empty()) {
      free_.push_back(std::make_unique<Rendezvous>(world_, group.members, this));
    }
    open_.push_back(std::move(free_.back()));
    free_.pop_back();
  }
  return *open_[index];
}

// The next one begins, if all have started it.
void StartedCalls::ended() {
  ++completed_;
  free_.push_back(std::move(open_.front()));
  open_.pop_front();
  if (!open_.empty()) open_.front()->take_turn();
}

}  // namespace hetsgd::sim
