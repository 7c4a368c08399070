// Every option of `hetsgd train` that does not belong to an algorithm, and the options of its
// output.
//
//   made ─> choose_model ─> declare(set) ─> set from files, environment, flags ─> validate ─> const
//
// The set refers to the members, so the object must not move after declare(). Help, ranges and
// units stand with the declarations (train_options.cpp); the comments here say what a value means
// to the code. An optional without a value is spelled "auto". Options that do not change a run's
// result (paths, time-outs, output) are not part of its `config` (not_in_config).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithm/worker.hpp"
#include "cluster/cluster.hpp"
#include "core/options.hpp"
#include "core/units.hpp"
#include "data/load.hpp"
#include "data/sampler.hpp"
#include "linalg/convolution_kernels.hpp"
#include "linalg/device.hpp"
#include "model/registry.hpp"
#include "table/options.hpp"
#include "training/replay/replay_profile.hpp"

namespace hetsgd {

// The consequence of the loss of a worker. The others go on without it, or all wait for it and go
// on from the last checkpoint, or the run ends.
enum class OnLoss { go_on, restart, abort };
enum class Orphans { wait, share };

enum class ColorMode { automatic, always, never };

struct TrainOptions : MethodSettings {
  // The learning rate is at first the default of the model.
  TrainOptions() { learning_rate = model_factory->learning_rate(); }

  // data
  std::string train;
  std::string test;
  double validation = 0;  // share of the training rows that replaces `test`; 0: none
  DataFormat format = DataFormat::detect;
  IndexBase index_base = IndexBase::detect;
  VocabularyRules vocabulary;
  TextRules text;
  std::string image;  // "1x28x28": sparse rows are images of that shape
  Augmentation augment = Augmentation::none;
  bool cache = true;
  // model
  std::string model = "mlp";
  // The factory holds the model's own options. Copies of these options share it, so a change made
  // by one of them is seen by all.
  std::shared_ptr<ModelFactory> model_factory = find_model("mlp").make();
  TableOptions tables;
  // method
  std::vector<std::string> plugin;  // files of external algorithms and models
  std::string algorithm = "sgd";
  Order order = Order::shuffled;
  double dirichlet_alpha = 0.5;
  Schedule schedule;
  // cluster
  std::string cluster = default_cluster(/*is_virtual=*/true);
  std::optional<int> workers;  // none: as many as devices or MPI ranks, or 1
  std::vector<std::string> devices;
  Precision precision = Precision::fp32;
  ConvolutionLibrary convolution_library = ConvolutionLibrary::own;
  AllReduce all_reduce = AllReduce::automatic;
  std::string profile = "v100";
  std::string server_profile = "xeon-e5-2650v4";
  std::string network = "pcie3";
  std::vector<double> speed;
  std::vector<std::string> straggler;
  std::string replay;  // timeline whose conditions replace profile, speed, stragglers, network
  ReplayBy replay_by = ReplayBy::iteration;
  std::string charge;                         // "", amazon670k, delicious200k, resnet-50
  std::optional<std::uint64_t> charge_batch;  // none: as many samples as the real batch has
  Seconds step_time{0};                       // sim; 0: a step takes the time of its work
  std::optional<int> host_cores;              // sim; none: nothing shares cores
  std::optional<int> host_threads;            // none: all cores
  bool service_rank = false;
  Seconds peer_timeout = kPeerTimeout;
  // budget and targets
  double epochs = 0;
  std::uint64_t max_samples = 0;
  Seconds max_time{0};    // on the training clock
  Seconds time_limit{0};  // wall-clock time; ends the run with exit code 6
  std::vector<std::string> target;
  bool stop_at_target = false;
  bool require_target = false;
  // measuring
  std::optional<std::uint64_t> evaluate_every;    // samples; none: one mega-batch
  std::optional<std::uint64_t> evaluate_samples;  // test rows used; none: all
  std::string dump_initial_parameters;  // file: raw little-endian float32, for outside references
  std::string dump_parameters;          // file: the final model, likewise
  std::string trace;                    // file of the activity of each worker over time
  std::string record_timeline;          // file: what `hetsgd replay` reads
  std::string mllog;                    // file: the run in the format of MLPerf logging
  std::string tensorboard;              // folder of an event file, written while the run goes on
  // checkpoints
  std::string checkpoint;                    // file; "": none
  std::uint64_t checkpoint_every = 5;        // evaluations
  std::vector<std::uint64_t> checkpoint_at;  // samples
  std::uint64_t checkpoint_keep = 2;         // files
  // The run is cut where another one was (rerun), for the same reasons; by samples.
  std::map<std::uint64_t, std::string> repeated_segments;
  Seconds checkpoint_time{0};  // of the simulated clock
  // the loss of workers
  Seconds detect{0.5};
  OnLoss on_loss = OnLoss::go_on;
  Seconds restart_time{0};
  Orphans orphans = Orphans::wait;
  std::string resume_from;  // file; "": the run begins anew
  // output: how to report, not what to run
  std::string output;
  bool overwrite = false;
  bool resume = false;
  bool redact = false;
  std::string log_dir;
  Seconds progress_every{10};
  bool quiet = false;
  ColorMode color = ColorMode::automatic;

  // Chooses the model, and sets the learning rate to the model's default. To be called before
  // declare(), which declares the model's own options, and after loading plugins, which may contain
  // the model. Throws Error(usage) for an unknown model.
  void choose_model(const std::string& name);
  // Declares the options of every run, and those of the model.
  void declare(OptionSet& set);
  // Cross-option checks. Throws Error(usage), for example if no budget is given, or two that
  // exclude each other.
  void validate() const;
  // Whether the run is cut into segments, and where; see segments.hpp.
  bool has_segments() const {
    return !checkpoint.empty() || !checkpoint_at.empty() || !repeated_segments.empty();
  }
  // Whether the training clock is simulated.
  bool is_virtual() const { return cluster_kind(cluster).is_virtual; }
  // The processes of this run. Under MPI the first call joins them and blocks until all have
  // arrived. Throws what processes_of() throws.
  ProcessGroup& processes() const { return processes_of(cluster, peer_timeout); }
};

// Declares --format and --index-base, for every command that reads data files.
void declare_file_format(OptionSet& set, DataFormat& format, IndexBase& index_base);

// The path of the event file in the folder of --tensorboard.
std::string event_file(const std::string& folder);
// The path of the log of rank `rank` under --log-dir: rank_R.log in the folder.
std::string log_file(const std::string& folder, int rank);

}  // namespace hetsgd
