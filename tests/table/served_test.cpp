// Served tables without a model: gradients that workers push at once, in any order, reach the rows
// once.
#include "table/served.hpp"

#include "cluster/cluster.hpp"
#include "support/small_tables.hpp"

namespace hetsgd::test {
namespace {

constexpr int kServedBatches = 6;  // of every worker

// All rows begin at 0.
TablePlan zero_plan(const std::string& sharding, int ranks, bool dedup) {
  TablePlan plan = plan_of(sharding, ranks, dedup, OptimizerKind::sgd);
  plan.initial.std = 0;
  return plan;
}

// The n-th batch of a worker: each worker has other samples, of unequal number.
std::vector<Index> served_rows(int rank, int n) {
  std::vector<Index> rows(static_cast<std::size_t>(5 + 3 * rank + n));
  std::iota(rows.begin(), rows.end(), static_cast<Index>(40 * rank + 7 * n));
  return rows;
}

struct ServedOutcome {
  std::vector<float> table;
  std::uint64_t pushes = 0;     // by owners that had rows of them
  std::uint64_t staleness = 0;  // their sum
  std::vector<LookupCounts> counts;
};

// Every sample pushes a gradient of 1 to each number of its rows, at rate 1/8. Worker 0 drops every
// other batch.
ServedOutcome serve_ones(const std::string& cluster, const TablePlan& plan, bool drops) {
  const DatasetPtr data = clicks();
  const int workers = plan.placement.ranks();
  ClusterOptions options;
  options.workers = workers;
  options.network = load_network_model("ethernet-1g");
  options.profiles = {load_device_profile("cpu")};
  const auto running = make_cluster(cluster, options);
  std::vector<int> all(static_cast<std::size_t>(workers));
  std::iota(all.begin(), all.end(), 0);
  TableSet set(plan, all, 1e12);
  ServedOutcome outcome;
  outcome.counts.resize(all.size());
  std::atomic<std::uint64_t> pushes = 0, staleness = 0;
  running->run([&](Endpoint& endpoint) {
    TableStages tables(set.plan(), set.shard(endpoint.rank()), endpoint.device());
    const auto lookup = tables.make_lookup();
    const auto as_stated = [](const Work& work) { return work; };
    ServedTables served(endpoint, tables,
                        {.gather = as_stated, .update = as_stated, .staleness = [&](auto updates) {
                           ++pushes;
                           staleness += updates;
                         }});
    for (int n = 0; n < kServedBatches; ++n) {
      tables.request(Batch(*data, served_rows(endpoint.rank(), n)), *lookup);
      served.pull(*lookup);
      tables.spread(*lookup);
      lookup->gradient.reset(endpoint.device(), lookup->batch().size(),
                             kDense + kFields * kEmbedding);
      std::ranges::fill(lookup->gradient.x.span(), 1.0F);
      std::ranges::fill(lookup->gradient.u.span(), 1.0F);
      tables.sum(*lookup);
      if (drops && endpoint.rank() == 0 && n % 2 == 1) {
        served.drop();
        continue;
      }
      served.push(*lookup, 0.125, outcome.counts[static_cast<std::size_t>(endpoint.rank())]);
    }
    served.close();
  });
  outcome.table = read_all(set);
  outcome.pushes = pushes;
  outcome.staleness = staleness;
  return outcome;
}

// Multiples of 1/8 below 2^20 are exact, so their order does not show: row r ends at -o/8, o the
// occurrences of r in all batches that were pushed.
std::vector<float> expected_ones(int workers, bool drops) {
  const DatasetPtr data = clicks();
  std::vector<float> table(kTableFirst.back() * kWidth);
  for (int rank = 0; rank < workers; ++rank) {
    for (int n = 0; n < kServedBatches; ++n) {
      if (drops && rank == 0 && n % 2 == 1) continue;
      for (const Index sample : served_rows(rank, n)) {
        for (const Index row : data->fields.row(sample)) {
          for (std::size_t j = 0; j < kWidth; ++j) table[row * kWidth + j] -= 0.125F;
        }
      }
    }
  }
  return table;
}

TEST(ServedTables, EveryPushIsAppliedOnceWhereverItsRowsLie) {
  for (const char* cluster : {"sim", "threads"}) {
    for (const auto& [sharding, workers] : {std::pair("row", 1), std::pair("row", 4),
                                            std::pair("table", 3), std::pair("column:2", 4)}) {
      for (const bool dedup : {true, false}) {
        for (const bool drops : {false, true}) {
          SCOPED_TRACE(fmt::format("{}, {} x {}, dedup {}, drops {}", cluster, sharding, workers,
                                   dedup, drops));
          const ServedOutcome outcome =
              serve_ones(cluster, zero_plan(sharding, workers, dedup), drops);
          EXPECT_EQ(outcome.table, expected_ones(workers, drops));
        }
      }
    }
  }
}

// Alone a worker reads its own writes. Among others it misses some of their writes, at most all.
TEST(ServedTables, StalenessCountsTheUpdatesOfOthers) {
  EXPECT_EQ(serve_ones("sim", zero_plan("row", 1, true), false).staleness, 0U);
  const ServedOutcome four = serve_ones("sim", zero_plan("row", 4, true), false);
  // One for each owner that has rows of a batch.
  EXPECT_LE(four.pushes, 4U * 4 * kServedBatches);
  EXPECT_GT(four.pushes, 4U * kServedBatches);
  EXPECT_GT(four.staleness, 0U);
  EXPECT_LE(four.staleness, four.pushes * 3 * kServedBatches);
}

TEST(ServedTables, CountsSayWhatWasPulled) {
  const ServedOutcome outcome = serve_ones("sim", zero_plan("row", 3, true), false);
  for (int rank = 0; rank < 3; ++rank) {
    const LookupCounts& counts = outcome.counts[static_cast<std::size_t>(rank)];
    std::size_t samples = 0;
    for (int n = 0; n < kServedBatches; ++n) samples += served_rows(rank, n).size();
    EXPECT_EQ(counts.lookups, kFields * samples);
    EXPECT_LT(counts.entries, counts.lookups);
    EXPECT_EQ(counts.asked, counts.entries);
    EXPECT_EQ(counts.on_device, counts.asked);
    EXPECT_EQ(counts.evicted, 0U);
  }
}

// Room for 40 of 65 rows, of which a batch of at most 10 samples pins at most 30: rows come and go,
// and those that go begin at 0 again.
TEST(ServedTables, RowsComeAndGoUnderACapacity) {
  for (const char* cluster : {"sim", "threads"}) {
    TablePlan plan = zero_plan("row", 1, true);
    plan.replacement = {.capacity = 40, .evict = Evict::lru};
    const ServedOutcome outcome = serve_ones(cluster, plan, true);
    EXPECT_GT(outcome.counts[0].evicted, 0U);
    const std::vector<float> all = expected_ones(1, true);
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_LE(all[i], outcome.table[i]);
  }
}

}  // namespace
}  // namespace hetsgd::test
