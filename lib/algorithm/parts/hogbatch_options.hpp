// The options of hogbatch, and the sizes of the batches that follow from them.
//
// A kind of device starts with the size at which its updates are the most frequent (CPUs) or its
// work the most efficient (GPUs):
//
//   cpu   start = min 1, max 64          gpu   min b_max / 16, start = max b_max
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "algorithm/plan.hpp"
#include "core/options.hpp"

namespace hetsgd {

// Of a worker: it computes in the host's memory, or in one of its own.
enum DeviceKind : std::uint32_t { kCpu, kGpu, kDeviceKinds };

// What is true of a kind's batches throughout a run.
struct BatchRule {
  std::uint64_t workers = 0, start = 1, min = 1, max = 1;
  double counts = 1;  // each of its updates
};
struct BatchRules {
  std::array<BatchRule, kDeviceKinds> of;
  double alpha = 2;
  bool adapts = true;
};

struct HogbatchOptions {
  enum class Adapt { updates, fixed };
  enum class GpuUpdate { add, overwrite };

  void declare(OptionSet& options);
  // Errors: usage; bounds that contradict each other, and a partition without a common pool.
  void check(const Plan& plan) const;
  // Of so many workers of each kind.
  BatchRules rules(const Plan& plan, const std::array<std::uint64_t, kDeviceKinds>& workers) const;

  Adapt adapt = Adapt::updates;
  double alpha = 2;
  double beta = 1;
  GpuUpdate gpu_update = GpuUpdate::add;
  std::uint64_t cpu_batch_min = 1;
  std::optional<std::uint64_t> cpu_batch_max;  // none: 64, or b_max where that is less
  std::optional<std::uint64_t> gpu_batch_min;  // none: b_max / 16
};

}  // namespace hetsgd
