#include "training/run_plan.hpp"

#include <algorithm>
#include <cmath>

namespace hetsgd {

int workers_of(const TrainOptions& options, const std::vector<std::string>& devices) {
  if (options.workers) return *options.workers;
  ProcessGroup& processes = options.processes();
  if (processes.control() != nullptr) {
    return std::max(1, processes.size() - (options.service_rank ? 1 : 0));
  }
  return std::max(1, static_cast<int>(devices.size()));
}

Plan plan_before_data(const TrainOptions& options, const AlgorithmInfo& info, int workers) {
  Plan plan;
  plan.workers = workers;
  plan.batch_size = options.batch_size;
  plan.learning_rate = options.learning_rate;
  plan.mega_batch = options.mega_batch;
  plan.seed = options.seed;
  plan.partition = options.partition;
  plan.record_steps = options.record_steps;
  plan.optimizer = options.optimizer;
  if (const auto rate = options.optimizer.table_learning_rate) {
    plan.optimizer.table_rate = *rate / options.learning_rate;
  }
  plan.schedule = options.schedule;
  plan.sharded_tables = options.tables.sharded;
  plan.served_tables = options.tables.served(info.lockstep);
  return plan;
}

void plan_data(const TrainOptions& options, std::uint64_t rows, Plan& plan) {
  plan.rows = rows;
  plan.max_samples = options.max_samples;
  if (options.epochs <= 0) return;
  // A budget of no sample would be none.
  const double samples = options.epochs * static_cast<double>(rows);
  plan.max_samples = static_cast<std::uint64_t>(std::llround(std::max(1.0, samples)));
}

}  // namespace hetsgd
