// The plan of a run: the settings that the algorithm gets from the options (algorithm/plan.hpp),
// the placement of sharded tables, and the checks before anything is loaded. A user should not wait
// for the data of a run that cannot start. The range of one option is checked where it is declared,
// options of one group against each other in TrainOptions::validate(). Checks that need the number
// of workers, the devices or the algorithm are here.
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

// The value of --workers. By default it is the number of ranks that run no services, or of devices.
int workers_of(const TrainOptions& options, const std::vector<std::string>& devices);

// Multiplies the learning rate by the factor of the method and its workers, if nobody has set it.
// To be called once, when all other options are set.
void settle_learning_rate(const TrainOptions& options, const AlgorithmInfo& info, OptionSet& set);

// A sentence if a method for several workers has one, only because no number was given; "" else.
std::string lone_worker(const TrainOptions& options, const AlgorithmInfo& info);

// The part of the plan that is known before the data are loaded.
Plan plan_before_data(const TrainOptions& options, const AlgorithmInfo& info, int workers);

// The learning-rate schedule of a run over `rows` training rows, whose length the options say.
// Throws what Schedule::of_run() throws.
Schedule schedule_of(const TrainOptions& options, std::uint64_t rows);

// Adds to `plan` what follows from the size of the training data: the budget of samples, the
// schedule, and whether losses are to be counted.
void plan_data(const TrainOptions& options, const DatasetTotals& train, Plan& plan);

// --- checks (plan_checks.cpp) --------------------------------------------------------------------

// Throws Error(usage) for options that do not fit the number of workers, the devices or the
// algorithm. `devices` are in the form of split_devices(). Algorithm::check() runs last, so that it
// may rely on the other checks.
void check_plan(const TrainOptions& options, const OptionSet& set, const Plan& plan,
                const std::vector<std::string>& devices, const AlgorithmInfo& info,
                const Algorithm& algorithm);

// Throws Error(usage) unless the model can have sharded tables: it has a table, and no norm over
// all gradients scales its updates.
void check_sharded(const ModelInfo& info, const Model& model, const OptimizerOptions& optimizer);

// Refuses data of a kind that the model does not read (sparse features, fields, images, sequences).
// It also refuses image augmentation without images, and an order by length without sequences.
// Throws Error(usage) naming the models that read such data.
void check_model_reads(const ModelInfo& info, const Dataset& train, const TrainOptions& options);

// Refuses a model if the machine cannot hold its initial parameters and one replica. To be called
// when the data's shape is known, before the first vector is allocated. A layout may be larger than
// any address, so it is judged by its size as a real number (Layout::real_size). `machine_bytes`:
// core/host.hpp. Throws Error(usage) naming the bytes that are needed and available.
void check_model_fits(const ModelInfo& info, const Layout& layout, double machine_bytes);

// --- sharded tables ------------------------------------------------------------------------------

// The placement of the table of the model `whole`, whose block is the first one. `plan` has the
// optimizer of the whole model. Lookups are counted in the first --hot-profile batches. They come
// from the pool or, if workers have shards of the data, from worker 0's shard. --sharding table and
// auto count loads, the mean number of distinct rows of a field in a batch; --hot frequency counts
// how often each row is used. Throws Error(usage) if the layout does not fit the workers, or if it
// needs counts and each process has only a part of the data.
TablePlan make_table_plan(const TableOptions& options, const Plan& plan, const Model& whole,
                          const Sampler& sampler);

// Checks in sim that the rows on each device fit into its memory. Throws Error(usage) naming
// --table-storage and the bytes.
void check_devices_hold(const TablePlan& plan, const SimulatedMachine& machine);

// {sharding, exchange, storage, rows, bytes_per_rank, imbalance}. The imbalance is the largest of
// bytes_per_rank over their mean.
nlohmann::json describe_tables(const TablePlan& plan, const TableOptions& options, bool served);
double total_bytes(const TablePlan& plan);           // of all shards
std::vector<Index> all_rows(const TablePlan& plan);  // 0, 1, ...

// Makes the shards of the workers that run in this process, on `threads` threads (none: all cores).
// The shard of a worker with a GPU lies in the memory of that GPU. Processes of one host share its
// memory. Throws Error(usage) if the shards do not fit.
std::unique_ptr<TableSet> make_table_set(const TablePlan& plan, const Cluster& cluster,
                                         const ProcessPlace& place, std::optional<int> threads);

}  // namespace hetsgd
