#include "training/plan_checks.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {

namespace {

void check_precision(const TrainOptions& options, const OptionSet& set,
                     const std::vector<std::string>& devices) {
  if (options.precision == Precision::fp32) return;
  std::string found;
  if (cluster_kind(options.cluster).is_virtual) {
    found = fmt::format("--cluster {}", options.cluster);
  } else if (devices.empty()) {
    found = "no --devices";
  } else if (const auto cpu = std::ranges::find_if(
                 devices, [](const std::string& text) { return !text.starts_with("cuda:"); });
             cpu != devices.end()) {
    found = fmt::format("--devices {}", *cpu);
  }
  if (found.empty()) return;
  throw with_hint(
      usage_error("--precision: found {} with {}, expected fp32 where a worker computes "
                  "on a CPU",
                  set.to_json()["precision"].get<std::string>(), found),
      "tf32 and bf16 are what a GPU's tensor cores offer: --devices cuda:0");
}

void check_optimizer(const OptionSet& set, const Plan& plan, const AlgorithmInfo& info) {
  if (info.optimizers_only.empty()) return;
  const std::string name = set.to_json()["optimizer"].get<std::string>();
  const bool has = std::ranges::find(info.optimizers_only, name) != info.optimizers_only.end();
  if (has && plan.optimizer.weight_decay == 0 && plan.optimizer.clip_norm == 0) return;
  throw with_hint(usage_error("--optimizer: found {} with --weight-decay {} and --clip-norm {}, "
                              "expected {} without both for {}",
                              name, plan.optimizer.weight_decay, plan.optimizer.clip_norm,
                              fmt::join(info.optimizers_only, " or "), info.name),
                  "elastic and adaptive with one worker take all optimizers");
}

// One memory for all workers, which the host reaches.
void check_shared_memory(const TrainOptions& options, const Plan& plan,
                         const std::vector<std::string>& devices, const AlgorithmInfo& info) {
  const auto gpu = std::ranges::find_if(
      devices, [](const std::string& text) { return text.starts_with("cuda:"); });
  if (!info.cpu_only.empty() && gpu != devices.end()) {
    throw with_hint(
        usage_error("--devices: found {}, expected CPUs: {} {}", *gpu, info.name, info.cpu_only),
        "hogbatch and asgd are methods without waiting whose workers may be GPUs");
  }
  if (!info.one_process_only.empty() && plan.workers > 1 && cluster_kind(options.cluster).join) {
    throw with_hint(usage_error("--cluster: found {} with {} workers, expected workers in one "
                                "process: {} {}",
                                options.cluster, plan.workers, info.name, info.one_process_only),
                    "use --cluster threads, or asgd, whose workers may be processes");
  }
}

}  // namespace

void check_plan(const TrainOptions& options, const OptionSet& set, const Plan& plan,
                const std::vector<std::string>& devices, const AlgorithmInfo& info,
                const Algorithm& algorithm) {
  if (plan.workers > info.max_workers) {
    throw with_hint(usage_error("--workers: found {}, but {} runs on at most {}", plan.workers,
                                info.name, info.max_workers),
                    "ssgd, asgd and hogwild run on several workers");
  }
  if (options.speed.size() > static_cast<std::size_t>(plan.workers)) {
    throw usage_error("--speed: found {} speeds for {} workers", options.speed.size(),
                      plan.workers);
  }
  if (devices.size() > static_cast<std::size_t>(plan.workers)) {
    throw usage_error("--devices: found {} devices for {} workers", devices.size(), plan.workers);
  }
  if (!plan.optimizer.plain() && !info.plain_sgd_only.empty()) {
    throw with_hint(usage_error("--optimizer: {} {}", info.name, info.plain_sgd_only),
                    "use --optimizer sgd without --weight-decay and --clip-norm");
  }
  check_optimizer(set, plan, info);
  check_precision(options, set, devices);
  check_shared_memory(options, plan, devices, info);
  algorithm.check(plan);
}

void check_model_reads(const ModelInfo& info, const Dataset& train) {
  const bool fields = train.fields.count() > 0;
  if (fields == info.reads_fields) {
    if (!fields || train.task == Task::binary) return;
    throw usage_error("--model: {} is for binary labels, found {} training data", info.name,
                      to_string(train.task));
  }
  std::vector<std::string> names;
  for (const RegisteredModel& each : models()) {
    if (each.info.reads_fields == fields) names.push_back(each.info.name);
  }
  throw with_hint(
      usage_error("--model: {} reads {}, but the training data have {}", info.name,
                  info.reads_fields ? "dense columns and categories" : "sparse features",
                  fields ? fmt::format("{} dense columns and {} fields of categories",
                                       train.dense.columns, train.fields.count())
                         : "sparse features alone"),
      fmt::format("models of such data are {}", fmt::join(names, ", ")));
}

void check_model_fits(const ModelInfo& info, const Layout& layout, double machine_bytes) {
  const double needed = 2 * sizeof(float) * layout.real_size;
  if (needed <= machine_bytes) return;
  throw with_hint(
      usage_error("--model: {} has {} parameters of these data and needs at least {} of memory, "
                  "this machine has {}",
                  info.name, format_count(layout.real_size), format_bytes(needed),
                  format_bytes(machine_bytes)),
      fmt::format("{}; `hetsgd models {}` has its options", info.blocks, info.name));
}

}  // namespace hetsgd
