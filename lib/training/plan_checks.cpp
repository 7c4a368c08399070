#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/rank_index.hpp"
#include "core/text.hpp"
#include "training/plan.hpp"
#include "training/simulation/charge.hpp"

namespace hetsgd {
namespace {

using Devices = std::vector<std::string>;

bool is_gpu(const std::string& device) { return device.starts_with("cuda:"); }

// The first GPU among the devices; "" if there is none.
std::string first_gpu_in(const Devices& devices) {
  const auto gpu = std::ranges::find_if(devices, is_gpu);
  return gpu == devices.end() ? "" : *gpu;
}

void check_precision(const TrainOptions& options, const Devices& devices) {
  if (options.precision != Precision::tf32) return;
  const auto cpu = std::ranges::find_if_not(devices, is_gpu);
  if (!options.is_virtual() && !devices.empty() && cpu == devices.end()) return;
  refuse("--precision",
         "tf32 with " + (options.is_virtual() ? "--cluster " + options.cluster
                         : devices.empty()    ? "no --devices"
                                              : "--devices " + *cpu),
         "fp32 or bf16 where a worker computes on a CPU",
         "TF32 is a format of a GPU's tensor cores: --devices cuda:0; bf16 runs on CPUs too");
}

void check_convolutions(const TrainOptions& options, const Devices& devices) {
  if (options.convolution_library == ConvolutionLibrary::own) return;
  std::string beside;
  if (options.is_virtual()) {
    beside = "--cluster " + options.cluster;
  } else if (first_gpu_in(devices).empty()) {
    beside = "no GPU in --devices";
  } else if (!find_model(options.model).info.reads_images) {
    beside = fmt::format("--model {}, which has no convolutions", options.model);
  } else if (options.precision == Precision::bf16) {
    beside = "--precision bf16, which cuDNN lacks for float32";
  } else {
    return;
  }
  refuse("--convolution-library", "cudnn with " + beside, "own there",
         "cuDNN computes convolutions on GPUs, in fp32 or tf32, for example --model lenet-5 "
         "--cluster threads --devices cuda:0");
}

void check_optimizer(const OptionSet& set, const Plan& plan, const AlgorithmInfo& info) {
  if (!plan.optimizer.plain() && !info.plain_sgd_only.empty()) {
    throw with_hint(usage_error("--optimizer: {} {}", info.name, info.plain_sgd_only),
                    "use --optimizer sgd without --weight-decay and --clip-norm");
  }
  if (info.optimizers_only.empty()) return;
  const std::string name = set.to_json()["optimizer"].get<std::string>();
  const bool known = std::ranges::count(info.optimizers_only, name) > 0;
  if (known && plan.optimizer.weight_decay == 0 && plan.optimizer.clip_norm == 0) return;
  refuse("--optimizer",
         fmt::format("{} with --weight-decay {} and --clip-norm {}", name,
                     plan.optimizer.weight_decay, plan.optimizer.clip_norm),
         fmt::format("{} without both for {}", fmt::join(info.optimizers_only, " or "), info.name),
         "elastic and adaptive with one worker take all optimizers");
}

// Refuses GPUs and several processes for algorithms that need one host memory for all workers. Also
// refuses GPUs for models that a GPU cannot train.
void check_memory_of_workers(const TrainOptions& options, const Plan& plan, const Devices& devices,
                             const AlgorithmInfo& info) {
  const std::string gpu = first_gpu_in(devices), reason = options.model_factory->cpu_only();
  if (!gpu.empty() && !info.cpu_only.empty()) {
    refuse("--devices", gpu, fmt::format("CPUs: {} {}", info.name, info.cpu_only),
           "hogbatch and asgd are asynchronous, too, and their workers may be GPUs");
  }
  if (!info.one_process_only.empty() && plan.workers > 1 && cluster_kind(options.cluster).join) {
    refuse("--cluster", fmt::format("{} with {} workers", options.cluster, plan.workers),
           fmt::format("workers in one process: {} {}", info.name, info.one_process_only),
           "use --cluster threads, or asgd, whose workers may be processes");
  }
  if (!gpu.empty() && !reason.empty()) refuse("--devices", gpu, "CPUs: " + reason);
}

void check_exchange(const Plan& plan, const AlgorithmInfo& info) {
  if (plan.served_tables) {
    if (info.sharded_tables_only.empty()) return;
    refuse("--table-exchange", "served",
           fmt::format("collective: {} {}", info.name, info.sharded_tables_only),
           "asgd works with served tables");
  }
  if (info.lockstep) return;
  std::vector<std::string> names;
  for (const RegisteredAlgorithm& each : algorithms()) {
    if (each.info.lockstep) names.push_back(each.info.name);
  }
  refuse("--table-exchange",
         fmt::format("collective with {}, whose workers do not make all their steps together",
                     info.name),
         "served", fmt::format("{} exchange rows together", fmt::join(names, ", ")));
}

// A companion serves rows from host memory only. On a real GPU rows do not move between memories.
void check_tables(const TrainOptions& options, const Plan& plan, const Devices& devices,
                  const AlgorithmInfo& info) {
  if (!plan.sharded_tables) {
    if (info.sharded_tables_only.empty()) return;
    refuse("--tables", "replicated",
           fmt::format("sharded: {} {}", info.name, info.sharded_tables_only),
           "add --tables sharded and a click-through model (--model deepfm)");
  }
  if (!info.replicated_tables_only.empty()) {
    refuse("--tables", "sharded",
           fmt::format("replicated: {} {}", info.name, info.replicated_tables_only),
           "asgd and local-sgd take sharded tables");
  }
  check_exchange(plan, info);
  const std::string gpu = first_gpu_in(devices);
  if (gpu.empty()) return;
  if (plan.served_tables) {
    refuse("--devices", gpu + " with served tables", "CPUs",
           "GPUs hold replicated tables, and sharded ones with --table-exchange collective (ssgd)");
  }
  if (options.tables.hot_replace_every) {
    refuse("--hot-replace-every", fmt::format("{} with {}", *options.tables.hot_replace_every, gpu),
           "CPUs",
           "rows change their memory only on simulated machines; on a GPU the first choice stays");
  }
}

// A method that computes its own steps asks the charged model for its layers, so that model must
// not be a network.
void check_charge(const TrainOptions& options, const AlgorithmInfo& info) {
  if (info.one_hidden_layer_only.empty() || options.charge.empty()) return;
  if (!is_network_charge(options.charge)) return;
  refuse("--charge", fmt::format("{}, a network", options.charge),
         fmt::format("amazon670k or delicious200k: {} {}", info.name, info.one_hidden_layer_only));
}

// The content of the data, and its name for users.
enum class Readable { sparse, fields, images, sequences, tokens };
constexpr const char* kReadableNames[] = {"sparse features", "dense columns and categories",
                                          "images", "sequences", "tokens"};

Readable readable_of(const Dataset& data) {
  if (data.images.size() > 0) return Readable::images;
  if (data.sequences.numbers > 0) return Readable::sequences;
  if (data.tokens.vocabulary > 0) return Readable::tokens;
  return data.fields.count() > 0 ? Readable::fields : Readable::sparse;
}

Readable read_by(const ModelInfo& info) {
  if (info.reads_images) return Readable::images;
  if (info.reads_tokens) return Readable::tokens;
  return info.reads_fields ? Readable::fields : Readable::sparse;
}

std::string what_is_there(const Dataset& data) {
  switch (readable_of(data)) {
    case Readable::sparse:
      return "sparse features alone";
    case Readable::fields:
      return fmt::format("{} dense columns and {} fields of categories", data.dense.columns,
                         data.fields.count());
    case Readable::images:
      return fmt::format("images of {}x{}x{}", data.images.channels, data.images.height,
                         data.images.width);
    case Readable::sequences:
      return fmt::format("sequences of frames of {} numbers", data.sequences.numbers);
    case Readable::tokens:
      return fmt::format("rows of tokens of {} kinds", data.tokens.vocabulary);
  }
  HETSGD_CHECK(false);
}

// How the rows are ordered, changed and divided.
void check_rows(const Dataset& train, const TrainOptions& options) {
  if (options.order == Order::bucketed && (!train.has_lengths() || train.tokens.room > 0)) {
    refuse("--order", fmt::format("bucketed with {} as training data", what_is_there(train)),
           "sequences, such as generate:video, or --rows lines of a text");
  }
  if (options.augment == Augmentation::shift) {
    if (train.tokens.room > 0) return;
    refuse("--augment", fmt::format("shift with {} as training data", what_is_there(train)),
           "a text in blocks (--format text)");
  }
  if (options.augment != Augmentation::none && train.images.size() == 0) {
    refuse("--augment", what_is_there(train) + " as training data", "images");
  }
}

}  // namespace

void check_plan(const TrainOptions& options, const OptionSet& set, const Plan& plan,
                const std::vector<std::string>& devices, const AlgorithmInfo& info,
                const Algorithm& algorithm) {
  if (plan.workers > info.max_workers) {
    refuse("--workers", fmt::format("{} with --algorithm {}", plan.workers, info.name),
           fmt::format("at most {}", info.max_workers),
           "ssgd, asgd and hogwild run on several workers");
  }
  if (options.speed.size() > at(plan.workers)) {
    refuse("--speed", fmt::format("{} speeds for {} workers", options.speed.size(), plan.workers),
           "at most one for each");
  }
  if (devices.size() > at(plan.workers)) {
    refuse("--devices", fmt::format("{} devices for {} workers", devices.size(), plan.workers),
           "at most one for each");
  }
  check_optimizer(set, plan, info);
  check_precision(options, devices);
  check_convolutions(options, devices);
  check_memory_of_workers(options, plan, devices, info);
  check_tables(options, plan, devices, info);
  check_charge(options, info);
  algorithm.check(plan);
}

void check_sharded(const ModelInfo& info, const Model& model, const OptimizerOptions& optimizer) {
  if (model.table_shape().row() == 0) {
    refuse("--tables", "sharded with --model " + info.name,
           "a model with an embedding table, such as wide_deep, deepfm or dcn");
  }
  if (optimizer.clip_norm == 0) return;
  refuse("--clip-norm", fmt::format("{} with --tables sharded", optimizer.clip_norm),
         "off: no norm spans the rows of all workers",
         "--tables replicated clips the whole gradient");
}

void check_model_reads(const ModelInfo& info, const Dataset& train, const TrainOptions& options) {
  check_rows(train, options);
  const Readable found = readable_of(train), expected = read_by(info);
  if (found == expected) {
    if (found != Readable::fields || train.task == Task::binary) return;
    refuse("--model", fmt::format("{} with {} training data", info.name, to_string(train.task)),
           "binary labels there");
  }
  // A network checks for itself which sequences and which tokens it reads.
  const bool ordered = found == Readable::sequences || found == Readable::tokens;
  if (ordered && expected == Readable::images) return;
  std::vector<std::string> names;
  for (const RegisteredModel& each : models()) {
    if (read_by(each.info) == found) names.push_back(each.info.name);
  }
  std::string hint = fmt::format("models for such data are {}", fmt::join(names, ", "));
  if (expected == Readable::images && found == Readable::sparse) {
    hint = "--image 1x28x28 makes each sparse row an image of that shape";
  } else if (found == Readable::sequences) {
    hint = "networks with lstm nodes read them, such as lstm-video?size=16&units=32&classes=5";
  } else if (names.empty()) {
    hint = "`hetsgd models` lists what each model reads";
  }
  throw with_hint(
      usage_error("--model: {} reads {}, but the training data have {}", info.name,
                  kReadableNames[static_cast<std::size_t>(expected)], what_is_there(train)),
      std::move(hint));
}

void check_model_fits(const ModelInfo& info, const Layout& layout, double machine_bytes) {
  const double needed = 2 * sizeof(float) * layout.real_size;
  if (needed <= machine_bytes) return;
  refuse("--model",
         fmt::format("{} with {} parameters for these data, which need at least {} of memory",
                     info.name, format_count(layout.real_size), format_bytes(needed)),
         fmt::format("at most the {} of this machine", format_bytes(machine_bytes)),
         fmt::format("{}; `hetsgd models {}` has its options", info.blocks, info.name));
}

}  // namespace hetsgd
