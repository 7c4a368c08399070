// Sharded tables of a run: from the model, the options and the data to their plan.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "algorithm/algorithm.hpp"
#include "cluster/cluster.hpp"
#include "data/sampler.hpp"
#include "model/model.hpp"
#include "table/options.hpp"
#include "table/shard.hpp"
#include "training/simulation/machine.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

// What the whole model says of its table.
struct TableLaw {
  TableShape shape;
  std::size_t dense_columns = 0;
  TableRows initial;
  OptimizerOptions optimizer;

  // Of a model with a table (check_sharded), whose block is its first.
  static TableLaw of(const Model& whole, const OptimizerOptions& optimizer, std::uint64_t seed);
};

// The plan of `workers` ranks. What is counted (loads for --sharding table and auto: the mean
// number of distinct rows of a field in a batch; frequencies of rows for --hot frequency) are the
// first --hot-profile batches of batch_size samples of the pool or, where workers have shards of
// the data, of worker 0's. Errors: usage; the layout does not fit the workers, or needs counts
// where each process has only a part of the data.
TablePlan make_table_plan(const TableLaw& law, const TableOptions& options, int workers,
                          const Sampler& sampler, std::uint64_t batch_size);

// sim: rows on the devices must fit into their memory. Errors: usage, naming --table-storage and
// the bytes.
void check_devices_hold(const TablePlan& plan, const SimulatedMachine& machine);

// {sharding, exchange, storage, rows, bytes_per_rank, imbalance}: the largest of the bytes over
// their mean.
nlohmann::json describe_tables(const TablePlan& plan, const TableOptions& options, bool served);
double total_bytes(const TablePlan& plan);           // of all shards
std::vector<Index> all_rows(const TablePlan& plan);  // 0, 1, ...

// The shards of the workers that run in this process, made on `threads` threads (none: all cores),
// those of a worker with a GPU in its memory. Processes of one host share its memory. Errors: usage,
// they do not fit.
std::unique_ptr<TableSet> make_table_set(const TablePlan& plan, const Cluster& cluster,
                                         const ProcessPlace& place, std::optional<int> threads);

// The plan of a run (algorithm/plan.hpp) as its options say it.

// --workers; by default as many as there are ranks that serve no tables, or devices.
int workers_of(const TrainOptions& options, const std::vector<std::string>& devices);

// What is known of the plan before the data are loaded.
Plan plan_before_data(const TrainOptions& options, const AlgorithmInfo& info, int workers);

// Adds to `plan` what follows from the number of training rows: the budget of samples.
void plan_data(const TrainOptions& options, std::uint64_t rows, Plan& plan);

}  // namespace hetsgd
