#include "training/training.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>

#include "cluster/mpi/mpi_cluster.hpp"
#include "cluster/threads/devices.hpp"
#include "core/error.hpp"
#include "core/host_clock.hpp"
#include "core/memory.hpp"
#include "core/output_file.hpp"
#include "core/text.hpp"
#include "data/sampler.hpp"
#include "training/charge.hpp"
#include "training/driver.hpp"
#include "training/evaluation.hpp"
#include "training/machine.hpp"
#include "training/plan_checks.hpp"
#include "training/rank_driver.hpp"
#include "training/trace.hpp"
#include "training/watcher.hpp"

namespace hetsgd {

namespace {

using namespace std::chrono_literals;

// So long after another rank has failed, this rank's own signal may still come.
constexpr auto kSignalDelay = 250ms;

// Raw little-endian float32, for references outside (tests/reference).
void write_parameters(const std::string& path, std::span<const float> parameters,
                      const char* what) {
  OutputFile file(path, {.what = what});
  file.write({reinterpret_cast<const char*>(parameters.data()), parameters.size_bytes()});
  file.commit();
}

}  // namespace

struct Training::Impl {
  Impl(const TrainOptions& o, const OptionSet& s, std::shared_ptr<Algorithm> a,
       const AlgorithmInfo& i)
      : options(o), set(s), algorithm(std::move(a)), info(i) {}

  void resolve();
  bool writes() const;
  int default_workers() const;
  void build_model();
  void check_targets() const;
  ClusterOptions cluster_options() const;
  int evaluating_gpu(const Cluster& cluster) const;
  DriverOptions driver_options() const;
  // What a run is driven with. The driver refers to the evaluator.
  struct Parts {
    std::unique_ptr<Cluster> cluster;
    std::optional<Evaluator> evaluator;
    std::optional<Driver> driver;
  };
  double together(const std::function<double()>& fn) const;
  void prepare(const TrainHooks& hooks, Parts& parts);
  void drive(const TrainHooks& hooks, Parts& parts, double initial_accuracy);
  ClusterReport run_workers(Driver& driver, Cluster& cluster, double initial_accuracy,
                            Trace* trace);
  void finish(const TrainHooks& hooks, Driver& driver);

  const TrainOptions& options;
  const OptionSet& set;
  std::shared_ptr<Algorithm> algorithm;
  AlgorithmInfo info;

  Plan plan;
  std::vector<std::string> devices;
  std::shared_ptr<const Scenario> scenario;
  DeviceProfile profile;
  NetworkModel network;
  std::unique_ptr<Model> model;
  std::unique_ptr<Sampler> sampler;
  std::optional<Charge> charge;
  Record record;
  std::exception_ptr failure;
};

// Of several processes rank 0 writes files and talks.
bool Training::Impl::writes() const { return options.cluster != "mpi" || mpi_rank().rank == 0; }

// On several processes an error of one is an error of all.
double Training::Impl::together(const std::function<double()>& fn) const {
  return options.cluster == "mpi" ? mpi_agree(fn, options.peer_timeout) : fn();
}

int Training::Impl::default_workers() const {
  if (options.cluster == "mpi")
    return std::max(1, mpi_rank().size - (options.service_rank ? 1 : 0));
  return std::max(1, static_cast<int>(devices.size()));
}

// Everything that needs no data: mistakes in options show before anything is loaded.
void Training::Impl::resolve() {
  options.validate();
  devices = threads::split_devices(options.devices);
  plan.workers = options.workers > 0 ? options.workers : default_workers();
  plan.batch_size = options.batch_size;
  plan.learning_rate = options.learning_rate;
  plan.mega_batch = options.mega_batch;
  plan.seed = options.seed;
  plan.partition = options.partition;
  plan.record_steps = options.record_steps;
  plan.optimizer = options.optimizer;
  plan.schedule = options.schedule;
  check_plan(options, set, plan, devices, info, *algorithm);
  scenario = std::make_shared<const Scenario>(options.straggler, plan.workers, options.seed);
  profile = load_device_profile(options.profile);
  network = load_network_model(options.network);

  record.config = set.to_json();
  record.config["workers"] = plan.workers;
  record.cluster = options.cluster;
  if (options.cluster == "sim") {
    record.device_profile = nlohmann::json::parse(to_json_text(profile));
    record.network = nlohmann::json::parse(to_json_text(network));
  }
  record.stragglers = scenario->specifications();
  for (const std::string& text : options.target)
    record.targets.push_back(parse_target(text, "--target"));
  record.started_at = utc_now();
}

void Training::Impl::check_targets() const {
  for (const Target& target : record.targets) {
    check_measured(target.metric, *record.train, *record.test, "--target", target.text());
  }
}

void Training::Impl::build_model() {
  ModelShape shape;
  shape.task = record.train->task;
  shape.feature_count = std::max(record.train->feature_count, record.test->feature_count);
  shape.label_count = std::max(record.train->label_count, record.test->label_count);
  if (options.model == ModelKind::mlp)
    shape.hidden.assign(options.hidden.begin(), options.hidden.end());
  check_model_fits(shape, machine_memory().total_bytes);
  model = make_model<float>(shape);
  record.parameters = model->parameters();
  record.layer_sizes = {shape.feature_count};
  record.layer_sizes.insert(record.layer_sizes.end(), shape.hidden.begin(), shape.hidden.end());
  record.layer_sizes.push_back(model->outputs());
  const Sampler::Options sampling = sampling_of(options, plan.workers);
  sampler = record.train->whole ? std::make_unique<Sampler>(record.train, sampling,
                                                            share_of(options, plan.workers)->worker)
                                : std::make_unique<Sampler>(record.train, sampling);
  plan.rows = record.train->totals().rows;
  plan.max_samples = options.max_samples;
  if (options.epochs > 0) {
    // A budget of no sample would be none.
    plan.max_samples = std::max<std::uint64_t>(
        1,
        static_cast<std::uint64_t>(std::llround(options.epochs * static_cast<double>(plan.rows))));
  }
  if (!options.charge.empty()) {
    charge = make_charge(options.charge, *record.train, shape);
    record.charge = to_json(*charge);
  }
}

ClusterOptions Training::Impl::cluster_options() const {
  ClusterOptions result;
  result.workers = plan.workers;
  result.seed = options.seed;
  result.speed = options.speed;
  result.scenario = scenario;
  result.profile = profile;
  result.network = network;
  if (charge) result.payload_scale = result.work_scale = charge->parameter_ratio;
  result.host_threads = options.host_threads;
  result.devices = devices;
  result.peer_timeout = options.peer_timeout;
  result.service_rank = options.service_rank;
  result.precision = options.precision;
  result.all_reduce = options.all_reduce;
  return result;
}

// The GPU of this process's first worker that has one; -1: none.
int Training::Impl::evaluating_gpu(const Cluster& cluster) const {
  if (options.cluster == "mpi") return threads::gpu_of(cluster.device_name(mpi_rank().rank));
  for (int rank = 0; rank < cluster.size(); ++rank) {
    if (const int gpu = threads::gpu_of(cluster.device_name(rank)); gpu >= 0) return gpu;
  }
  return -1;
}

DriverOptions Training::Impl::driver_options() const {
  DriverOptions result;
  result.plan = plan;
  result.synchronous = info.synchronous;
  result.evaluate_every =
      options.evaluate_every > 0 ? options.evaluate_every : plan.mega_batch_samples();
  result.max_time = options.max_time;
  result.stop_at_target = options.stop_at_target;
  result.keep_model = !options.dump_parameters.empty();
  if (charge) {
    result.charged_shape = charge->shape;
    result.charged_nonzeros = charge->nonzeros_per_real;
    result.charged_labels = charge->labels_per_real;
  }
  return result;
}

Training::Training(const TrainOptions& options, const OptionSet& set,
                   std::shared_ptr<Algorithm> algorithm, const AlgorithmInfo& info)
    : impl_(std::make_unique<Impl>(options, set, std::move(algorithm), info)) {
  impl_->resolve();
}
Training::~Training() = default;

std::exception_ptr Training::failure() const { return impl_->failure; }
const Record& Training::record() const { return impl_->record; }

void Training::load() {
  load(load_run_data(impl_->options, share_of(impl_->options, impl_->plan.workers)));
}

void Training::load(const RunData& data) {
  Record& record = impl_->record;
  record.train = data.train.data;
  record.train_report = data.train.report;
  record.test = data.test.data;
  record.test_report = data.test.report;
  record.warnings.insert(record.warnings.end(), data.warnings.begin(), data.warnings.end());
  record.phases.load_s = data.load_s;
  impl_->check_targets();
  const auto init = HostClock::now();
  impl_->build_model();
  record.phases.init_s = seconds_since(init);
}

nlohmann::json Training::estimate() const {
  const Impl& s = *impl_;
  const double n = static_cast<double>(s.model->parameters());
  const DatasetTotals data = s.record.train->totals();
  const double rows = static_cast<double>(data.rows);
  const double b = static_cast<double>(s.plan.batch_size);
  const BatchShape batch{.samples = b,
                         .nonzeros = b * static_cast<double>(data.nonzeros) / rows,
                         .labels = b * static_cast<double>(data.labels) / rows};
  const Work work =
      s.charge
          ? s.charge->shape.gradient_work({.samples = b,
                                           .nonzeros = batch.nonzeros * s.charge->nonzeros_per_real,
                                           .labels = batch.labels * s.charge->labels_per_real})
          : s.model->shape().gradient_work(batch);
  // One batch of scores on top of the vectors.
  const double vectors = 4.0 * s.algorithm->model_vectors(s.plan) * n * s.plan.workers;
  const double scores = 4.0 * b * static_cast<double>(s.model->outputs()) * s.plan.workers;
  nlohmann::json result = {{"parameters", s.model->parameters()},
                           {"memory_bytes", vectors + scores},
                           {"operations_per_step", work.operations},
                           {"max_samples", s.plan.max_samples}};
  if (s.options.cluster == "sim") result["step_s"] = s.profile.seconds(work).count();
  return result;
}

ClusterReport Training::Impl::run_workers(Driver& driver, Cluster& cluster, double initial_accuracy,
                                          Trace* trace) {
  const auto run = [&](const std::function<void(Node&)>& work) {
    if (trace == nullptr) return cluster.run(work);
    return cluster.run([&](Node& node) { with_traced_node(node, *trace, work); });
  };
  if (options.cluster != "mpi") {
    return run([&](Node& node) {
      Worker worker(node, driver);
      algorithm->worker(worker);
      driver.finished(worker);
    });
  }
  RankDriver ranks(mpi_control(), driver, driver_options(), cluster, options.peer_timeout,
                   initial_accuracy);
  ClusterReport report = run([&](Node& node) {
    Worker worker(node, ranks);
    ranks.begin(worker);
    algorithm->worker(worker);
    ranks.end(worker);
  });
  ranks.await_reports();
  return report;
}

void Training::Impl::drive(const TrainHooks& hooks, Parts& parts, double initial_accuracy) {
  Driver& driver = *parts.driver;
  Cluster& cluster = *parts.cluster;
  Watcher watcher(options, hooks, driver, cluster);
  ClusterReport report;
  std::exception_ptr error;
  try {
    report = run_workers(driver, cluster, initial_accuracy, hooks.trace);
  } catch (...) {
    error = std::current_exception();
  }
  // A signal to all ranks shows on one of them first as the loss of another.
  const bool peers = options.cluster == "mpi" && cluster.size() > 1;
  const auto interrupted = watcher.stop(error && peers ? kSignalDelay : 0ms);
  record.elapsed = std::max(record.elapsed, report.elapsed);
  for (const WorkerReport& worker : report.workers) {
    record.workers[static_cast<std::size_t>(worker.rank)].report = worker;
  }
  if (!error) {
    driver.request_stop(Status::completed, "");
    const auto stop = driver.stopped();
    record.status = stop->first;
    record.status_reason = stop->second;
    return;
  }
  try {
    std::rethrow_exception(error);
  } catch (const Interrupted& interruption) {
    note_interruption(interruption, record);
  } catch (const std::exception& other) {
    if (interrupted) return note_interruption(*interrupted, record);
    failure = error;
    record.status = Status::failed;
    record.status_reason = other.what();
  }
}

void Training::Impl::finish(const TrainHooks& hooks, Driver& driver) {
  record.finished_at = utc_now();
  if (hooks.on_record) hooks.on_record(record);  // first: the result is worth more than a copy
  if (writes() && !options.dump_parameters.empty() && !driver.model_copy().empty()) {
    write_parameters(options.dump_parameters, driver.model_copy(), "the model");
  }
}

void Training::Impl::prepare(const TrainHooks& hooks, Parts& parts) {
  const auto start = HostClock::now();
  std::vector<float> initial =
      initial_parameters<float>(model->shape(), options.seed, options.init_std);
  if (writes() && !options.dump_initial_parameters.empty()) {
    write_parameters(options.dump_initial_parameters, initial, "the initial model");
  }
  parts.cluster = make_cluster(options.cluster, cluster_options());
  parts.evaluator.emplace(*model, record.test,
                          EvaluatorOptions{.rows = options.evaluate_samples,
                                           .threads = 0,
                                           .gpu = evaluating_gpu(*parts.cluster),
                                           .warn = [this](const std::string& text) {
                                             record.warnings.push_back(text);
                                           }});
  if (parts.evaluator->rows() < record.test->rows()) {
    record.warnings.push_back(fmt::format("measured on {} of {} test rows (--evaluate-samples)",
                                          parts.evaluator->rows(), record.test->rows()));
  }
  parts.driver.emplace(driver_options(), *model, *sampler, std::move(initial), *parts.evaluator,
                       record, hooks);
  record.virtual_time = parts.cluster->is_virtual();
  describe_machine(*parts.cluster, options.service_rank, record);
  for (WorkerRecord& worker : record.workers) {
    worker.report = parts.cluster->planned(static_cast<int>(&worker - record.workers.data()));
  }
  record.phases.init_s += seconds_since(start);
  parts.driver->measure_initial();
}

const Record& Training::run(const TrainHooks& hooks) {
  Impl& s = *impl_;
  Impl::Parts parts;
  const double accuracy = s.together([&] {
    s.prepare(hooks, parts);
    return parts.driver->best_accuracy(0, 0).value_or(std::nan(""));
  });
  const double off_clock = s.record.phases.eval_s + s.record.phases.record_s;
  const auto train_start = HostClock::now();
  s.drive(hooks, parts, accuracy);
  const double inside = s.record.phases.eval_s + s.record.phases.record_s - off_clock;
  s.record.phases.train_s = seconds_since(train_start) - inside;
  s.together([&] {
    s.finish(hooks, *parts.driver);
    return 0.0;
  });
  return s.record;
}

}  // namespace hetsgd
