// Policy `dymem`.
//
// Paper      : Dymem (Yang 2022), chapter 4.
// Implements : 4.1.2.1 offload (a map moves while its first consumer computes, the next step does
//              not wait), algorithm 3 (search of prefetches, corrected), 4.1.3 groups and arenas
//              (dymem.hpp, pool.cpp); the order of execution is algorithm 2 (training_step.cpp).
// Symbols    : prefetch_convs = the 2 of line 8; step m = the paper's `next`.
// Deviations : the window counts the current convolution, and the search ends before the first one
//              beyond it (the paper's loop has no end). A shortage cancels prefetches, where the
//              paper starts again with more memory.
#include "memory/dymem.hpp"

#include <algorithm>
#include <array>

#include "memory/policy.hpp"

namespace hetsgd {
namespace {

const std::vector<int>& uses_in(const StepTensor& tensor, Pass pass) {
  return pass == Pass::forward ? tensor.forward_uses : tensor.backward_uses;
}

// Whether some step between the first and the last use does not use the tensor.
bool waits(const std::vector<int>& uses) {
  return !uses.empty() && uses.back() - uses.front() + 1 > static_cast<int>(uses.size());
}

}  // namespace

Mobility mobility_of(const TrainingStep& training, const StepTensor& tensor, Pass pass) {
  if (tensor.reclaimed) return Mobility::reclaimed;
  const bool forked = pass == Pass::forward && tensor.kind == TensorKind::feature &&
                      training.graph->consumers(tensor.node).size() > 1;
  return forked || waits(uses_in(tensor, pass)) ? Mobility::temporary : Mobility::movable;
}

void sort_allocations(const TrainingStep& training, Pass pass, std::vector<int>& tensors) {
  const auto key = [&](int id) {
    const StepTensor& tensor = training.tensor(id);
    const bool temporary = mobility_of(training, tensor, pass) == Mobility::temporary;
    const auto consumers = static_cast<int>(training.graph->consumers(tensor.node).size());
    return std::array<int, 3>{temporary ? 0 : 1, temporary ? -consumers : 0,
                              temporary ? -tensor.last_use() : 0};
  };
  std::stable_sort(tensors.begin(), tensors.end(), [&](int a, int b) { return key(a) < key(b); });
}

std::uint64_t incremental_bytes(const TrainingStep& training) {
  std::uint64_t now = 0, most = 0;
  for (int k = 1; k <= training.total_steps(); ++k) {
    const Step& step = training.step(k);
    for (const int id : step.produces) {
      const StepTensor& tensor = training.tensor(id);
      if (tensor.reclaimed) now += rounded(tensor.bytes, kPoolUnit);
    }
    most = std::max(most, now);
    for (const int id : step.uses) {
      const StepTensor& tensor = training.tensor(id);
      if (tensor.reclaimed && tensor.last_use() == k) now -= rounded(tensor.bytes, kPoolUnit);
    }
  }
  return most;
}

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
