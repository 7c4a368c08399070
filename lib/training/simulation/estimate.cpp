#include "training/simulation/estimate.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "training/plan.hpp"

namespace hetsgd {

namespace {

using nlohmann::json;

constexpr Seconds kTrialLimit{10};
constexpr std::uint64_t kTrialIterations = 8;  // per worker, in each half
constexpr std::uint64_t kTrialRows = 1000;     // test rows that the trial measures

// The options of the trial, whose halves are `half` samples; 0: the whole run is short enough.
TrainOptions trial_of(TrainOptions options, std::uint64_t half) {
  options.dump_initial_parameters.clear();
  options.dump_parameters.clear();
  options.checkpoint.clear();
  options.checkpoint_at.clear();
  options.target.clear();
  options.stop_at_target = options.require_target = options.record_steps = false;
  options.time_limit = kTrialLimit;
  options.evaluate_samples = std::min(options.evaluate_samples.value_or(kTrialRows), kTrialRows);
  if (half == 0) return options;
  options.epochs = 0;
  options.max_samples = 2 * half;
  options.evaluate_every = half;
  return options;
}

// The training clock of the trial at a number of samples.
struct Point {
  double time_s = 0, samples = 0;
};

// Extends the line through the trial's middle and end up to the end of the run's budget.
Point extend(const Point& middle, const Point& end, std::uint64_t max_samples, double max_time_s) {
  const auto most = static_cast<double>(max_samples);
  if (max_samples > 0 && end.samples >= most) return end;
  const double rate = (end.samples - middle.samples) / (end.time_s - middle.time_s);
  const double time_s = end.time_s + (most - end.samples) / rate;
  if (max_samples > 0 && (max_time_s <= 0 || time_s <= max_time_s)) return {time_s, most};
  return {max_time_s, end.samples + (max_time_s - end.time_s) * rate};
}

Point end_of(const Record& record) {
  if (record.status != Status::time_limit) {
    const CurvePoint& last = record.curve.back();
    return {last.time.count(), static_cast<double>(last.samples_count)};
  }
  Point end{.time_s = record.elapsed.count()};
  for (const WorkerRecord& worker : record.workers) {
    end.samples += static_cast<double>(worker.samples);
  }
  return end;
}

// The last evaluation in the trial's first half, the initial one at the latest.
Point middle_of(const Record& record, const Point& end) {
  Point middle;
  for (const CurvePoint& point : record.curve) {
    if (static_cast<double>(point.samples_count) > end.samples / 2) break;
    middle = {point.time.count(), static_cast<double>(point.samples_count)};
  }
  return middle;
}

// The times of a run of `max_samples` by its trial. `every`: samples between evaluations. `rows`:
// test rows per evaluation of the run; `trial_rows`: those per evaluation of the trial.
json times_of(const Record& trial, const TrainOptions& options, std::uint64_t max_samples,
              double every, double rows, double trial_rows) {
  const Point end = end_of(trial);
  if (end.samples == 0 || end.time_s == 0) return {{"no_time", "the trial made no step"}};
  const Point whole = extend(middle_of(trial, end), end, max_samples, options.max_time.count());
  const double measured = static_cast<double>(trial.curve.size()) * trial_rows;
  const double evaluations = 1 + std::ceil(whole.samples / every);
  const double host_train_s = trial.phases.train_s * whole.samples / end.samples;
  const double host_eval_s = trial.phases.eval_s / measured * rows * evaluations;
  return {{"train_s", whole.time_s},
          {"host_train_s", host_train_s},
          {"host_eval_s", host_eval_s},
          {"host_s", trial.phases.load_s + trial.phases.init_s + host_train_s + host_eval_s},
          {"evaluations_at_most", evaluations},
          {"trial",
           {{"samples_count", end.samples},
            {"train_s", end.time_s},
            {"host_s", trial.phases.train_s + trial.phases.eval_s},
            {"status", to_string(trial.status)}}}};
}

}  // namespace

json plan_of_run(const RunSpec& spec) {
  const TrainOptions& options = spec.options;
  DataCache data;
  Training whole(spec);
  whole.load(&data);
  json plan = {{"config", whole.record().config},
               {"charge", whole.record().charge},
               {"estimate", whole.estimate()},
               {"warnings", whole.record().warnings}};
  json& estimate = plan["estimate"];
  if (options.processes().control() != nullptr) {
    estimate["no_time"] = fmt::format(
        "no trial is run with --cluster {}; --cluster sim predicts it", options.cluster);
    return plan;
  }
  const std::uint64_t max_samples = estimate["max_samples"];
  const auto workers = plan["config"]["workers"].get<std::uint64_t>();
  const std::uint64_t mega_batch = options.mega_batch * options.batch_size;
  const std::uint64_t half = std::max(mega_batch, kTrialIterations * workers * options.batch_size);
  const bool short_run = max_samples > 0 && max_samples <= 2 * half;
  const TrainOptions trial_options = trial_of(options, short_run ? 0 : half);
  Training trial({trial_options, spec.set, spec.algorithm, spec.info});
  trial.load(&data);
  const Record& record = trial.run({});
  if (trial.failure()) std::rethrow_exception(trial.failure());
  const std::uint64_t every = options.evaluate_every.value_or(mega_batch);
  const auto measured = [&](std::optional<std::uint64_t> wanted) {
    const std::uint64_t all = record.test->rows();
    return static_cast<double>(std::min(wanted.value_or(all), all));
  };
  estimate.update(times_of(record, options, max_samples, static_cast<double>(every),
                           measured(options.evaluate_samples),
                           measured(trial_options.evaluate_samples)));
  return plan;
}

Work step_work(const Model& model, const Charge* charge, const Dataset& train, const Plan& plan,
               const DeviceRates* rates) {
  const DatasetTotals data = train.totals();
  const double b = static_cast<double>(plan.batch_size), rows = static_cast<double>(data.rows);
  const BatchShape batch{.samples = b,
                         .nonzeros = b * static_cast<double>(data.nonzeros) / rows,
                         .labels = b * static_cast<double>(data.labels) / rows,
                         .lookups = b * static_cast<double>(model.data().fields()),
                         .steps = static_cast<double>(data.frames) / rows,
                         .frames = b * static_cast<double>(data.frames) / rows};
  if (charge) {
    if (const auto given = given_step(*charge, model, batch)) return *given;
  }
  const Model& charged = charge ? *charge->model : model;
  const BatchShape shape = charge ? charged_shape(*charge, batch) : batch;
  return rates ? charged.work_on(*rates, shape) : charged.gradient_work(shape);
}

nlohmann::json estimate_of(const EstimatedRun& run) {
  const Plan& plan = run.plan;
  const double n = static_cast<double>(run.model.parameters());
  const double vectors = 4.0 * run.algorithm.model_vectors(plan) * n * plan.workers;
  const double scores = 4.0 * static_cast<double>(plan.batch_size) *
                        static_cast<double>(run.model.outputs()) * plan.workers;
  nlohmann::json result = {{"parameters", run.model.parameters()},
                           {"memory_bytes", vectors + scores},
                           {"operations_per_step",
                            step_work(run.model, run.charge, run.train, plan, nullptr).operations},
                           {"max_samples", plan.max_samples}};
  if (!run.tables) return result;
  const Placement& placement = run.tables->placement;
  result["parameters"] = run.model.parameters() + placement.first().back() * placement.width();
  result["table_bytes"] = total_bytes(*run.tables);
  result["memory_bytes"] = vectors + scores + total_bytes(*run.tables);
  return result;
}

}  // namespace hetsgd
