// Policy `dymem`.
//
// Paper      : Dymem (Yang 2022), chapter 4.
// Implements : 4.1.2.1 offload (a map moves while its first consumer computes, the next step does
//              not wait), algorithm 3 (search of prefetches, corrected), 4.1.3 groups and arenas
//              (groups.cpp, pool.cpp); the order of execution is algorithm 2 (training_step.cpp).
// Symbols    : prefetch_convs = the 2 of line 8; step m = the paper's `next`.
// Deviations : the window counts the current convolution, and the search ends before the first one
//              beyond it (the paper's loop has no end). A shortage cancels prefetches, where the
//              paper starts again with more memory.
#include <algorithm>

#include "memory/policy.hpp"

namespace hetsgd {
namespace {

class DymemPolicy final : public Policy {
 public:
  DymemPolicy() : Policy({.name = "dymem", .groups_tensors = true, .cancels = true}) {}
  bool moves(const TrainingStep&, const StepTensor& tensor) const override {
    return is_movable_map(tensor);
  }

  // Algorithm 3. The maps that the previous search offered are queued or on the device by now. So
  // this search continues where that one ended: its window reaches at least as far.
  void search(const PlanRequest& request, int k, FetchQueue& queue) const override {
    const TrainingStep& training = *request.training;
    const auto offer = [&](int m) {
      const int backward = training.total_steps() + 1 - m;
      for (const int map : training.step(backward).reads) {
        if (queue.is_absent(map)) queue.push(map);
      }
    };
    offer(k);
    int& m = queue.searched();
    for (m = std::min(m, k); m > 1; --m) {
      const int beyond = training.convolutions_up_to(m - 1) - training.convolutions_up_to(m - 2);
      const int within = training.convolutions_up_to(k) - training.convolutions_up_to(m - 1);
      if (beyond > 0 && within >= request.prefetch_convs) return;
      offer(m - 1);
    }
  }
};

}  // namespace

const Policy& dymem_policy() {
  static const DymemPolicy kPolicy;
  return kPolicy;
}

}  // namespace hetsgd
