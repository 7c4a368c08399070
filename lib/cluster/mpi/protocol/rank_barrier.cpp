#include "cluster/mpi/protocol/rank_barrier.hpp"

#include "cluster/mpi/protocol/messages.hpp"
#include "cluster/realtime/training_clock.hpp"
#include "core/rank_index.hpp"

namespace hetsgd::mpi {

namespace {

// A message to all may take so long; a rank that gets it later starts a little later than the
// others, but its clock runs since the same instant.
constexpr std::int64_t kStartNoticeNs = 2'000'000;
// After a failure nobody waits longer than this for another rank; one that is lost does not come
// any more, so its time is shorter: it only lets the others of the run end.
constexpr Seconds kFailureGrace{10};
constexpr Seconds kLossGrace{2};

}  // namespace

RankBarrier::RankBarrier(Control& control, FirstError& errors, OnMet on_met)
    : control_(control), errors_(errors), on_met_(std::move(on_met)) {
  on_values<int, Point, std::vector<std::byte>>(
      control_, kCome, [this](int from, int epoch, Point point, std::vector<std::byte> content) {
        on_come(from, {epoch, point}, std::move(content));
      });
  // on_met_ is called before the entry in met_: what it sets (the start's instant, for one) is
  // there when await() returns. It is called without the mutex, which it may take itself
  // (FirstError::over).
  on_values<int, Point, std::int64_t>(control_, kMet,
                                      [this](int, int epoch, Point point, std::int64_t at) {
                                        on_met_(point, epoch, at);
                                        const auto guard = errors_.lock();
                                        met_.emplace(epoch, point);
                                        errors_.notify();
                                      });
}

// Ranks leave the program once, whatever the number of runs, and possibly with different numbers of
// them: that point belongs to epoch 0, which never fails.
RankBarrier::Key RankBarrier::key(Point point) const {
  return {point == Point::leave ? 0 : errors_.epoch(), point};
}

void RankBarrier::come(Point point, std::span<const std::byte> content) {
  send_values(control_, 0, kCome, key(point).first, point, content);
}

// On rank 0. A rank may come to the next point while others have not heard of this one yet: each
// point of each epoch is counted alone.
void RankBarrier::on_come(int from, const Key& at, std::vector<std::byte> content) {
  Attendance& attendance = attendance_[at];
  attendance.contents.resize(hetsgd::at(control_.size()));
  attendance.contents[hetsgd::at(from)] = std::move(content);
  if (++attendance.count < control_.size()) return;
  const auto [epoch, point] = at;
  if (point == Point::ended) {
    const auto guard = errors_.lock();
    // The contents are kept before kMet leaves, so that take_contents() finds them after await().
    contents_ = std::move(attendance.contents);
  }
  attendance_.erase(at);
  send_values_to_all(control_, kMet, epoch, point,
                     realtime::TrainingClock::monotonic_ns() + kStartNoticeNs);
}

bool RankBarrier::await(Point point, bool outlast, std::optional<Seconds> limit) {
  const Key at = key(point);
  auto lock = errors_.lock();
  // Where a limit is given it is the whole patience: a rank that leaves after an error waits for no
  // more than that, error or not.
  const auto met = [&] { return met_.contains(at); };
  if (limit) return errors_.wait_for(lock, *limit, met);
  if (errors_.wait(lock, at.first, met)) return true;
  return outlast && errors_.wait_for(lock, errors_.lost() ? kLossGrace : kFailureGrace, met);
}

std::vector<std::vector<std::byte>> RankBarrier::take_contents() {
  const auto guard = errors_.lock();
  return std::move(contents_);
}

}  // namespace hetsgd::mpi
