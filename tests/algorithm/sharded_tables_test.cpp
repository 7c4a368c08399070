// Runs with sharded tables against runs with replicated ones, and against each other: to the bit
// where the same sums are added in the same order.
#include "table_runs.hpp"

namespace hetsgd::test {
namespace {

// One worker looks up what its replica would have read, and both fuse the step of the dense part.
TEST(ShardedTables, OneWorkerIsSgdOnReplicatedTables) {
  for (const char* model : {"deepfm", "wide_deep", "dcn"}) {
    SCOPED_TRACE(model);
    const Settings run = fmt::format("--algorithm sgd --model {}", model);
    const TableOutcome replicated = run_clicks(run);
    expect_same_run(replicated, run_clicks(sharded(run)));
    expect_same_run(replicated, run_clicks(with(sharded(run), "--dedup false")));
    EXPECT_TRUE(learnt(replicated.record));
  }
}

// Row rules and learning rates of their own, beside another optimizer of the dense part.
TEST(ShardedTables, OneWorkerFollowsEveryRowRule) {
  for (const Settings& rule : {Settings("--optimizer adam --learning-rate 0.01"),
                               Settings("--optimizer adagrad --learning-rate 0.05"),
                               Settings("--table-optimizer adagrad --table-learning-rate 0.05"),
                               Settings("--optimizer momentum --table-optimizer sgd")}) {
    SCOPED_TRACE(rule.front().second);
    const Settings run = with("--algorithm sgd", rule);
    expect_same_run(run_clicks(run), run_clicks(sharded(run)));
  }
}

// The mean of the workers' gradients, in the order of ranks for replicated and for sharded tables.
TEST(ShardedTables, SsgdIsSsgdOnReplicatedTables) {
  for (const char* workers : {"2", "3", "8"}) {
    SCOPED_TRACE(workers);
    const Settings run =
        fmt::format("--algorithm ssgd --per-worker-batch split --workers {}", workers);
    expect_close_run(run_clicks(run), run_clicks(sharded(run)), 1e-6F);
  }
}

TEST(ShardedTables, NoLayoutChangesABit) {
  const Settings run =
      sharded("--algorithm ssgd --per-worker-batch split --workers 4 --optimizer adagrad");
  const TableOutcome row = run_clicks(run);
  EXPECT_TRUE(learnt(row.record));
  for (const char* sharding : {"table", "column:2", "column:4", "auto"}) {
    SCOPED_TRACE(sharding);
    expect_same_run(row, run_clicks(with(run, {{"sharding", sharding}})));
  }
  for (const char* sharding : {"row", "column:2"}) {
    SCOPED_TRACE(sharding);
    expect_same_run(row, run_clicks(with(run, "--sharding {} --dedup false", sharding)));
  }
}

// Parts of unequal size: 96 samples of 5 workers.
TEST(ShardedTables, ClustersAgreeToTheBit) {
  for (const Settings& how : {Settings("--algorithm ssgd --per-worker-batch split --workers 5"),
                              Settings("--algorithm local-sgd --workers 3 --local-steps 4")}) {
    SCOPED_TRACE(how.front().second);
    const TableOutcome sim = run_clicks(sharded(how));
    EXPECT_TRUE(learnt(sim.record));
    expect_same_run(sim, run_clicks(with(sharded(how), "--cluster threads")));
  }
}

// A global batch of 96 samples with 6 fields; every worker moves rows in bytes, and ids.
TEST(ShardedTables, TheRecordSaysWhatLiesWhere) {
  const TableOutcome run =
      run_clicks(sharded("--algorithm ssgd --per-worker-batch split --workers 4"));
  const auto& tables = run.record.tables;
  EXPECT_EQ(tables["sharding"], "row");
  EXPECT_EQ(tables["bytes_per_rank"].size(), 4U);
  EXPECT_GE(tables["imbalance"].get<double>(), 1);
  EXPECT_EQ(total_of(run, &LookupCounts::lookups), 1920U * 6);
  EXPECT_LT(total_of(run, &LookupCounts::entries), 1920U * 6);
  EXPECT_EQ(run.record.parameters, run.parameters.size());
}

void expect_tables_refused(const Settings& more, const std::string& message) {
  EXPECT_THAT(usage_error_of([&] { run_clicks(more); }), HasSubstr(message));
}

TEST(ShardedTables, WhatTheyDoNotGoWithSaysWhy) {
  const Settings ssgd = {{"algorithm", "ssgd"}, {"per_worker_batch", "split"}};
  std::vector<std::pair<Settings, std::string>> refused = {
      {sharded({{"algorithm", "asgd"}, {"table_exchange", "collective"}}),
       "--table-exchange: found collective with asgd"},
      {sharded({{"algorithm", "sven"}, {"table_exchange", "served"}}),
       "--table-exchange: found served, expected collective: sven"},
      {sharded({{"algorithm", "sgd"}, {"clip_norm", "1"}}),
       "--clip-norm: found 1 with --tables sharded"},
      {sharded({{"algorithm", "sgd"}, {"hot_replace_every", "5"}}),
       "--hot-replace-every: found --table-storage device"},
      {{{"algorithm", "sgd"}, {"sharding", "table"}}, "--sharding: found --tables replicated"},
      {{{"algorithm", "sgd"}, {"table_exchange", "served"}},
       "--table-exchange: found --tables replicated"},
      {sharded(with(ssgd, {{"workers", "3"}, {"sharding", "column:2"}})),
       "expected a number of slices that divides the number of workers"}};
  for (const std::string algorithm : {"sma", "easgd", "hogwild", "hogbatch"}) {
    refused.push_back({sharded({{"algorithm", algorithm}, {"workers", "2"}}),
                       "expected replicated: " + algorithm});
  }
  for (const auto& [key, value] :
       Settings{{"storage", "central"}, {"reduce", "adasum"}, {"overlap", "true"}}) {
    refused.push_back({sharded(with(ssgd, {{"workers", "2"}, {key, value}})),
                       "--tables: found sharded with --" + key});
  }
  for (const auto& [settings, message] : refused) expect_tables_refused(settings, message);
  expect_refused(tiny("sgd", {{"tables", "sharded"}, {"epochs", "1"}}),
                 "--tables: found sharded with --model mlp");
}

Settings hybrid_tiers(const std::string& fraction, const std::string& hot = "frequency") {
  return fmt::format("--table-storage hybrid --hot-fraction {} --hot {}", fraction, hot);
}

// Tiers move bytes: they change no number, and the ends of hybrid are host and device in time too.
TEST(ShardedTables, TiersChangeNoBitAndTheirEndsNoTime) {
  const auto run = [](const Settings& more) { return run_clicks(tiered("tiered_profile", more)); };
  const TableOutcome device = run({}), host = run("--table-storage host");
  const TableOutcome none = run(hybrid_tiers("0")), all = run(hybrid_tiers("1"));
  const TableOutcome hot = run(hybrid_tiers("0.1")), any = run(hybrid_tiers("0.1", "random"));
  for (const TableOutcome* each : {&host, &none, &all, &hot, &any}) expect_same_run(device, *each);
  EXPECT_EQ(none.record.elapsed, host.record.elapsed);
  EXPECT_EQ(all.record.elapsed, device.record.elapsed);
  EXPECT_LT(device.record.elapsed, hot.record.elapsed);
  EXPECT_LT(hot.record.elapsed, any.record.elapsed);
  EXPECT_LT(any.record.elapsed, host.record.elapsed);
}

// Rows that change their memory during the run change no value either. Whatever the initial choice,
// later on more of the requested rows lie on the device; the profile charges the moves.
TEST(ShardedTables, HotRowsThatAreChosenAnewChangeNoBit) {
  const auto run = [](const Settings& more) {
    return run_clicks(tiered("tiered_profile", with("--per-worker-batch split", more)));
  };
  constexpr auto kHits = &LookupCounts::on_device, kMoved = &LookupCounts::moved;
  const TableOutcome device = run({}), any = run(hybrid_tiers("0.1", "random"));
  EXPECT_EQ(total_of(any, kMoved), 0U);
  for (const char* every : {"1", "5"}) {
    SCOPED_TRACE(every);
    const Settings anew = with(hybrid_tiers("0.1", "random"), {{"hot_replace_every", every}});
    const TableOutcome sim = run(anew);
    expect_same_run(device, sim);
    EXPECT_GT(total_of(sim, kMoved), 0U);
    EXPECT_GT(total_of(sim, kHits), total_of(any, kHits));
    EXPECT_NE(sim.record.elapsed, any.record.elapsed);
    const TableOutcome threads = run(with(anew, "--cluster threads"));
    expect_same_run(device, threads);
    EXPECT_EQ(total_of(threads, kMoved), total_of(sim, kMoved));
    EXPECT_EQ(total_of(threads, kHits), total_of(sim, kHits));
    expect_same_run(device, run(with(anew, "--sharding column:2")));
  }
}

// If the host's rows cost as much as the device's and its link nothing, the choice costs nothing.
TEST(ShardedTables, EqualTiersMakeTheChoiceOfHotRowsFree) {
  const auto elapsed = [](const Settings& more) {
    return run_clicks(tiered("equal_tiers_profile", more)).record.elapsed;
  };
  const Seconds device = elapsed({});
  EXPECT_NEAR(elapsed("--table-storage host") / device, 1, 1e-9);
  EXPECT_NEAR(elapsed(hybrid_tiers("0.3")) / device, 1, 1e-9);
  EXPECT_NEAR(elapsed(hybrid_tiers("0.3", "random")) / device, 1, 1e-9);
}

TEST(ShardedTables, RowsOnDevicesMustFit) {
  const TemporaryFile profile("small",
                              R"({"name": "small", "launch_overhead_s": 0, "operations_per_s": 1e12,
                                  "bytes_per_s": 1e11, "memory_bytes": 1000})");
  const Settings small = sharded(fmt::format("--algorithm sgd --profile {}", profile.path()));
  expect_tables_refused(small, "--table-storage: found device with 96.3 KiB of rows");
  expect_tables_refused(with(small, "--table-storage host"), "no error");
}

// ctr-tiny has 2,327 rows; a global batch of 96 samples looks up some 240 of them.
TEST(ShardedTables, RowsUnderACapacityComeAndGoAlikeEverywhere) {
  const Settings run =
      sharded("--algorithm ssgd --per-worker-batch split --workers 3 --min-frequency 1");
  const TableOutcome all = run_clicks(run);
  expect_same_run(all, run_clicks(with(run, "--table-capacity 1M")));
  const auto rows = all.record.tables["rows"].get<std::uint64_t>();
  for (const char* evict : {"importance", "lru", "lfu", "random"}) {
    SCOPED_TRACE(evict);
    const Settings few = with(run, "--table-capacity {} --evict {}", rows / 3, evict);
    const TableOutcome sim = run_clicks(few);
    EXPECT_TRUE(learnt(sim.record));
    EXPECT_GT(total_of(sim, &LookupCounts::evicted), 0U);
    expect_same_run(sim, run_clicks(with(few, "--cluster threads")));
    expect_same_run(sim, run_clicks(with(few, "--dedup false")));
  }
}

}  // namespace
}  // namespace hetsgd::test
