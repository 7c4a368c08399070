// Computations on a model that other threads read and write meanwhile, without a lock. Everything
// that races, races below these functions: tests/tsan.supp names this file.

#include <algorithm>

#include "algorithm/shared_model.hpp"
#include "core/racy_region.hpp"

namespace hetsgd::racy {

// The kernels are those of sgd: plain vector loads and stores. An element that they read twice
// may differ between the two, which costs accuracy and nothing else: indices come from the batch.
double step(const Model& model, ModelContext& context, const Batch& batch, float learning_rate,
            std::span<float> w) {
  const RacyRegion racy;
  return model.step(context, batch, learning_rate, w.data());
}

// Element by element, so that a concurrent write to a model is lost in that element alone.
void average(std::span<const std::span<float>> models) {
  const auto count = static_cast<float>(models.size());
  for (std::size_t i = 0; i < models.front().size(); ++i) {
    float sum = 0;
    for (const std::span<float> w : models) sum += w[i];
    const float mean = sum / count;
    for (const std::span<float> w : models) w[i] = mean;
  }
}

void pull(std::span<const float> w, std::span<float> pulled) {
  std::ranges::copy(w, pulled.begin());
}

void add(std::span<const float> moved, std::span<const float> pulled, std::span<float> w) {
  land_move(moved, pulled, w);
}

void overwrite(std::span<const float> moved, std::span<float> w) {
  std::ranges::copy(moved, w.begin());
}

}  // namespace hetsgd::racy
