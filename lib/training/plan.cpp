#include "training/plan.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cluster/devices.hpp"
#include "core/error.hpp"
#include "core/host.hpp"
#include "core/text.hpp"
#include "linalg/distinct.hpp"

namespace hetsgd {

namespace {

// The table lookups of the first batches.
struct LookupProfile {
  std::vector<double> load;                            // by field: distinct rows of a batch
  std::shared_ptr<std::vector<std::uint32_t>> counts;  // by row
};

LookupProfile profile_lookups(const Sampler& sampler, const TableOptions& options,
                              std::uint64_t batch_size) {
  const Dataset& data = sampler.data();
  const std::size_t fields = data.fields.count();
  LookupProfile profile{std::vector<double>(fields), nullptr};
  if (options.needs_counts()) {
    profile.counts = std::make_shared<std::vector<std::uint32_t>>(data.fields.first.back());
  }
  DistinctNumbers distinct;
  Batch batch;
  const std::uint64_t rows = sampler.shard_size(0), b = std::min(batch_size, rows);
  const std::uint64_t batches = std::min(options.profile_batches, rows / b);
  for (std::uint64_t k = 0; k < batches; ++k) {
    sampler.fill(0, {k * b, b}, batch);
    for (std::size_t f = 0; f < fields; ++f) {
      distinct.begin(batch.size());
      for (const Index row : batch.rows()) {
        const Index category = data.fields.row(row)[f];
        distinct.slot(category);
        if (profile.counts) ++(*profile.counts)[category];
      }
      profile.load[f] += static_cast<double>(distinct.count()) / static_cast<double>(batches);
    }
  }
  return profile;
}

const char* storage_name(TableStorage storage) {
  return storage == TableStorage::device ? "device"
         : storage == TableStorage::host ? "host"
                                         : "hybrid";
}

}  // namespace

TablePlan make_table_plan(const TableOptions& options, const Plan& plan, const Model& whole,
                          const Sampler& sampler) {
  const ParameterBlock& table = whole.layout().blocks.front();
  HETSGD_CHECK(table.kind == BlockKind::table);
  const Sharding sharding = options.sharding();
  LookupProfile profile;
  if (options.needs_loads() || options.needs_counts()) {
    if (sampler.data().whole) {
      const bool loads = options.needs_loads();
      refuse(loads ? "--sharding" : "--hot",
             (loads ? sharding.text() : "frequency") +
                 " where every process has a part of the training rows",
             loads ? "row or column:c" : "random",
             "with --partition shared all processes have all rows and count the same lookups");
    }
    profile = profile_lookups(sampler, options, plan.batch_size);
  }
  Tiers tiers{.storage = options.storage,
              .hot_fraction = options.hot_fraction,
              .choice = options.hot,
              .seed = plan.seed,
              .replace_every = options.hot_replace_every,
              .counts = profile.counts};
  Placement placement(table.keys.first, whole.table_shape().row(), plan.workers, sharding,
                      profile.load);
  return {.shape = whole.table_shape(),
          .dense_columns = whole.data().dense_columns,
          .placement = std::move(placement),
          .initial = {table.keys, plan.seed, table.init_std, table.cols - table.zero_cols},
          .optimizer = plan.optimizer,
          .dedup = options.dedup,
          .tiers = std::move(tiers),
          .replacement = options.replacement};
}

void check_devices_hold(const TablePlan& plan, const SimulatedMachine& machine) {
  for (int rank = 0; rank < plan.placement.ranks(); ++rank) {
    const DeviceProfile& profile = machine.profile_of(rank);
    const double needed = plan.device_bytes(rank);
    if (needed <= profile.memory_bytes) continue;
    refuse("--table-storage",
           fmt::format("{} with {} of rows on the device of worker {} ({})",
                       storage_name(plan.tiers.storage), format_bytes(needed), rank, profile.name),
           "at most " + format_bytes(profile.memory_bytes),
           "host, hybrid with a smaller --hot-fraction, or more workers need less");
  }
}

double total_bytes(const TablePlan& plan) {
  double bytes = 0;
  for (int rank = 0; rank < plan.placement.ranks(); ++rank) bytes += plan.bytes(rank);
  return bytes;
}

std::vector<Index> all_rows(const TablePlan& plan) {
  std::vector<Index> rows(plan.placement.first().back());
  std::iota(rows.begin(), rows.end(), Index{0});
  return rows;
}

std::unique_ptr<TableSet> make_table_set(const TablePlan& plan, const Cluster& cluster,
                                         const ProcessPlace& place, std::optional<int> threads) {
  std::vector<int> here, gpus;
  for (int rank = 0; rank < cluster.size(); ++rank) {
    if (!cluster.runs_here(rank)) continue;
    here.push_back(rank);
    gpus.push_back(cluster.gpu(rank));
  }
  return std::make_unique<TableSet>(plan, here, machine_memory().total_bytes / place.local_size,
                                    threads, gpus);
}

nlohmann::json describe_tables(const TablePlan& plan, const TableOptions& options, bool served) {
  nlohmann::json bytes = nlohmann::json::array();
  double most = 0;
  for (int rank = 0; rank < plan.placement.ranks(); ++rank) {
    bytes.push_back(static_cast<std::uint64_t>(plan.bytes(rank)));
    most = std::max(most, plan.bytes(rank));
  }
  return {{"sharding", options.sharding().text()},
          {"exchange", served ? "served" : "collective"},
          {"storage", storage_name(options.storage)},
          {"rows", plan.placement.first().back()},
          {"bytes_per_rank", std::move(bytes)},
          {"imbalance", most * plan.placement.ranks() / total_bytes(plan)}};
}

int workers_of(const TrainOptions& options, const std::vector<std::string>& devices) {
  if (options.workers) return *options.workers;
  ProcessGroup& processes = options.processes();
  if (processes.control() != nullptr) {
    return std::max(1, processes.size() - options.service_rank);
  }
  return std::max(1, static_cast<int>(devices.size()));
}

void settle_learning_rate(const TrainOptions& options, const AlgorithmInfo& info, OptionSet& set) {
  if (set.find("learning_rate")->source != OptionSource::default_value) return;
  const double factor = info.rate_factor(workers_of(options, split_devices(options.devices)));
  if (factor == 1) return;
  set.set_default("learning_rate", fmt::format("{}", options.learning_rate * factor));
}

std::string lone_worker(const TrainOptions& options, const AlgorithmInfo& info) {
  if (options.workers || info.works_alone) return "";
  if (workers_of(options, split_devices(options.devices)) > 1) return "";
  return fmt::format(
      "{} trains one worker alone, as neither --workers nor --devices names more; --workers 4 "
      "makes it four",
      info.name);
}

Plan plan_before_data(const TrainOptions& options, const AlgorithmInfo& info, int workers) {
  Plan plan;
  static_cast<MethodSettings&>(plan) = options;
  plan.workers = workers;
  plan.share_orphans = options.orphans == Orphans::share;
  if (const auto rate = options.optimizer.table_learning_rate) {
    plan.optimizer.table_rate = *rate / options.learning_rate;
  }
  plan.sharded_tables = options.tables.sharded;
  plan.served_tables = options.tables.served(info.lockstep);
  return plan;
}

Schedule schedule_of(const TrainOptions& options, std::uint64_t rows) {
  const double samples = static_cast<double>(options.max_samples);
  return options.schedule.of_run(options.epochs > 0 ? options.epochs
                                                    : samples / static_cast<double>(rows));
}

void plan_data(const TrainOptions& options, const DatasetTotals& train, Plan& plan) {
  plan.rows = train.rows;
  plan.equal_losses = train.equal_tokens;
  plan.schedule = schedule_of(options, train.rows);
  plan.max_samples = options.max_samples;
  if (options.epochs <= 0) return;
  // At least one sample, because a budget of 0 samples would mean no budget.
  const double samples = options.epochs * static_cast<double>(train.rows);
  plan.max_samples = static_cast<std::uint64_t>(std::llround(std::max(1.0, samples)));
}

}  // namespace hetsgd
