// The contents that every algorithm must leave in its record: histograms, events, and bytes by
// kind. An algorithm without a row here fails.

#include "support/clicks.hpp"

namespace hetsgd::test {
namespace {

using Names = std::set<std::string>;

const Settings kRecords = tiny(
    "sgd",
    "--learning-rate 0.1 --max-samples 3200 --mega-batch 20 --speed 1,0.8,0.6,0.3 --workers 4");

struct Expected {
  std::string algorithm;
  Settings more;
  Names histograms;   // at least these
  Names events;       // at least these, without --record-steps
  Names step_events;  // further ones under --record-steps, besides "step"
  Names sent;         // kinds of which workers send bytes: these and no others
  Names received;
};

// A call of a service carries its arguments as control beside the vector.
const Names kNone, kGradients = {"gradients"}, kParameters = {"parameters"},
                   kModels = {"parameters", "control"}, kPushes = {"gradients", "control"};

const std::vector<Expected>& expectations() {
  static const std::vector<Expected> kAll = {
      {"sgd", "--workers 1 --speed 1", {}, {}, {}, kNone, kNone},
      {"ssgd", {}, {}, {}, {}, kGradients, kGradients},
      {"ssgd", "--storage central", {}, {}, {}, kPushes, kModels},
      {"elastic", {}, {}, {"merge"}, {}, kModels, kModels},
      {"adaptive", {}, {}, {"merge"}, {}, kModels, kModels},
      {"asgd", {}, {"staleness"}, {}, {"push"}, kPushes, kModels},
      {"dc-asgd", {}, {"staleness"}, {}, {"push"}, kPushes, kModels},
      {"ssp", {}, {"staleness", "lead"}, {}, {"push"}, kPushes, kModels},
      {"esync", {}, {"local_steps", "state_server_decision"}, {}, {"query"}, kModels, kModels},
      {"esync",
       "--aggregate server",
       {"local_steps", "state_server_decision"},
       {},
       {"query"},
       kModels,
       kModels},
      {"adpsgd",
       {},
       {"staleness", "iteration_gap"},
       {},
       {"read", "apply", "average"},
       kModels,
       kModels},
      {"eager-solo",
       {},
       {"staleness", "contributors"},
       {},
       {"contribution"},
       kGradients,
       kGradients},
      {"eager-majority",
       {},
       {"staleness", "contributors"},
       {},
       {"contribution"},
       kGradients,
       kGradients},
      {"rna", {}, {"staleness", "contributors"}, {}, {"contribution"}, kPushes, kPushes},
      {"rna",
       "--hierarchical",
       {"staleness", "contributors"},
       {"groups"},
       {"contribution", "exchange"},
       {"gradients", "parameters", "control"},
       {"gradients", "parameters", "control"}},
      {"slide",
       {},
       {"active", "retrieved", "blind", "staleness"},
       {"rehash", "recall"},
       {},
       kNone,
       kNone},
      {"sma", {}, {"contributors"}, {"learners"}, {"all_reduce"}, kParameters, kParameters},
      {"easgd", {}, {"contributors"}, {"learners"}, {"all_reduce"}, kParameters, kParameters},
      {"hogbatch", "--profile cpu*3,v100", {"staleness"}, {"batch_size"}, {}, kPushes, kModels},
      {"hogwild", {}, {"staleness"}, {}, {}, kNone, kNone},
      {"local-sgd", {}, {"local_steps"}, {}, {}, kParameters, kParameters},
      {"sven",
       sharded_clicks(),
       {"staleness"},
       {},
       {},
       {"gradients", "rows", "control"},  // its input is free of charge; groups of its processes
       {"gradients", "rows", "control"}},
  };
  return kAll;
}

std::string name_of(const Expected& one) {
  std::string text = one.algorithm;
  for (const auto& [key, value] : one.more) text += " --" + key + " " + value;
  return text;
}

Record run(const Expected& one, bool record_steps) {
  return run_with(with(kRecords, "--algorithm {} --record-steps {}", one.algorithm,
                       record_steps ? "true" : "false"),
                  one.more);
}

Names histograms(const Record& record) {
  Names names;
  for (const auto& [name, counts] : record.histograms) names.insert(name);
  return names;
}

Names events(const Record& record) {
  Names names;
  for (const auto& event : record.events) names.insert(event["type"].get<std::string>());
  return names;
}

Names kinds(const Record& record, TrafficBytes TimeBreakdown::*bytes) {
  Names names;
  for (const WorkerRecord& worker : record.workers) {
    for (std::size_t kind = 0; kind < kTrafficNames.size(); ++kind) {
      if ((worker.report.breakdown.*bytes)[kind] > 0) names.emplace(kTrafficNames[kind]);
    }
  }
  return names;
}

// An algorithm without a row is not tested below; what it leaves is checked there.
TEST(Records, EveryAlgorithmHasARow) {
  Names rows;
  for (const Expected& one : expectations()) rows.insert(one.algorithm);
  for (const RegisteredAlgorithm& one : algorithms()) {
    EXPECT_TRUE(rows.contains(one.info.name)) << one.info.name;
  }
}

TEST(Records, HistogramsEventsAndBytesByKind) {
  for (const Expected& one : expectations()) {
    SCOPED_TRACE(name_of(one));
    const Record record = run(one, false);
    EXPECT_THAT(histograms(record), testing::IsSupersetOf(one.histograms));
    const bool synchronous = find_algorithm(one.algorithm).info.synchronous;
    EXPECT_TRUE(synchronous || record.histograms.contains("staleness"));
    EXPECT_THAT(events(record), testing::IsSupersetOf(one.events));
    EXPECT_THAT(events(record), testing::Not(testing::Contains("step")));
    EXPECT_EQ(kinds(record, &TimeBreakdown::bytes_sent), one.sent);
    EXPECT_EQ(kinds(record, &TimeBreakdown::bytes_received), one.received);
    for (const auto& [name, counts] : record.histograms) {
      EXPECT_GE(counts.begin()->first, 0) << name;
    }
  }
}

TEST(Records, RecordStepsAddsTheStepsAndTheirOrder) {
  for (const Expected& one : expectations()) {
    SCOPED_TRACE(name_of(one));
    const Record record = run(one, true);
    EXPECT_THAT(events(record), testing::IsSupersetOf(one.events));
    EXPECT_THAT(events(record), testing::IsSupersetOf(one.step_events));
    EXPECT_THAT(events(record), testing::Contains("step"));
  }
}

// Two runs of the same options: the events that --record-steps adds change nothing else.
TEST(Records, RecordStepsLeavesTheRunAsItIs) {
  for (const Expected& one : expectations()) {
    SCOPED_TRACE(name_of(one));
    const Record plain = run(one, false), recorded = run(one, true);
    EXPECT_EQ(plain.elapsed, recorded.elapsed);
    EXPECT_EQ(plain.histograms, recorded.histograms);
    EXPECT_EQ(plain.curve.back().test_loss(), recorded.curve.back().test_loss());
  }
}

TEST(Records, TheRowsOfEachShard) {
  const Settings base = with(kRecords, "--algorithm ssgd");
  for (const WorkerRecord& worker : run_training(base).workers) {
    EXPECT_EQ(worker.shard_rows, 2000U);
  }
  for (const char* partition : {"iid", "label_sorted", "dirichlet"}) {
    for (const WorkerRecord& worker : run_with(base, {{"partition", partition}}).workers) {
      EXPECT_EQ(worker.shard_rows, 500U) << partition;
    }
  }
}

// Every algorithm learns from Dirichlet shards, or says that it needs one pool.
TEST(Records, DirichletShardsWithEveryAlgorithm) {
  for (const Expected& one : expectations()) {
    SCOPED_TRACE(name_of(one));
    Expected divided = one;
    divided.more.emplace_back("partition", "dirichlet");
    if (one.algorithm == "adaptive" || one.algorithm == "hogbatch") {
      EXPECT_THROW(run(divided, false), Error);
      continue;
    }
    const Record record = run(divided, false);
    EXPECT_LT(record.curve.back().test_loss(), record.curve.front().test_loss());
  }
}

}  // namespace
}  // namespace hetsgd::test
