// Every option of `hetsgd train` that is not an algorithm's own, and how to talk about the run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithm/worker.hpp"
#include "cluster/cluster.hpp"
#include "cluster/mpi/mpi_cluster.hpp"
#include "core/options.hpp"
#include "core/units.hpp"
#include "data/load.hpp"
#include "data/sampler.hpp"
#include "linalg/device.hpp"

namespace hetsgd {

enum class ModelKind { mlp, linear };
enum class ColorMode { automatic, always, never };

struct TrainOptions {
  // data
  std::string train;
  std::string test;
  double validation = 0;  // share of the training rows, measured in place of `test`; 0: none
  DataFormat format = DataFormat::detect;
  IndexBase index_base = IndexBase::detect;
  std::string cache_directory;
  bool cache = true;
  // model
  ModelKind model = ModelKind::mlp;
  std::vector<std::uint64_t> hidden{128};
  double init_std = 0;  // 0: 2 / sqrt(fan_in + fan_out)
  // method
  std::string algorithm = "sgd";
  std::uint64_t batch_size = 256;
  double learning_rate = 1.0;
  std::uint64_t mega_batch = 100;
  Order order = Order::shuffled;
  Partition partition = Partition::shared;
  double dirichlet_alpha = 0.5;
  OptimizerOptions optimizer;
  Schedule schedule;
  std::uint64_t seed = 1;
  // cluster
  std::string cluster = launched_by_mpi() ? "mpi" : "sim";
  int workers = 0;
  std::vector<std::string> devices;
  Precision precision = Precision::fp32;
  AllReduce all_reduce = AllReduce::automatic;
  std::string profile = "v100";
  std::string network = "pcie3";
  std::vector<double> speed;
  std::vector<std::string> straggler;
  std::string charge;  // "", amazon670k, delicious200k
  int host_threads = 0;
  bool service_rank = false;
  Seconds start_timeout = kStartTimeout;
  Seconds peer_timeout{60};
  // budget and targets
  double epochs = 0;
  std::uint64_t max_samples = 0;
  Seconds max_time{0};    // on the training clock
  Seconds time_limit{0};  // host time: ends the run with exit code 6
  std::vector<std::string> target;
  bool stop_at_target = false;
  bool require_target = false;
  // measuring
  std::uint64_t evaluate_every = 0;    // samples; 0: one mega-batch
  std::uint64_t evaluate_samples = 0;  // test rows used; 0: all
  bool record_steps = false;
  std::string dump_initial_parameters;  // file: raw little-endian float32, for outside references
  std::string dump_parameters;          // file: the final model, likewise
  std::string trace;                    // file of what each worker did when
  // output: how to talk, not what to run
  std::string output;
  bool overwrite = false;
  bool resume = false;
  bool redact = false;
  std::string log_dir;
  Seconds progress_every{10};
  bool quiet = false;
  ColorMode color = ColorMode::automatic;

  void declare(OptionSet& set);
  // Cross-option checks (usage errors), e.g. no budget given, or two that exclude each other.
  void validate() const;
};

// Where rank `rank` writes its part of --trace and --log-dir.
std::string trace_file(const std::string& trace, int rank);
std::string log_file(const std::string& folder, int rank);

}  // namespace hetsgd
