#include "training/plan_tables.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/error.hpp"
#include "core/memory.hpp"
#include "linalg/distinct.hpp"

namespace hetsgd {

namespace {

constexpr std::uint64_t kProfiledBatches = 100;  // at most, and no more than an epoch

// By field.
std::vector<double> profiled_load(const Sampler& sampler, std::uint64_t batch_size) {
  const Dataset& data = sampler.data();
  const std::size_t fields = data.fields.count();
  std::vector<double> load(fields);
  DistinctNumbers distinct;
  Batch batch;
  const std::uint64_t rows = sampler.shard_size(0), b = std::min(batch_size, rows);
  const std::uint64_t batches = std::min(kProfiledBatches, rows / b);
  for (std::uint64_t k = 0; k < batches; ++k) {
    sampler.fill(0, {k * b, b}, batch);
    for (std::size_t f = 0; f < fields; ++f) {
      distinct.begin(batch.size());
      for (const Index row : batch.rows()) distinct.slot(data.fields.row(row)[f]);
      load[f] += static_cast<double>(distinct.found().size()) / static_cast<double>(batches);
    }
  }
  return load;
}

bool needs_load(const Sharding& sharding) {
  return sharding.kind == Sharding::Kind::table || sharding.kind == Sharding::Kind::automatic;
}

}  // namespace

TableLaw TableLaw::of(const Model& whole, const OptimizerOptions& optimizer, std::uint64_t seed) {
  const ParameterBlock& table = whole.layout().blocks.front();
  HETSGD_CHECK(table.kind == BlockKind::table);
  return {.shape = whole.table_shape(),
          .dense_columns = whole.data().dense_columns,
          .initial = {table.keys, seed, table.init_std, table.cols - table.zero_cols},
          .optimizer = optimizer};
}

TablePlan make_table_plan(const TableLaw& law, const TableOptions& options, int workers,
                          const Sampler& sampler, std::uint64_t batch_size) {
  const Sharding sharding = options.sharding();
  std::vector<double> load;
  if (needs_load(sharding)) {
    if (sampler.data().whole) {
      throw with_hint(usage_error("--sharding: found {} where every process has a part of the "
                                  "training rows, expected row or column:c",
                                  sharding.text()),
                      "--partition shared gives all rows to all processes, which then find the "
                      "same loads");
    }
    load = profiled_load(sampler, batch_size);
  }
  return {.shape = law.shape,
          .dense_columns = law.dense_columns,
          .placement = Placement(law.initial.keys.first, law.shape.row(), workers, sharding, load),
          .initial = law.initial,
          .optimizer = law.optimizer,
          .dedup = options.dedup};
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
  std::vector<int> here;
  for (int rank = 0; rank < cluster.size(); ++rank) {
    if (cluster.runs_here(rank)) here.push_back(rank);
  }
  return std::make_unique<TableSet>(plan, here, machine_memory().total_bytes / place.local_size,
                                    threads);
}

nlohmann::json describe_tables(const TablePlan& plan, const TableOptions& options) {
  nlohmann::json bytes = nlohmann::json::array();
  double most = 0;
  for (int rank = 0; rank < plan.placement.ranks(); ++rank) {
    bytes.push_back(static_cast<std::uint64_t>(plan.bytes(rank)));
    most = std::max(most, plan.bytes(rank));
  }
  return {{"sharding", options.sharding().text()},
          {"rows", plan.placement.first().back()},
          {"bytes_per_rank", std::move(bytes)},
          {"imbalance", most * plan.placement.ranks() / total_bytes(plan)}};
}

}  // namespace hetsgd
