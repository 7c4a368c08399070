#include "training/train_options.hpp"

#include <algorithm>
#include <filesystem>

#include "cluster/straggler.hpp"
#include "core/error.hpp"
#include "core/file_registry.hpp"
#include "core/options.hpp"
#include "core/text.hpp"
#include "data/select.hpp"
#include "data/source.hpp"
#include "training/checkpoint.hpp"

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

// How rows change, whether they are cached, in which order they come, and which worker has them.
void declare_rows(OptionSet& set, TrainOptions& o) {
  set.add_choice(
      "augment", o.augment,
      {{"none", Augmentation::none},
       {"crop", Augmentation::crop},
       {"flip", Augmentation::flip},
       {"crop,flip", Augmentation::crop_flip},
       {"shift", Augmentation::shift}},
      "Random augmentation of the training rows. crop shifts an image by up to 4 pixels, "
      "and flip mirrors half of the images. shift begins each block of a text up to "
      "--block - 1 tokens later.");
  set.add("cache", o.cache,
          "Keep parsed data files in a binary cache, from which later runs load them faster. Its "
          "directory is $HETSGD_CACHE_DIR, else $XDG_CACHE_HOME/hetsgd, else ~/.cache/hetsgd.");
  set.add_choice(
      "order", o.order,
      {{"shuffled", Order::shuffled},
       {"sequential", Order::sequential},
       {"bucketed", Order::bucketed}},
      "Order of the samples in an epoch. sequential keeps the order of the file (in logs, of "
      "time). bucketed shuffles, then puts sequences, or lines of text, of similar length into one "
      "batch.");
  set.add_choice("partition", o.partition,
                 {{"shared", Partition::shared},
                  {"iid", Partition::iid},
                  {"label_sorted", Partition::label_sorted},
                  {"dirichlet", Partition::dirichlet}},
                 "Division of the training rows among the workers. shared is one pool for all. iid "
                 "gives random shards, label_sorted shards in order of the first label (a text is "
                 "cut into contiguous parts), and dirichlet shards with random mixes of classes.");
  set.add("dirichlet_alpha", o.dirichlet_alpha,
          "Concentration of the Dirichlet distribution. A large value makes the shards alike, and "
          "a value near 0 gives each shard its own classes.")
      .symbol("alpha")
      .range(1e-9, 1e9)
      .needs("partition", {"dirichlet"});
}

void declare_data(OptionSet& set, TrainOptions& o) {
  set.group("Data");
  set.add("train", o.train,
          "Training data: a file, a data set's name (`hetsgd data fetch`), or synthetic data "
          "(generate:PRESET?scale=S, for example generate:tiny). Files are XC, libSVM or Criteo "
          "text, text to learn (--format text), IDX or CIFAR images, or .hsgd. They may be "
          "compressed (.gz, .bz2, .zst).")
      .reads_file(data_files)
      .first();
  set.add("test", o.test,
          "Test data: a file, or the same name as for --train, which stands for the test part. "
          "tail:1/7 holds out the last seventh of the training rows instead. Without test data the "
          "model is evaluated on the training data.")
      .reads_file(data_files)
      .excludes("validation")
      .first();
  set.add("validation", o.validation,
          "Hold out this share of the training rows and evaluate on them instead of --test. The "
          "same rows are held out for every algorithm and seed.")
      .range(0, 1)
      .excludes("test");
  declare_file_format(set, o.format, o.index_base);
  declare_text(set, o.text);
  declare_vocabulary(set, o.vocabulary, {{"model", models_with_tables()}});
  set.add(
      "image", o.image,
      "Treat each sparse row as an image of this shape (channels x height x width, for example "
      "1x28x28). Pixels are whole numbers to 255, or shares of 1 if no training pixel is above.");
  declare_rows(set, o);
}

void declare_model(OptionSet& set, TrainOptions& o) {
  set.group("Model");
  set.add("model", o.model,
          "Model to train: a name that `hetsgd models` lists, or a network (JSON).")
      .reads_file()
      .first();
  set.group(fmt::format("Options of {}", o.model));
  o.model_factory->declare(set);
  set.group("Embedding tables", {{"model", models_with_tables()}});
  o.tables.declare(set);
  o.optimizer.declare_tables(set);
}

void declare_method(OptionSet& set, TrainOptions& o) {
  set.group("Method");
  set.add("plugin", o.plugin,
          "Shared library with additional algorithms or models, built by hetsgd_add_plugin. Repeat "
          "the option for several.")
      .reads_file();
  set.add("algorithm", o.algorithm,
          "Method by which the workers train together. `hetsgd algorithms` lists the methods.")
      .first();
  set.add("batch_size", o.batch_size,
          "Mini-batch size of each worker. Methods that adapt batch sizes never exceed it.")
      .unit("samples")
      .symbol("b_max")
      .range(1, kLargestBatch)
      .first();
  set.add(
         "learning_rate", o.learning_rate,
         "Learning rate of a mini-batch of --batch-size samples. A smaller mini-batch uses a "
         "proportionally smaller rate. The default is that of the model, which suits plain SGD. It "
         "is divided by the number of workers for methods whose workers each move one common "
         "model (`hetsgd algorithms NAME` says so); --print-config shows the outcome.")
      .symbol("lr")
      .above(0)
      .first();
  set.add("mega_batch", o.mega_batch,
          "Number of mini-batches of --batch-size samples, over all workers, between two merges of "
          "elastic and adaptive. Without --evaluate-every all methods are evaluated as often. "
          "Methods that work in rounds are evaluated after a round.")
      .unit("batches")
      .range(1, kLargestRound);
  set.add("seed", o.seed, "Seed of all random numbers of the run.");
  o.optimizer.declare(set);
  o.schedule.declare(set);
}

void declare_workers(OptionSet& set, TrainOptions& o) {
  set.add("cluster", o.cluster,
          "Where the workers run: sim (simulated on a virtual clock), threads (a thread per "
          "worker) or mpi (a process per worker). Under mpirun and srun the default is mpi.");
  set.add("workers", o.workers,
          "Number of workers. auto: one per device of --devices or per MPI rank, else 1.")
      .symbol("P")
      .at_least(1)
      .or_zero()
      .first();
  set.add(
      "devices", o.devices,
      "Device of each worker with --cluster threads or mpi, for example cpu:2 (two cores each), "
      "cuda:all, or cuda:0,cpu:1*8 (a GPU and eight cores). The last device repeats.");
  set.add_choice(
      "all_reduce", o.all_reduce,
      {{"auto", AllReduce::automatic},
       {"nccl", AllReduce::nccl},
       {"ring", AllReduce::ring},
       {"tree", AllReduce::tree},
       {"mpi", AllReduce::mpi},
       {"host", AllReduce::host}},
      "How GPUs run collectives. auto takes nccl if NCCL is installed and every worker has its own "
      "GPU. Else it takes ring with --cluster threads. With --cluster mpi it takes mpi if the MPI "
      "library accepts pointers to GPU memory (for messages, too), else host. ring, mpi and host "
      "add in rank order as CPUs do. nccl and tree add in another, fixed order.");
  set.add_choice(
      "precision", o.precision,
      {{"fp32", Precision::fp32}, {"tf32", Precision::tf32}, {"bf16", Precision::bf16}},
      "Precision of the factors of matrix products in training. Sums, weights, optimizers and "
      "evaluation are always fp32. tf32 needs GPUs. On CPUs and with --cluster sim, bf16 rounds "
      "the factors to BF16 and adds in a defined order, so every x86-64 processor computes the "
      "same bits. It is for the speed of AMX; on CPUs without it, it is for equal bits alone.");
  set.add_choice("convolution_library", o.convolution_library,
                 {{"own", ConvolutionLibrary::own}, {"cudnn", ConvolutionLibrary::cudnn}},
                 "Library for convolutions on GPUs in training. own copies the windows out and "
                 "multiplies them with cuBLAS. cudnn must be installed. It adds in another order, "
                 "so results differ in their last bits. Evaluation always uses own.");
}

// The options about the workers' devices and links, real and simulated.
void declare_machines(OptionSet& set, TrainOptions& o) {
  set.add("profile", o.profile,
          "Device profile of the simulated workers: a built-in name (`hetsgd devices`) or a JSON "
          "file. A list such as v100*4,gtx-1080ti has one per worker in rank order, and the last "
          "repeats. On GPUs the first profile sets the rates for memory plans of networks. There "
          "the default is the built-in profile with the GPU's name.")
      .reads_file(device_profile_names);
  set.add("server_profile", o.server_profile,
          "Device profile of the simulated host on which services such as parameter servers "
          "compute: a built-in name or a JSON file.")
      .reads_file()
      .needs("cluster", {"sim"});
  set.add("network", o.network,
          "Network model of the simulated cluster: a built-in name or a JSON file.")
      .reads_file()
      .needs("cluster", {"sim"});
  set.add("host_cores", o.host_cores,
          "Cores of one simulated host that all workers with a CPU's profile share with background "
          "tasks, services and the copying of messages, as on threads and mpi. none: each has "
          "cores of its own.")
      .range(1, 4096)
      .absent("none")
      .needs("cluster", {"sim"});
  set.add("speed", o.speed,
          "Relative compute speed of each worker, for example 1,0.92,0.84,0.76. The last one "
          "repeats. Speeds are constant, and --straggler kind=jitter makes them oscillate. Real "
          "workers can only be slowed down, by speeds below 1.")
      .range(1e-6, 1e6);
  set.add("straggler", o.straggler,
          "Straggler to inject, for example 'kind=uniform,min=0ms,max=50ms' (`hetsgd stragglers` "
          "lists the kinds). Repeat the option to combine several. none removes those of a "
          "--config file or of a result to rerun.")
      .reads_file(straggler_files)
      .absent("none");
  set.add("detect", o.detect,
          "Time from the loss of a worker until the others know (--straggler kind=fail or churn).")
      .unit("s")
      .at_least(0);
  set.add_choice(
      "on_loss", o.on_loss,
      {{"continue", OnLoss::go_on}, {"restart", OnLoss::restart}, {"abort", OnLoss::abort}},
      "What follows when a worker is lost. continue: the others go on without it, and it "
      "joins them when it returns. restart: all wait for its return and go on from the "
      "last checkpoint, or from the start. abort: the run ends.");
  set.add("restart_time", o.restart_time,
          "Time that --on-loss restart takes from the return of the last lost worker to the first "
          "step.")
      .unit("s")
      .at_least(0);
  set.add_choice("orphans", o.orphans, {{"wait", Orphans::wait}, {"share", Orphans::share}},
                 "What becomes of the rows of a lost worker's shard (--partition). wait: nobody "
                 "learns from them until it returns. share: they are dealt to the others, as part "
                 "of their shards.")
      .needs("partition", {"iid", "label_sorted", "dirichlet"});
  set.add(
         "replay", o.replay,
         "Record of --record-timeline, or step times of another tool (CSV), under whose conditions "
         "the simulated cluster runs. Its step times, profiles, speeds and network replace those "
         "of --profile, --speed, --straggler and --network.")
      .reads_file()
      .needs("cluster", {"sim"});
  set.add_choice("replay_by", o.replay_by,
                 {{"iteration", ReplayBy::iteration}, {"time", ReplayBy::time}},
                 "Which recorded step a step of a replay is like: the one of the same number, or "
                 "the one at the same time on the clock (interference from outside).")
      .needs("replay");
  set.add("charge", o.charge,
          "Workload that the simulated clock is charged for instead of the trained one. It is a "
          "full-size data set (amazon670k, criteo), a network (resnet-50, lstm-video), or fitted "
          "times of sharded tables (sven-dcn). A JSON file holds a network or fitted times.")
      .reads_file()
      .needs("cluster", {"sim"});
  set.add("charge_batch", o.charge_batch,
          "Samples that a batch is charged for if --charge names a network. auto: --batch-size.")
      .unit("samples")
      .range(1, 1e9)
      .needs("charge");
  set.add("step_time", o.step_time,
          "Time of an undisturbed step on the simulated clock, whatever its work, as in a scenario "
          "that `hetsgd fit` makes from step times of another tool. 0: the time of its work.")
      .unit("s")
      .at_least(0)
      .needs("cluster", {"sim"});
}

void declare_processes(OptionSet& set, TrainOptions& o) {
  set.add("service_rank", o.service_rank,
          "Reserve the last rank for services (parameter servers, schedulers). It runs no worker.")
      .needs("cluster", {"mpi"});
  set.add("peer_timeout", o.peer_timeout,
          "Time limit for MPI ranks. The run ends if a rank has not started, a rank sends no "
          "heartbeat, or all ranks wait for each other for so long.")
      .unit("s")
      .above(0)
      .not_in_config()
      .needs("cluster", {"mpi"});
  set.add("host_threads", o.host_threads,
          "Threads for evaluation and, with --cluster sim, for the computations of the simulated "
          "workers. auto: all cores.")
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
  set.add("epochs", o.epochs,
          "Length of the run in passes over the training data, counted over all workers. A run "
          "needs --epochs, --max-samples or --max-time.")
      .unit("epochs")
      .range(0, 1e9)
      .zero_word("none")
      .excludes("max_samples")
      .first();
  set.add("max_samples", o.max_samples,
          "Length of the run in training samples, counted over all workers.")
      .unit("samples")
      .range(0, kMostSamples)
      .zero_word("none")
      .excludes("epochs");
  set.add("max_time", o.max_time,
          "Length of the run on the training clock (no loading, no evaluation), for example 90s.")
      .unit("s")
      .at_least(0)
      .zero_word("none");
  set.add("target", o.target,
          "Value of a metric to reach, for example 'p1>=0.6'. The result reports the time to it. "
          "Repeat the option for several targets.")
      .first();
  set.add("stop_at_target", o.stop_at_target,
          "End the run once all targets are held for certain (at three of five evaluations).")
      .needs("target");
  set.add("require_target", o.require_target,
          "Exit with code 3 if a target was missed (8 if the run diverged).")
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
  set.add("evaluate_every", o.evaluate_every,
          "Training samples between two evaluations, over all workers. auto: one mega-batch.")
      .unit("samples")
      .range(1, kMostSamples)
      .or_zero();
  set.add("evaluate_samples", o.evaluate_samples,
          "Test rows per evaluation, spread evenly over the test data. auto: all.")
      .unit("samples")
      .at_least(1)
      .or_zero();
  set.add("record_steps", o.record_steps,
          "Record every step (time, rank, samples, loss) as an event of the result.");
  set.add("dump_initial_parameters", o.dump_initial_parameters,
          "File for the initial parameters, as raw float32 values.")
      .writes_file("the initial model");
  set.add("dump_parameters", o.dump_parameters,
          "File for the last evaluated parameters, as raw float32 values.")
      .writes_file("the model");
  set.add("trace", o.trace,
          "File for a timeline of the workers' steps, messages, collectives, services and "
          "evaluations, for chrome://tracing or ui.perfetto.dev. The result then also says which "
          "worker waited for which. NVIDIA's profilers show the same ranges.")
      .writes_file("the trace");
  set.add("record_timeline", o.record_timeline,
          "File for a record of every blocking call of every worker, from which `hetsgd replay` "
          "explains the run's time and `hetsgd fit` makes a straggler scenario, for example "
          "run.jsonl.zst. It is compressed unless the name ends in .jsonl. The result also says "
          "which worker waited for which.")
      .writes_file("the timeline");
  set.add("mllog", o.mllog,
          "File for the run in MLPerf's log format, written at the end of the run. With --cluster "
          "sim its time_ms is the first reading of the training data plus simulated time.")
      .writes_file("the log of the run");
  set.add("tensorboard", o.tensorboard,
          "Existing directory for an event file, by which TensorBoard shows losses, metrics, "
          "learning rate and samples/s over training samples. Its wall_time is time_ms of --mllog.")
      .writes_file("the event file",
                   [](const std::string& folder) { return std::vector{event_file(folder)}; })
      .not_to_streams();
}

void declare_checkpoints(OptionSet& set, TrainOptions& o) {
  set.group("Checkpoints");
  set.add("checkpoint", o.checkpoint,
          "File for the state of the run, from which --resume-from goes on. It is written between "
          "two segments of the run: at every --checkpoint-every-th evaluation, at --checkpoint-at, "
          "and at the next evaluation after signal SIGUSR1. With --cluster mpi every rank has a "
          "file beside it.")
      .writes_file("the checkpoint",
                   [&o](const std::string& file) {
                     return checkpoint_files(file, o.checkpoint_keep, o.processes().size());
                   })
      .replaces_only({kCheckpointMagic.data(), kCheckpointMagic.size()}, "--resume-from");
  set.add("checkpoint_every", o.checkpoint_every, "Number of evaluations between two checkpoints.")
      .unit("evaluations")
      .range(0, kMostSamples)
      .zero_word("never")
      .needs("checkpoint");
  set.add(
         "checkpoint_at", o.checkpoint_at,
         "Samples at whose next evaluation a segment of the run ends, for example 51200,102400. "
         "Without --checkpoint the state is not written, but a run repeats the segments of another "
         "one.")
      .unit("samples")
      .absent("none");
  set.add("checkpoint_time", o.checkpoint_time,
          "Time that all workers stand still at a checkpoint in simulated time.")
      .unit("s")
      .at_least(0);
  set.add("checkpoint_keep", o.checkpoint_keep,
          "Number of checkpoints to keep. The ones before the last have .1, .2 and so on behind "
          "their name. If that is a link, they lie beside the file that it points to.")
      .range(1, 100)
      .not_in_config()
      .needs("checkpoint");
  set.add(
         "resume_from", o.resume_from,
         "Checkpoint from which the run goes on. Options, data and code must be those of the run "
         "that wrote it; only budget, targets and output may differ, and the learning rate keeps "
         "its schedule. --checkpoint may name the same file, or the one that this one was kept of.")
      .reads_file([&o](const std::string& file) {
        const std::vector<std::string> own = generations(o.checkpoint, o.checkpoint_keep);
        const FileIdentity read = FileIdentity::of(file);
        const bool is_own =
            !o.checkpoint.empty() && std::ranges::any_of(own, [&](const auto& name) {
              return FileIdentity::of(name).same_as(read);
            });
        return is_own ? std::vector<std::string>() : std::vector{file};
      })
      .of_call();
}

void declare_output(OptionSet& set, TrainOptions& o) {
  set.group("Output");
  set.add("output", o.output, "Result file (JSON). - writes the result to stdout.")
      .writes_file("the result")
      .first();
  set.add("overwrite", o.overwrite, "Replace existing output files. No input is ever replaced.")
      .of_call();
  set.add("resume", o.resume, "Skip the run if --output already holds its completed result.")
      .of_call();
  set.add("redact", o.redact, "Leave host names and paths out of the result.").not_in_config();
  set.add("log_dir", o.log_dir, "Directory in which each rank appends its messages to rank_N.log.")
      .appends_to_file("the log", [&o](const std::string& text) {
        return files_of_ranks(o, [&](int rank) { return log_file(text, rank); });
      });
  set.add("progress_every", o.progress_every, "Time between progress lines.")
      .unit("s")
      .above(0)
      .of_call();
  set.add("quiet", o.quiet, "Print neither progress nor summary.").of_call();
  set.add_choice("color", o.color,
                 {{"auto", ColorMode::automatic},
                  {"always", ColorMode::always},
                  {"never", ColorMode::never}},
                 "When messages are coloured. auto: on a terminal.")
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
                  {"cifar100", DataFormat::cifar100},
                  {"text", DataFormat::text}},
                 "Format of the data files. detect recognises it from their content, except text, "
                 "whose tokens are learnt (--tokens).");
  set.add_choice(
      "index_base", index_base,
      {{"detect", IndexBase::detect}, {"0", IndexBase::zero}, {"1", IndexBase::one}},
      "Smallest feature index in libSVM text. detect: 0 if the file has an index 0, else 1; the "
      "training file decides for a test file.");
}

std::string event_file(const std::string& folder) { return folder + "/events.out.tfevents.hetsgd"; }

std::string log_file(const std::string& folder, int rank) {
  return fmt::format("{}/rank_{}.log", folder, rank);
}

void TrainOptions::choose_model(const std::string& name) {
  model_factory = find_model(name).make();
  model = name;
  learning_rate = model_factory->learning_rate();
  text.block = static_cast<std::uint32_t>(
      std::min<std::int64_t>(TextRules().block, model_factory->longest_row()));
}

void TrainOptions::declare(OptionSet& set) {
  declare_data(set, *this);
  declare_model(set, *this);
  declare_method(set, *this);
  declare_cluster(set, *this);
  declare_budget(set, *this);
  declare_measuring(set, *this);
  declare_checkpoints(set, *this);
  declare_output(set, *this);
}

void TrainOptions::validate() const {
  schedule.validate();
  optimizer.validate();
  tables.validate();
  if (train.empty()) {
    refuse("--train", "no training data", "a file, a data set's name or generate:tiny");
  }
  tail_share(test);
  if (validation > 0 && !test.empty()) {
    refuse("--validation", fmt::format("{} beside --test {}", validation, test), "one of the two",
           "choose options on held-out training rows, then measure on the test file");
  }
  if (augment == Augmentation::shift && validation > 0) {
    refuse("--augment", fmt::format("shift with --validation {}", validation),
           "--test tail:1/10 there", "blocks would move into the held-out rows between them");
  }
  if (format == DataFormat::text && text.rows == TextRows::lines &&
      augment == Augmentation::shift) {
    refuse("--augment", "shift with --rows lines", "blocks, which can begin anywhere",
           "use --rows blocks");
  }
  if (epochs == 0 && max_samples == 0 && max_time.count() == 0) {
    refuse("--epochs", "no budget", "--epochs, --max-samples or --max-time");
  }
  if (epochs > 0 && max_samples > 0) {
    refuse("--max-samples", fmt::format("{} beside --epochs {}", max_samples, epochs),
           "one of the two");
  }
  model_factory->validate();
  if ((stop_at_target || require_target) && target.empty()) {
    refuse(stop_at_target ? "--stop-at-target" : "--require-target", "no --target",
           "one such as --target 'p1>=0.6'");
  }
  if (charge.empty() && charge_batch) {
    refuse("--charge-batch", fmt::format("{} without --charge", *charge_batch),
           "a network to charge, such as --charge resnet-50");
  }
  if (checkpoint_time > Seconds(0) && !is_virtual()) {
    refuse("--checkpoint-time",
           fmt::format("{} s with --cluster {}", checkpoint_time.count(), cluster), "--cluster sim",
           "in real time the clock stands while a checkpoint is written");
  }
  if (!charge.empty() && !is_virtual()) {
    refuse("--charge", fmt::format("{} with --cluster {}", charge, cluster),
           "--cluster sim, whose clock it charges");
  }
  if (step_time > Seconds(0) && (!is_virtual() || !charge.empty() || !replay.empty())) {
    refuse("--step-time", format_seconds(step_time) + " beside --charge, --replay or real time",
           "--cluster sim, where nothing else says what a step takes");
  }
  if (!replay.empty()) {
    if (!is_virtual()) refuse("--replay", "--cluster " + cluster, "--cluster sim");
    if (!straggler.empty()) {
      refuse("--straggler", "a straggler beside --replay", "none, because the record has its own");
    }
    if (!speed.empty()) {
      refuse("--speed", "speeds beside --replay", "none, because the record has its own");
    }
    if (host_cores) {
      refuse("--host-cores", fmt::format("{} beside --replay", *host_cores),
             "none, because recorded steps contain the waiting for cores already");
    }
  }
  if (service_rank && !cluster_kind(cluster).join) {
    refuse("--service-rank", "--cluster " + cluster, "--cluster mpi");
  }
}

}  // namespace hetsgd
