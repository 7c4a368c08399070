#include "cluster/mpi/coordinator.hpp"

#include "cluster/realtime/training_clock.hpp"

namespace hetsgd::mpi {

using Point = RankBarrier::Point;

Coordinator::Coordinator(Channel& channel, const std::vector<ProcessPlace>& places)
    // The protocols register their handlers here. errors_ comes first: the others refer to it.
    : channel_(channel),
      errors_(channel, [this](std::exception_ptr error) { on_failure(std::move(error)); }),
      barrier_(channel, errors_,
               [this](Point point, int epoch, std::int64_t at) { on_met(point, epoch, at); }),
      agreement_(channel, errors_),
      heartbeats_(channel, errors_, places, [&channel](int rank) { return channel.silence(rank); }),
      deadlocks_(channel, errors_),
      groups_(channel),
      services_(channel),
      pause_(channel),
      failures_(channel) {}

bool Coordinator::begin(CoordinatedRun& run, Seconds peer_timeout) {
  heartbeats_.set_timeout(peer_timeout);
  // All before this rank says that it has come: from then on messages of the run may arrive, and
  // must find it attached.
  everybody_quiet_ = everybody_emptied_ = false;
  groups_.forget();
  run_.attach(&run);
  pause_.attach(&run);
  services_.attach(&run);
  failures_.attach(&run);
  barrier_.come(Point::begin);
  return barrier_.await(Point::begin);
}

std::int64_t Coordinator::set_up(std::int64_t offset_ns) {
  pause_.set_offset(offset_ns);
  barrier_.come(Point::set_up);
  // After a failure the clock's start does not matter, but it must be an instant that has come.
  if (!barrier_.await(Point::set_up)) return realtime::TrainingClock::monotonic_ns();
  return start_at_ + offset_ns;
}

std::vector<std::vector<std::byte>> Coordinator::end(std::span<const std::byte> report) {
  barrier_.come(Point::ended, report);
  // After a failure too: until all have come another rank may still read this one's memory.
  barrier_.await(Point::ended, /*outlast=*/true);
  return barrier_.take_contents();
}

std::optional<Failure> Coordinator::end_run() {
  // The order matters: look_after(), which runs under run_'s mutex, calls pause_.tick(). From here
  // on nobody calls into the run. Only then does the epoch end, so that no call uses the number of
  // the next one.
  services_.attach(nullptr);
  failures_.attach(nullptr);
  pause_.attach(nullptr);
  run_.attach(nullptr);
  return errors_.end_epoch();
}

Agreement::Result Coordinator::agree(std::span<const std::byte> answer,
                                     const std::optional<Failure>& failure, Seconds peer_timeout) {
  heartbeats_.set_timeout(peer_timeout);
  return agreement_.agree(answer, failure);
}

bool Coordinator::leave(std::optional<Seconds> limit) {
  // A lost rank never comes.
  if (errors_.lost()) return false;
  leaving_ = true;
  barrier_.come(Point::leave);
  return barrier_.await(Point::leave, /*outlast=*/true, limit);
}

// --- on the channel's thread

void Coordinator::on_failure(std::exception_ptr error) {
  run_.call([&](CoordinatedRun& run) {
    // The flags are set before the run is told, so that Control::failing() is true when its threads
    // unwind. An error of a run that has not begun here reaches nobody; begin() finds it.
    failing_ = true;
    channel_.set_failing(true);
    run.fail(error);
  });
}

void Coordinator::on_met(Point point, int epoch, std::int64_t at) {
  // Nothing of an earlier run is left. Every message of that run to or from rank 0 has been
  // handled: the other ranks sent theirs before they came to the start, and rank 0 sent its own
  // before kMet.
  if (point == Point::begin) {
    // A rank may hear of the quiet of the run before only now.
    failing_ = quiet_said_ = everybody_quiet_ = false;
    pause_.reset();
    failures_.reset();
    groups_.restart();
    deadlocks_.reset();
    channel_.set_failing(false);
  }
  if (point == Point::set_up) start_at_ = at;
  if (point == Point::quiet) everybody_quiet_ = true;
  if (point == Point::emptied) everybody_emptied_ = true;
  if (point == Point::ended) errors_.over(epoch);
}

Pace Coordinator::look_after(CoordinatedRun& run) {
  // This happens once per failed run, and only when this rank's processes have let go of their
  // memory: rank 0 counts the ranks, and Point::quiet tells all of them that nobody receives any
  // more.
  if (failing_ && !quiet_said_ && !run.still_receives()) {
    quiet_said_ = true;
    barrier_.come(Point::quiet);
  }
  // In a run that fails the world releases its threads itself, and a pause would hold them back.
  if (!failing_) pause_.tick();
  if (!failing_ && failures_.waits() && pause_.is_idle()) {
    pause_.close();
    failures_.tell_all();
  }
  const Pace pace = run.pace();
  // Looks for a deadlock are left out where something advances, or where time matters.
  if ((!failing_ && pause_.resumes()) || pace == Pace::at_once) return Pace::at_once;
  deadlocks_.look([&](std::vector<BlockedProcess>& waiting) { return run.blocked(waiting); },
                  heartbeats_.timeout());
  return failing_ || pause_.is_on() ? Pace::soon : pace;
}

Pace Coordinator::tick() {
  // Heartbeats are watched outside of run_.call(): a loss fails the run, which takes the same
  // mutex. During a run they are watched unless this thread is busy with something that advances;
  // outside of one they matter only to a rank that waits for others: in leave() or an agreement.
  std::optional<Pace> pace;
  run_.call([&](CoordinatedRun& run) { pace = look_after(run); });
  if (failures_.must_halt() && !pause_.is_on()) failures_.halt();
  const bool waits = pace ? *pace != Pace::at_once : leaving_ || agreement_.waits();
  if (waits) heartbeats_.look();
  return pace.value_or(Pace::soon);
}

}  // namespace hetsgd::mpi
