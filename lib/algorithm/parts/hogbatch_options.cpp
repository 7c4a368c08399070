#include "algorithm/parts/hogbatch_options.hpp"

#include <algorithm>
#include <string_view>

#include "core/error.hpp"

namespace hetsgd {

namespace {

void check_bounds(std::string_view low, std::uint64_t min, std::string_view high,
                  std::uint64_t max) {
  if (min <= max) return;
  throw usage_error("{}: found {}, expected at most {} {}", low, min, high, max);
}

}  // namespace

void HogbatchOptions::declare(OptionSet& options) {
  options.add_choice("adapt", adapt, {{"updates", Adapt::updates}, {"fixed", Adapt::fixed}},
                     "batch sizes: moved until CPUs and GPUs make as many updates, or as at first");
  options.add("alpha", alpha, "factor by which a batch size is moved")
      .symbol("alpha")
      .range(1, 1024)
      .above(1);
  options.add("beta", beta, "share of the CPUs' updates that counts")
      .symbol("beta")
      .range(0, 1)
      .above(0);
  options.add_choice(
      "gpu_update", gpu_update, {{"add", GpuUpdate::add}, {"overwrite", GpuUpdate::overwrite}},
      "a GPU adds its move to the model, or copies its replica over it, as the authors' program");
  options.add("cpu_batch_min", cpu_batch_min, "smallest batch of a CPU, and its first one")
      .unit("samples")
      .at_least(1);
  options.add("cpu_batch_max", cpu_batch_max, "largest batch of a CPU; auto: 64, at most b_max")
      .unit("samples")
      .at_least(1);
  options
      .add("gpu_batch_min", gpu_batch_min,
           "smallest batch of a GPU, whose first and largest is b_max; auto: b_max / 16")
      .unit("samples")
      .at_least(1);
}

void HogbatchOptions::check(const Plan& plan) const {
  if (plan.partition != Partition::shared) {
    throw with_hint(usage_error("--partition: hogbatch deals batches from one pool"),
                    "use --partition shared");
  }
  const BatchRules bounds = rules(plan, {});
  check_bounds("--cpu-batch-max", bounds.of[kCpu].max, "--batch-size", plan.batch_size);
  check_bounds("--cpu-batch-min", bounds.of[kCpu].min, "--cpu-batch-max", bounds.of[kCpu].max);
  check_bounds("--gpu-batch-min", bounds.of[kGpu].min, "--batch-size", plan.batch_size);
}

BatchRules HogbatchOptions::rules(const Plan& plan,
                                  const std::array<std::uint64_t, kDeviceKinds>& workers) const {
  constexpr std::uint64_t kCpuMax = 64, kGpuRange = 16;
  const std::uint64_t b_max = plan.batch_size;
  BatchRules rules{.of = {}, .alpha = alpha, .adapts = adapt == Adapt::updates};
  rules.of[kCpu] = {.workers = workers[kCpu],
                    .start = cpu_batch_min,
                    .min = cpu_batch_min,
                    .max = cpu_batch_max.value_or(std::min(kCpuMax, b_max)),
                    .counts = beta};
  rules.of[kGpu] = {.workers = workers[kGpu],
                    .start = b_max,
                    .min = gpu_batch_min.value_or(std::max<std::uint64_t>(1, b_max / kGpuRange)),
                    .max = b_max,
                    .counts = 1};
  return rules;
}

}  // namespace hetsgd
