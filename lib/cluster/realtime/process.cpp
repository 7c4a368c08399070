#include "cluster/realtime/process.hpp"

namespace hetsgd::realtime {

void Process::spend(Seconds TimeBreakdown::*share, Seconds took) {
  breakdown.*share += took;
  if (!account || share == &TimeBreakdown::wait) return;
  const Seconds end = clock->now();
  share == &TimeBreakdown::compute ? account->computed(end - took, end)
                                   : account->communicated(end - took, end);
}

// A process that runs, sleeps until a deadline or is about to run can go on. So nothing is returned
// for it, and one such process is enough for the run not to be a deadlock. One that polls is
// listed: whether another rank will ever answer is not for this rank to say (World::blocked_since).
std::optional<BlockedProcess> Process::blocked() const {
  if (poll) return BlockedProcess{name, poll->describe(), since};
  if (wait) {  // what it waits for may be there
    if (signalled.load(std::memory_order_relaxed)) return std::nullopt;
    return BlockedProcess{name, wait->describe(), since};
  }
  if (!ended) return std::nullopt;
  return BlockedProcess{name, std::string(kEnded), since};
}

}  // namespace hetsgd::realtime
