#include "memory/groups.hpp"

#include <algorithm>
#include <array>

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

}  // namespace hetsgd
