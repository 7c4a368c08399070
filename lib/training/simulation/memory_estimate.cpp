#include "training/simulation/memory_estimate.hpp"

#include <nlohmann/json.hpp>

#include "training/plan_tables.hpp"

namespace hetsgd {

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
