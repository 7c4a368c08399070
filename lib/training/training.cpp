#include "training/training.hpp"

#include <algorithm>
#include <chrono>

#include "cluster/devices.hpp"
#include "cluster/trace/trace.hpp"
#include "core/error.hpp"
#include "core/host.hpp"
#include "core/logging.hpp"
#include "core/output_file.hpp"
#include "core/rank_index.hpp"
#include "core/text.hpp"
#include "data/sampler.hpp"
#include "training/checkpoint.hpp"
#include "training/constant_guess.hpp"
#include "training/evaluation.hpp"
#include "training/oversubscription.hpp"
#include "training/plan.hpp"
#include "training/segmented_run.hpp"
#include "training/simulation/charge.hpp"
#include "training/simulation/estimate.hpp"
#include "training/simulation/machine.hpp"
#include "training/watcher.hpp"

namespace hetsgd {
namespace {

// After another rank has failed, this rank's own signal may still arrive within this time.
constexpr std::chrono::milliseconds kSignalDelay{250};

// Writes raw little-endian float32, for external references (tests/reference).
void write_parameters(const std::string& path, std::span<const float> parameters,
                      const char* what) {
  OutputFile file(path, {.what = what});
  file.write({reinterpret_cast<const char*>(parameters.data()), parameters.size_bytes()});
  file.commit();
}

// Needs the workers' time breakdowns, which are in the Record already. Recorded calls that memory
// has no room for are left out.
void note_waiting(const Trace& trace, Record& record) {
  if (!trace.is_in_memory()) {
    warn(
        "the record of this run is too large for memory, so the result does not say who waited for "
        "whom; hetsgd replay can tell");
    return;
  }
  std::vector<Seconds> waits;
  for (const WorkerRecord& worker : record.workers) waits.push_back(worker.report.breakdown.wait);
  auto whom = waited_for(trace, waits);
  for (std::size_t r = 0; r < whom.size(); ++r) record.workers[r].waited_for = std::move(whom[r]);
}

}  // namespace

struct Training::Impl : RunSpec {
  explicit Impl(const RunSpec& spec) : RunSpec(spec) {}

  void resolve();
  void build_model();
  void place_tables(const Model& whole);
  ClusterOptions cluster_options() const;
  RunRules rules(const TrainHooks& hooks) const;
  // The objects that drive a run. Each refers to those before it.
  struct Parts {
    Interruption interruption;
    std::unique_ptr<Cluster> cluster;
    std::unique_ptr<TableSet> tables;  // the sharded tables; else null
    std::optional<Evaluator> evaluator;
    std::optional<RunSetup> setup;
    std::optional<Referee> referee;
    std::optional<Watcher> watcher;
    std::optional<SavedRun> saved;  // a resumed run's state
  };
  EvaluatorOptions evaluation(Parts& parts) const;
  RunSetup setup(const Parts& parts) const;
  void prepare(const TrainHooks& hooks, Parts& parts);
  void drive(const TrainHooks& hooks, Parts& parts);
  void run_algorithm(Worker& worker);
  ClusterReport run_workers(Parts& parts, Trace* trace);
  // The referee is null if the run was interrupted before it was made.
  void finish(const TrainHooks& hooks, const Referee* referee);

  Plan plan;
  std::vector<std::string> devices;
  std::shared_ptr<const Scenario> scenario;
  SimulatedMachine machine;
  std::unique_ptr<Model> model;         // the dense part only, if tables are sharded
  std::optional<TablePlan> table_plan;  // null: the tables are part of the model
  std::unique_ptr<Sampler> sampler;
  std::unique_ptr<const Charge> charge;  // null: the clock charges the real model
  Record record;
  Checkpoints checkpoints{options, set, record};
  std::exception_ptr failure;
};

// Resolves everything that needs no data, so that mistakes in options show before anything is
// loaded.
void Training::Impl::resolve() {
  options.validate();
  devices = split_devices(options.devices);
  const int workers = workers_of(options, devices);
  machine = load_simulated_machine(options, workers);
  plan = plan_before_data(options, info, workers);
  scenario = std::make_shared<const Scenario>(options.straggler, plan.workers, options.seed,
                                              options.detect);
  plan.loses_workers = scenario->has_failures() && options.on_loss == OnLoss::go_on;
  check_plan(options, set, plan, devices, info, *algorithm);
  check_losses(*scenario, options);

  record.config = set.to_json();
  record.plugins = loaded_plugins();
  record.config["workers"] = plan.workers;
  record.cluster = options.cluster;
  if (options.is_virtual()) {
    describe_machine(machine, plan.workers, record);
  }
  record.stragglers = scenario->specifications();
  if (machine.replay) record.stragglers = machine.replay->timeline().stragglers;
  for (const auto& text : options.target) record.targets.push_back(parse_target(text, "--target"));
  record.started_at = utc_now();
  checkpoints.read();
}

void Training::Impl::build_model() {
  const Dataset &train = *record.train, &test = *record.test;
  const ModelInfo& kind = find_model(options.model).info;
  check_model_reads(kind, train, options);
  model = options.model_factory->make(DataShape::of(train, test));
  check_row_rule(plan.optimizer, tensors_of(model->layout()));
  record.parameters = model->parameters();
  record.layer_sizes = model->layer_sizes();
  std::unique_ptr<Model> whole;  // with the tables that are sharded
  if (plan.sharded_tables) {
    check_sharded(kind, *model, plan.optimizer);
    whole = std::exchange(model, model->dense_part());
  }
  check_model_fits(kind, model->layout(), machine_memory().total_bytes);
  const Sampler::Options sampling = sampling_of(options, plan.workers);
  sampler = record.train->whole ? std::make_unique<Sampler>(record.train, sampling,
                                                            share_of(options, plan.workers)->worker)
                                : std::make_unique<Sampler>(record.train, sampling);
  if (whole) place_tables(*whole);
  plan_data(options, record.train->totals(), plan);
  if (!options.charge.empty()) {
    charge = std::make_unique<const Charge>(make_charge(options, *record.train, *model));
    record.charge = charge->facts;
  }
  plan_memory_of_gpus(*model, options, set);
  algorithm->check_model(plan, *model);
  record.warn(algorithm->warnings(plan, model->layout()));
}

// From here on the plan's optimizer is that of the dense part.
void Training::Impl::place_tables(const Model& whole) {
  table_plan = make_table_plan(options.tables, plan, whole, *sampler);
  plan.optimizer.table_rule = TableRule::same;
  plan.optimizer.table_rate = 1;
  if (options.is_virtual()) check_devices_hold(*table_plan, machine);
  record.tables = describe_tables(*table_plan, options.tables, plan.served_tables);
}

ClusterOptions Training::Impl::cluster_options() const {
  ClusterOptions result;
  result.workers = plan.workers;
  result.seed = options.seed;
  result.speed = options.speed;
  result.scenario = scenario;
  result.detect = options.detect;
  result.profiles = machine.profiles;
  result.server_profile = machine.server_profile;
  result.network = machine.network;
  result.precision = options.precision;
  if (charge) charge_cluster(*charge, result);
  if (options.step_time > Seconds(0)) {
    result.step_time = [time = options.step_time](int, std::uint64_t) { return time; };
  }
  replay_on_cluster(machine, result);
  result.host_threads = options.host_threads.value_or(0);
  result.host_cores = options.host_cores.value_or(0);
  result.devices = devices;
  result.peer_timeout = options.peer_timeout;
  result.service_rank = options.service_rank;
  result.convolution_library = options.convolution_library;
  result.all_reduce = options.all_reduce;
  return result;
}

RunRules Training::Impl::rules(const TrainHooks& hooks) const {
  std::optional<Seconds> prepare_pass;
  if (options.is_virtual()) {
    const double scale = charge ? charge->parameter_ratio : 1;
    prepare_pass =
        host_pass(machine.server_profile, scale * static_cast<double>(model->parameters()));
  }
  return {.plan = plan,
          .synchronous = info.synchronous,
          .evaluate_every = options.evaluate_every.value_or(plan.mega_batch_samples()),
          .max_time = options.max_time,
          .stop_at_target = options.stop_at_target,
          .keep_model = !options.dump_parameters.empty(),
          .segments = {.every = options.checkpoint.empty() ? 0 : options.checkpoint_every,
                       .at = options.checkpoint_at,
                       .repeated = options.repeated_segments,
                       .request = options.checkpoint.empty() ? nullptr : hooks.checkpoint_signal},
          .prepare_pass = prepare_pass};
}

EvaluatorOptions Training::Impl::evaluation(Parts& parts) const {
  return {.rows = options.evaluate_samples.value_or(0),
          .threads = options.host_threads.value_or(0),
          // The host reads tables that are not part of the model.
          .gpu = table_plan ? -1 : first_gpu(*parts.cluster),
          .statistics_of = record.train,
          // The referee's lock is needed, because others write to the record during the run.
          .warn = [&parts](const std::string& text) { parts.referee->warn(text); },
          .check = [&parts] { parts.interruption.check(); }};
}

RunSetup Training::Impl::setup(const Parts& parts) const {
  RunSetup result{.model = *model,
                  .sampler = *sampler,
                  .initial = initial_parameters<float>(model->layout(), options.seed),
                  .test = record.test,
                  .charge = charge.get(),
                  .rates = machine.rates,
                  .tables = parts.tables.get(),
                  .virtual_time = options.is_virtual(),
                  .pool_is_service = options.host_cores && machine.network.poll > Seconds(0),
                  .measured_rows = {},
                  .from = nullptr,
                  .is_saved = options.has_segments() || scenario->has_failures(),
                  .may_lose = scenario->has_failures()};
  if (table_plan && options.processes().is_root()) {
    result.measured_rows =
        options.dump_parameters.empty() ? parts.evaluator->categories() : all_rows(*table_plan);
  }
  return result;
}

Training::Training(const RunSpec& spec) : impl_(std::make_unique<Impl>(spec)) { impl_->resolve(); }
Training::~Training() = default;

std::exception_ptr Training::failure() const { return impl_->failure; }
const Record& Training::record() const { return impl_->record; }

void Training::load(DataCache* cache) {
  const auto share = share_of(impl_->options, impl_->plan.workers);
  load(cache ? cache->get(impl_->options, share) : load_run_data(impl_->options, share));
}

void Training::load(const RunData& data) {
  Record& record = impl_->record;
  record.train = data.train.data;
  record.train_report = data.train.report;
  record.test = data.test.data;
  record.test_report = data.test.report;
  record.warn(data.warnings);
  record.phases.loaded(data.load_s);
  record.warn(impl_->checkpoints.check_data());
  impl_->build_model();
  for (const Target& target : record.targets) {
    check_measured(target.metric, impl_->model->data(), *record.test, "--target", target.text());
  }
}

nlohmann::json Training::estimate() const {
  const Impl& s = *impl_;
  nlohmann::json result = estimate_of({.plan = s.plan,
                                       .algorithm = *s.algorithm,
                                       .model = *s.model,
                                       .charge = s.charge.get(),
                                       .train = *s.record.train,
                                       .tables = s.table_plan ? &*s.table_plan : nullptr});
  if (!s.options.is_virtual()) return result;
  const auto work = [&](const DeviceRates& rates) {
    return step_work(*s.model, s.charge.get(), *s.record.train, s.plan, &rates);
  };
  result["step_s"] = mean_step(s.charge.get(), slowest_step(s.machine, work)).count();
  return result;
}

// Runs the algorithm on one worker. A worker that left alone would leave the others waiting in a
// collective, so leaving before the run has stopped is an error.
void Training::Impl::run_algorithm(Worker& worker) {
  worker.begin_serving();
  algorithm->worker(worker);
  worker.end_serving();
  if (worker.may_leave()) return;
  throw CheckFailure(
      fmt::format("{}: worker {} has left while running() was true, after {} calls of it: its loop "
                  "is while (self.running())",
                  info.name, worker.rank(), worker.running_calls()));
}

ClusterReport Training::Impl::run_workers(Parts& parts, Trace* trace) {
  SegmentedRun run({.options = options,
                    .info = info,
                    .plan = plan,
                    .scenario = *scenario,
                    .network = machine.network,
                    .state_ratio = charge ? charge->parameter_ratio : 1,
                    .record = record,
                    .checkpoints = checkpoints,
                    .referee = *parts.referee,
                    .cluster = *parts.cluster,
                    .setup = *parts.setup,
                    .tables = parts.tables.get(),
                    .algorithm = [this](Worker& worker) { run_algorithm(worker); }},
                   std::move(parts.saved));
  return run.run(trace);
}

void Training::Impl::drive(const TrainHooks& hooks, Parts& parts) {
  ClusterReport report;
  std::exception_ptr error;
  parts.watcher->begin();
  try {
    report = run_workers(parts, hooks.trace);
  } catch (...) {
    error = std::current_exception();
  }
  // A signal to all ranks may show on one of them as the loss of another first.
  const bool peers = options.processes().size() > 1;
  const auto interrupted =
      parts.watcher->stop(error && peers ? kSignalDelay : std::chrono::milliseconds(0));
  record.elapsed = std::max(record.elapsed, report.elapsed);
  record.server_link_busy = report.server_link_busy;
  record.remarks = algorithm->remarks(record.histograms);
  record.warn(guess_warnings(record.curve, record.constant_guess));
  for (const WorkerReport& worker : report.workers) {
    record.workers[at(worker.rank)].report = worker;
  }
  if (options.is_virtual()) record.warn(clock_warnings(machine, options, record));
  if (!error) {
    if (hooks.trace != nullptr) note_waiting(*hooks.trace, record);
    parts.referee->request_stop(Status::completed, "");
    const auto stop = parts.referee->stopped();
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

void Training::Impl::finish(const TrainHooks& hooks, const Referee* referee) {
  record.finished_at = utc_now();
  record.phases.settle();
  if (record.load) {
    const std::string warning =
        finish_host_load(options.processes().place(), *record.load, "this run");
    if (!warning.empty()) record.warn({warning});
  }
  if (hooks.on_record) hooks.on_record(record);  // before the copy of the model
  if (options.processes().is_root() && !options.dump_parameters.empty() && referee != nullptr &&
      !referee->model_copy().empty()) {
    write_parameters(options.dump_parameters, referee->model_copy(), "the model");
  }
}

void Training::Impl::prepare(const TrainHooks& hooks, Parts& parts) {
  parts.watcher.emplace(options, hooks, parts.interruption);
  parts.cluster = make_cluster(options.cluster, cluster_options());
  if (table_plan) {
    parts.tables = make_table_set(*table_plan, *parts.cluster, options.processes().place(),
                                  options.host_threads);
  }
  parts.interruption.check();
  parts.evaluator.emplace(*model, record.test, evaluation(parts));
  if (parts.evaluator->rows() < record.test->rows()) {
    record.warnings.push_back(fmt::format("evaluated on {} of {} test rows (--evaluate-samples)",
                                          parts.evaluator->rows(), record.test->rows()));
  }
  parts.setup.emplace(setup(parts));
  parts.interruption.check();
  std::optional<InitialRows> rows;
  if (table_plan) rows.emplace(*table_plan);
  const PreparedModel initial{.parameters = parts.setup->initial, .rows = rows ? &*rows : nullptr};
  if (options.processes().is_root() && !options.dump_initial_parameters.empty()) {
    write_parameters(options.dump_initial_parameters, whole_model(initial.parameters, initial.rows),
                     "the initial model");
  }
  if (options.processes().is_root()) {
    record.constant_guess = constant_guess(options.model_factory->objective(record.train->task),
                                           model->data(), *record.train, *record.test);
  }
  parts.referee.emplace(rules(hooks), *parts.evaluator, record, hooks);
  record.virtual_time = parts.cluster->is_virtual();
  describe_hosts(*parts.cluster, options, record);
  for (int rank = 0; rank < plan.workers; ++rank) {
    WorkerRecord& worker = record.workers[at(rank)];
    worker.report = parts.cluster->planned(rank);
    worker.shard_rows = sampler->shard_size(rank);
  }
  parts.watcher->watch(*parts.referee, *parts.cluster);
  if (checkpoints.resumes()) {
    if (hooks.trace != nullptr) {
      record.warn(
          {"the activity of the workers (--trace, --record-timeline, waited_for) is that "
           "after the resume alone"});
    }
    parts.saved = checkpoints.take();
    resume(*parts.saved, options, *parts.cluster, parts.tables.get(), *parts.referee, record);
  } else {
    parts.referee->measure_initial(initial);
  }
}

const Record& Training::run(const TrainHooks& hooks) {
  Impl& s = *impl_;
  Impl::Parts parts;
  ProcessGroup& processes = s.options.processes();
  try {
    processes.agree([&] { s.prepare(hooks, parts); });
    parts.referee->begin_training();
    s.drive(hooks, parts);
  } catch (const Interrupted& interruption) {
    parts.watcher->stop({});
    note_interruption(interruption, s.record);
  }
  processes.agree([&] { s.finish(hooks, parts.referee ? &*parts.referee : nullptr); });
  return s.record;
}

}  // namespace hetsgd
