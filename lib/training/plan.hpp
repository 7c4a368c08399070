// The plan of a run: what the algorithm gets of the options (algorithm/plan.hpp), where sharded tables
// lie, and what can be wrong before anything is loaded, since a user should not wait for the data of
// a run that cannot be. What one option alone can have wrong is its range; what options of one group
// have against each other is TrainOptions::validate(); what needs the number of workers, the devices
// or the algorithm is here.
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

// --workers; by default as many as there are ranks that serve no tables, or devices.
int workers_of(const TrainOptions& options, const std::vector<std::string>& devices);

// What is known of the plan before the data are loaded.
Plan plan_before_data(const TrainOptions& options, const AlgorithmInfo& info, int workers);

// Adds to `plan` what follows from the number of training rows: the budget of samples.
void plan_data(const TrainOptions& options, std::uint64_t rows, Plan& plan);

// --- checks (plan_checks.cpp) --------------------------------------------------------------------

// Options that do not go with the number of workers, the devices or the algorithm. `devices` as
// split_devices() gives them. Errors: usage. Algorithm::check() comes last, so that it may rely on
// the rest.
void check_plan(const TrainOptions& options, const OptionSet& set, const Plan& plan,
                const std::vector<std::string>& devices, const AlgorithmInfo& info,
                const Algorithm& algorithm);

// What sharded tables ask of the model: it has a table, whose updates no norm of all gradients
// scales. Errors: usage.
void check_sharded(const ModelInfo& info, const Model& model, const OptimizerOptions& optimizer);

// A model of sparse features for data with fields, images or sequences, or the other way round; an
// augmentation of what is no image, an order by lengths of what is no sequence. Errors: usage,
// naming the models that read such data.
void check_model_reads(const ModelInfo& info, const Dataset& train, const TrainOptions& options);

// After the data's shape is known, and before the first vector is allocated: a layout may be larger
// than any address, so it is judged by its size as a real number (Layout::real_size).
// A model that the machine cannot hold: its initial parameters and one replica. `machine_bytes`:
// core/host.hpp. Errors: usage, naming what it needs and what there is.
void check_model_fits(const ModelInfo& info, const Layout& layout, double machine_bytes);

// --- sharded tables ------------------------------------------------------------------------------

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

}  // namespace hetsgd
