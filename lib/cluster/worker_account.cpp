#include "cluster/worker_account.hpp"

#include <algorithm>

namespace hetsgd {

void WorkerAccount::computed(Seconds begin, Seconds end) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  computing_.add(begin.count(), end.count());
  busy_.add(begin.count(), end.count());
}

void WorkerAccount::communicated(Seconds begin, Seconds end) {
  const std::lock_guard lock(mutex_);
  if (!closed_) busy_.add(begin.count(), end.count());
}

void WorkerAccount::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

TimeBreakdown WorkerAccount::of(const TimeBreakdown& main) const {
  const std::lock_guard lock(mutex_);
  const Seconds all = main.compute + main.communicate + main.wait;
  const Seconds compute = before_.compute + Seconds(computing_.length());
  const Seconds busy = before_.compute + before_.communicate + Seconds(busy_.length());
  // The work of other processes only takes from the waiting. That part is exact; lengths are
  // rounded.
  TimeBreakdown account = main;
  account.wait = std::clamp(all - busy, Seconds(0), main.wait);
  account.compute = std::min(compute, all - account.wait);
  account.communicate = all - account.wait - account.compute;
  return account;
}

}  // namespace hetsgd
