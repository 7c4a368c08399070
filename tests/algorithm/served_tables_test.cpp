// Runs whose tables are served: every worker has a companion that answers for its rows.
#include "table_runs.hpp"

namespace hetsgd::test {
namespace {

Settings served(const Settings& more) { return sharded(with("--table-exchange served", more)); }

// The owner takes the same sums in the same order: there is one worker.
TEST(ServedAlgorithms, OneWorkerHasTheBitsOfExchangedTables) {
  for (const char* algorithm : {"sgd", "ssgd", "local-sgd"}) {
    for (const Settings& how :
         {Settings{}, Settings("--dedup false"), Settings("--optimizer adam"),
          Settings("--optimizer adagrad --table-capacity 400 --min-frequency 1")}) {
      SCOPED_TRACE(algorithm + describe_settings(how));
      const Settings run = with(fmt::format("--algorithm {} --learning-rate 0.05", algorithm), how);
      const TableOutcome exchanged = run_clicks(sharded(run)), each = run_clicks(served(run));
      expect_same_run(exchanged, each);
      EXPECT_EQ(each.record.tables["exchange"], "served");
      EXPECT_EQ(total_of(exchanged, &LookupCounts::evicted),
                total_of(each, &LookupCounts::evicted));
    }
  }
}

// Algorithms that are sgd with one worker are so on served tables too, up to the rounding of an
// update that is not fused. (Algorithms that merge replicas with momentum are not, whatever the
// tables.)
TEST(ServedAlgorithms, OneWorkerIsSgd) {
  const TableOutcome sgd = run_clicks(sharded("--algorithm sgd"));
  for (const char* algorithm : {"asgd", "dc-asgd", "ssp", "adpsgd"}) {
    SCOPED_TRACE(algorithm);
    expect_close_run(sgd, run_clicks(sharded({{"algorithm", algorithm}})), 1e-5F);
  }
}

TEST(ServedAlgorithms, EveryOneLearnsWhateverTheCluster) {
  for (const RegisteredAlgorithm& algorithm : algorithms()) {
    const AlgorithmInfo& info = algorithm.info;
    if (!may_serve_tables(info) || info.max_workers == 1) continue;
    for (const char* cluster : {"sim", "threads"}) {
      for (const char* sharding : {"row", "column:2"}) {
        SCOPED_TRACE(fmt::format("{} on {}, {}", info.name, cluster, sharding));
        const TableOutcome run =
            run_clicks(served(fmt::format("--algorithm {} --cluster {} --workers 4 --sharding {} "
                                          "--max-samples 3840 --batch-size 32 --mega-batch 8",
                                          info.name, cluster, sharding)));
        EXPECT_TRUE(learnt(run.record));
        EXPECT_TRUE(run.record.histograms.contains("row_staleness"));
      }
    }
  }
}

// One count for each batch and owner. The updates that a worker has not pushed itself come from
// others.
TEST(ServedAlgorithms, StalenessOfRowsIsRecorded) {
  const auto staleness = [](const char* workers) {
    const Record record =
        run_clicks(sharded(fmt::format("--algorithm asgd --workers {}", workers))).record;
    std::uint64_t counts = 0, sum = 0;
    for (const auto& [value, count] : record.histograms.at("row_staleness")) {
      counts += count;
      sum += static_cast<std::uint64_t>(value) * count;
    }
    std::uint64_t batches = 0;
    for (const WorkerRecord& worker : record.workers) batches += worker.samples / 96;
    EXPECT_EQ(counts, batches * record.workers.size());
    return sum;
  };
  EXPECT_EQ(staleness("1"), 0U);
  EXPECT_GT(staleness("4"), 0U);
}

// ssgd's parts of a batch have their share of the learning rate. So a row that only one worker
// looks up moves as by the mean; any other row moves once for each worker that has it. The test
// runs in sim, where the order of arrival is always the same.
TEST(ServedAlgorithms, SsgdComesCloseToItsExchangedTables) {
  const Settings run = "--algorithm ssgd --per-worker-batch split --workers 4";
  const TableOutcome exchanged = run_clicks(sharded(run));
  for (const Settings& how : {Settings{}, Settings("--storage central")}) {
    expect_close_run(exchanged, run_clicks(served(with(run, how))), 5e-3F);
  }
}

TEST(ServedAlgorithms, HostRowsCostMoreAndChangeNoBit) {
  const Settings asgd = "--algorithm asgd --workers 1";
  const TableOutcome device = run_clicks(with(tiered("tiered_profile", {}), asgd));
  const TableOutcome host =
      run_clicks(with(tiered("tiered_profile", "--table-storage host"), asgd));
  expect_same_run(device, host);
  EXPECT_LT(device.record.elapsed, host.record.elapsed);
}

}  // namespace
}  // namespace hetsgd::test
