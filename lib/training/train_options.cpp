#include "training/train_options.hpp"

#include <filesystem>

#include "cluster/straggler.hpp"
#include "core/error.hpp"
#include "core/limits.hpp"
#include "data/select.hpp"
#include "data/source.hpp"

namespace hetsgd {

namespace {

// The limit of samples of a run and of samples between two evaluations. Sums of the two stay below
// 2^63.
constexpr double kMostSamples = 1e18;

std::vector<std::string> data_files(const std::string& text) {
  return text.starts_with("tail:") ? std::vector<std::string>() : files_of_dataset(text);
}

// The files that the ranks write. An option claims all of them, because no rank may replace
// another's file.
std::vector<std::string> files_of_ranks(const TrainOptions& o,
                                        const std::function<std::string(int)>& file) {
  std::vector<std::string> files;
  for (int rank = 0; rank < o.processes().size(); ++rank) files.push_back(file(rank));
  return files;
}

void declare_data(OptionSet& set, TrainOptions& o) {
  set.group("Data");
  set.add(
         "train", o.train,
         "training file (XC, libSVM or Criteo's text, .gz .bz2 .zst, .hsgd), the name of a fetched "
         "data set (hetsgd data fetch), or generate:PRESET?scale=S")
      .reads_file(data_files)
      .first();
  set.add("test", o.test,
          "test file, or the data set's name again; tail:1/7: the last seventh of the training "
          "rows, which is held out; without it the training data is measured")
      .reads_file(data_files)
      .excludes("validation")
      .first();
  set.add("validation", o.validation,
          "in place of --test: measure on this share of the training rows, held out from learning; "
          "the same rows for every algorithm and seed")
      .range(0, 1)
      .excludes("test");
  declare_file_format(set, o.format, o.index_base);
  const std::vector<OptionNeed> clicks = {{"model", models_with_tables()}};
  set.group("Data", clicks);
  declare_vocabulary(set, o.vocabulary);
  set.group("Data");
  set.add("image", o.image,
          "sparse rows are images of this shape, CxHxW such as 1x28x28; empty: they are not");
  set.add_choice("augment", o.augment,
                 {{"none", Augmentation::none},
                  {"crop", Augmentation::crop},
                  {"flip", Augmentation::flip},
                  {"crop,flip", Augmentation::crop_flip}},
                 "training images are shifted by up to 4 pixels, mirrored, or both, anew in each "
                 "epoch");
  set.add("cache", o.cache,
          "keep parsed files in a binary cache: in $HETSGD_CACHE_DIR, $XDG_CACHE_HOME/hetsgd or "
          "~/.cache/hetsgd");
  set.add_choice(
      "order", o.order,
      {{"shuffled", Order::shuffled},
       {"sequential", Order::sequential},
       {"bucketed", Order::bucketed}},
      "order of the samples in an epoch; sequential: that of the file, for logs that of time; "
      "bucketed: shuffled, and sequences of similar length in one batch");
  set.add_choice("partition", o.partition,
                 {{"shared", Partition::shared},
                  {"iid", Partition::iid},
                  {"label_sorted", Partition::label_sorted},
                  {"dirichlet", Partition::dirichlet}},
                 "one pool for all workers; random shards; shards sorted by first label; or shards "
                 "with a random mix of classes each");
  set.add("dirichlet_alpha", o.dirichlet_alpha,
          "large: shards alike, near 0: each has classes of its own")
      .symbol("alpha")
      .range(1e-9, 1e9)
      .needs("partition", {"dirichlet"});
}

void declare_model(OptionSet& set, TrainOptions& o) {
  set.group("Model");
  set.add("model", o.model, "what is trained; `hetsgd models` lists them").reads_file().first();
  set.group(fmt::format("Options of {}", o.model));
  o.model_factory->declare(set);
  set.group("Embedding tables", {{"model", models_with_tables()}});
  o.tables.declare(set);
  o.optimizer.declare_tables(set);
}

void declare_method(OptionSet& set, TrainOptions& o) {
  set.group("Method");
  set.add(
         "plugin", o.plugin,
         "shared library with more algorithms and models, built with hetsgd_add_plugin; repeat for "
         "several")
      .reads_file();
  set.add("algorithm", o.algorithm,
          "how the workers learn together; `hetsgd algorithms` lists them")
      .first();
  set.add("batch_size", o.batch_size, "largest batch of one worker")
      .unit("samples")
      .symbol("b_max")
      .range(1, kLargestBatch)
      .first();
  set.add("learning_rate", o.learning_rate,
          "learning rate of a batch of b_max; smaller batches scale linearly; each model has a "
          "default of its own, which suits plain SGD")
      .symbol("lr")
      .above(0)
      .first();
  set.add("mega_batch", o.mega_batch, "batches of b_max between merges and between evaluations")
      .unit("batches")
      .range(1, kLargestRound);
  set.add("seed", o.seed, "seed of everything random");
  o.optimizer.declare(set);
  o.schedule.declare(set);
}

void declare_workers(OptionSet& set, TrainOptions& o) {
  set.add("cluster", o.cluster,
          "where workers live: sim (virtual time), threads (real time) or mpi (a process each, the "
          "default under mpirun and srun)");
  set.add("workers", o.workers, "number of workers; auto: as many as --devices or MPI ranks, or 1")
      .symbol("P")
      .at_least(1)
      .or_zero()
      .first();
  set.add("devices", o.devices,
          "threads, mpi: a device per worker, e.g. cpu:2, cuda:0,cuda:1, cuda:0,cpu:1*8 or "
          "cuda:all; the last "
          "repeats");
  set.add_choice("all_reduce", o.all_reduce,
                 {{"auto", AllReduce::automatic},
                  {"nccl", AllReduce::nccl},
                  {"ring", AllReduce::ring},
                  {"tree", AllReduce::tree},
                  {"mpi", AllReduce::mpi},
                  {"host", AllReduce::host}},
                 "workers on GPUs: how collectives run between them; auto: nccl if every worker "
                 "has a GPU of its own and the library is there, else ring (threads) or mpi, if it "
                 "takes pointers to GPU memory (mpi: messages too), else host; ring, mpi and host "
                 "add in rank order as CPUs do, nccl and tree in another order, always the same");
  set.add_choice(
      "precision", o.precision,
      {{"fp32", Precision::fp32}, {"tf32", Precision::tf32}, {"bf16", Precision::bf16}},
      "of a GPU's dense products: factors of 24, 11 or 8 bits, sums of 24; a measurement "
      "is fp32 always");
  set.add_choice("convolution_library", o.convolution_library,
                 {{"own", ConvolutionLibrary::own}, {"cudnn", ConvolutionLibrary::cudnn}},
                 "of a GPU's convolutions: windows copied out and cuBLAS, or cuDNN, which must be "
                 "installed and whose other order of additions gives other bits; "
                 "a measurement takes own always");
}

// The options about the workers' devices and links, real and simulated.
void declare_machines(OptionSet& set, TrainOptions& o) {
  set.add("profile", o.profile,
          "sim: device profile, built-in name or JSON file; or one per worker in the order of "
          "ranks, "
          "v100*4,gtx-1080ti: the last repeats. On GPUs the first says by which rates memory of "
          "networks is planned; where it is not given, the built-in one with the GPU's name")
      .reads_file(device_profile_names);
  set.add("server_profile", o.server_profile,
          "device profile of the host that services compute on (parameter servers)")
      .reads_file()
      .needs("cluster", {"sim"});
  set.add("network", o.network, "network model, built-in name or JSON file")
      .reads_file()
      .needs("cluster", {"sim"});
  set.add("speed", o.speed,
          "relative speed of each worker, e.g. 1,0.92,0.84,0.76; the last repeats")
      .range(1e-6, 1e6);
  set.add("straggler", o.straggler,
          "injected delays, e.g. 'kind=uniform,min=0ms,max=50ms'; repeat to combine; none: no "
          "delays, for rerun and in place of those of --config")
      .reads_file(straggler_files)
      .absent("none");
  set.add("charge", o.charge,
          "charge the clock for the full-size data set and model of this preset, for a "
          "network (resnet-50, vgg-16-cifar?classes=10; lstm-video with videos of unequal "
          "lengths), or by a fitted charge of the stages of sharded tables: a built-in name or a "
          "JSON file")
      .reads_file()
      .needs("cluster", {"sim"});
  set.add("charge_batch", o.charge_batch,
          "samples of the charged network in a batch of --batch-size; auto: as many")
      .unit("samples")
      .range(1, 1e9)
      .needs("charge");
}

void declare_processes(OptionSet& set, TrainOptions& o) {
  set.add("service_rank", o.service_rank,
          "the last rank runs the services (servers, schedulers) and no worker")
      .needs("cluster", {"mpi"});
  set.add(
         "peer_timeout", o.peer_timeout,
         "a rank that does not come to the start, or sends no heartbeat, for so long ends the run, "
         "and so do ranks that all wait for each other for so long")
      .unit("s")
      .above(0)
      .not_in_config()
      .needs("cluster", {"mpi"});
  set.add(
         "host_threads", o.host_threads,
         "host threads for measurements and, in sim, for the workers' mathematics; auto: all cores")
      .range(1, kMostHostThreads)
      .or_zero()
      .not_in_config();
}

void declare_cluster(OptionSet& set, TrainOptions& o) {
  set.group("Cluster");
  declare_workers(set, o);
  declare_machines(set, o);
  declare_processes(set, o);
}

void declare_budget(OptionSet& set, TrainOptions& o) {
  set.group("Budget and targets");
  set.add("epochs", o.epochs, "passes over the training data")
      .unit("epochs")
      .range(0, 1e9)
      .zero_word("none")
      .excludes("max_samples")
      .first();
  set.add("max_samples", o.max_samples, "samples over all workers")
      .unit("samples")
      .range(0, kMostSamples)
      .zero_word("none")
      .excludes("epochs");
  set.add("max_time", o.max_time, "training clock, e.g. 90s")
      .unit("s")
      .at_least(0)
      .zero_word("none");
  set.add("target", o.target, "metric to reach, e.g. 'p1>=0.6'; repeat for several").first();
  set.add(
         "stop_at_target", o.stop_at_target,
         "End the run as soon as all targets are held for certain: at three of five evaluations in "
         "a row.")
      .needs("target");
  set.add("require_target", o.require_target, "exit with 3 when a target was missed")
      .of_call()
      .needs("target");
  set.add("time_limit", o.time_limit,
          "Wall-clock time after which the run ends with exit code 6, counted from the end of "
          "loading. A step, and each part of the set-up, is completed first.")
      .unit("s")
      .at_least(0)
      .zero_word("none")
      .not_in_config();
}

void declare_measuring(OptionSet& set, TrainOptions& o) {
  set.group("Measuring");
  set.add("evaluate_every", o.evaluate_every, "samples between evaluations; auto: one mega-batch")
      .unit("samples")
      .range(1, kMostSamples)
      .or_zero();
  set.add("evaluate_samples", o.evaluate_samples, "test rows used; auto: all")
      .unit("samples")
      .at_least(1)
      .or_zero();
  set.add("record_steps", o.record_steps,
          "record every step (time, rank, samples, loss) as an event");
  set.add("dump_initial_parameters", o.dump_initial_parameters,
          "write the initial model here, float32")
      .writes_file("the initial model");
  set.add("dump_parameters", o.dump_parameters, "write the last measured model here, float32")
      .writes_file("the model");
  set.add(
         "trace", o.trace,
         "write what each worker did when (steps, messages, collectives, services, evaluations, on "
         "the run's clock) for chrome://tracing or ui.perfetto.dev, and into the result who waited "
         "for whom; NVIDIA's profilers see the same ranges")
      .writes_file("the trace");
  set.add("mllog", o.mllog,
          "write the run here, when it has ended, in the format of MLPerf logging; time_ms is the "
          "host's, sim: that of the first touch of the training data plus simulated time")
      .writes_file("the log of the run");
  set.add("tensorboard", o.tensorboard,
          "follow the curve in TensorBoard: an event file in this directory, which exists, with "
          "losses, metrics, learning rate and samples/s by samples learnt from; wall_time as "
          "time_ms "
          "of --mllog")
      .writes_file("the event file",
                   [](const std::string& folder) { return std::vector{event_file(folder)}; });
}

void declare_output(OptionSet& set, TrainOptions& o) {
  set.group("Output");
  set.add("output", o.output, "result file; - is stdout").writes_file("the result").first();
  set.add("overwrite", o.overwrite, "replace existing files, but no input").of_call();
  set.add("resume", o.resume, "skip the run when the output holds its completed result").of_call();
  set.add("redact", o.redact, "leave host names and paths out of the result").not_in_config();
  set.add("log_dir", o.log_dir,
          "write what each rank says to rank_N.log in this directory, after what is there")
      .appends_to_file("the log", [&o](const std::string& text) {
        return files_of_ranks(o, [&](int rank) { return log_file(text, rank); });
      });
  set.add("progress_every", o.progress_every, "time between progress lines")
      .unit("s")
      .above(0)
      .of_call();
  set.add("quiet", o.quiet, "no progress, no summary").of_call();
  set.add_choice("color", o.color,
                 {{"auto", ColorMode::automatic},
                  {"always", ColorMode::always},
                  {"never", ColorMode::never}},
                 "colour on the terminal")
      .of_call();
}

}  // namespace

void declare_file_format(OptionSet& set, DataFormat& format, IndexBase& index_base) {
  set.add_choice("format", format,
                 {{"detect", DataFormat::detect},
                  {"xc", DataFormat::xc},
                  {"libsvm", DataFormat::libsvm},
                  {"criteo", DataFormat::criteo},
                  {"idx", DataFormat::idx},
                  {"cifar10", DataFormat::cifar10},
                  {"cifar100", DataFormat::cifar100}},
                 "format of the data files");
  set.add_choice("index_base", index_base,
                 {{"detect", IndexBase::detect}, {"0", IndexBase::zero}, {"1", IndexBase::one}},
                 "smallest feature index of libSVM text");
}

std::string event_file(const std::string& folder) { return folder + "/events.out.tfevents.hetsgd"; }

std::string log_file(const std::string& folder, int rank) {
  return fmt::format("{}/rank_{}.log", folder, rank);
}

void TrainOptions::choose_model(const std::string& name) {
  model_factory = find_model(name).make();
  model = name;
  learning_rate = model_factory->learning_rate();
}

void TrainOptions::declare(OptionSet& set) {
  declare_data(set, *this);
  declare_model(set, *this);
  declare_method(set, *this);
  declare_cluster(set, *this);
  declare_budget(set, *this);
  declare_measuring(set, *this);
  declare_output(set, *this);
}

void TrainOptions::validate() const {
  schedule.validate();
  optimizer.validate();
  tables.validate();
  if (train.empty()) {
    throw with_hint(usage_error("--train: no training data given"),
                    "name a file, or generate:tiny for synthetic data");
  }
  tail_share(test);
  if (validation > 0 && !test.empty()) {
    refuse("--validation", fmt::format("{} beside --test {}", validation, test), "one of the two",
           "choose options on held-out training rows, then measure on the test file");
  }
  if (epochs == 0 && max_samples == 0 && max_time.count() == 0) {
    throw with_hint(usage_error("no budget: expected --epochs, --max-samples or --max-time"),
                    "for example --epochs 5");
  }
  if (epochs > 0 && max_samples > 0) {
    refuse("--max-samples", fmt::format("{} beside --epochs {}", max_samples, epochs),
           "one of the two");
  }
  model_factory->validate();
  if ((stop_at_target || require_target) && target.empty()) {
    throw with_hint(usage_error("{}: no target given",
                                stop_at_target ? "--stop-at-target" : "--require-target"),
                    "add --target 'p1>=0.6'");
  }
  if (charge.empty() && charge_batch) {
    throw with_hint(usage_error("--charge-batch: found {} without --charge", *charge_batch),
                    "add --charge resnet-50");
  }
  if (!charge.empty() && !is_virtual()) {
    refuse("--charge", fmt::format("{} with --cluster {}", charge, cluster),
           "--cluster sim, whose clock it charges");
  }
  if (service_rank && !cluster_kind(cluster).join) {
    throw usage_error("--service-rank: found with --cluster {}, expected --cluster mpi", cluster);
  }
}

}  // namespace hetsgd
