// Runs of a click-through model whose tables may be sharded, and how two of them compare.
#pragma once

#include <fstream>

#include "runs.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd::test {

inline const Settings kClicks =
    "--train generate:ctr-tiny --test generate:ctr-tiny --min-frequency 5 --cache false --model "
    "deepfm --embedding-dim 16 --embedding-init-std 0.1 --hidden 16,8 --batch-size 96 "
    "--learning-rate 0.2 --max-samples 1920 --evaluate-every 960 --record-steps";

struct TableOutcome {
  Record record;
  std::vector<float> parameters;  // of the last measured model, tables first
};

// The data are generated once for all runs.
inline TableOutcome run_clicks(const Settings& more) {
  static DataCache cache;
  const TemporaryFolder folder;
  const std::string path = folder / "parameters.f32";
  const Configuration configuration(with(with(kClicks, {{"dump_parameters", path}}), more));
  Training training(configuration.spec());
  training.load(&cache);
  TableOutcome outcome{run_loaded(training), {}};
  std::ifstream file(path, std::ios::binary);
  outcome.parameters.resize(std::filesystem::file_size(path) / sizeof(float));
  file.read(reinterpret_cast<char*>(outcome.parameters.data()),
            static_cast<std::streamsize>(outcome.parameters.size() * sizeof(float)));
  return outcome;
}

inline Settings sharded(const Settings& more) { return with("--tables sharded", more); }

inline void expect_same_run(const TableOutcome& a, const TableOutcome& b) {
  EXPECT_EQ(step_losses(a.record), step_losses(b.record));
  ASSERT_EQ(test_losses(a.record), test_losses(b.record));
  for (std::size_t i = 0; i < a.record.curve.size(); ++i) {
    EXPECT_EQ(metric_of(a.record.curve[i], "auc"), metric_of(b.record.curve[i], "auc"));
  }
  EXPECT_TRUE(a.parameters == b.parameters);
}

inline void expect_close_run(const TableOutcome& a, const TableOutcome& b, float tolerance) {
  ASSERT_EQ(a.parameters.size(), b.parameters.size());
  ASSERT_EQ(a.record.curve.size(), b.record.curve.size());
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    ASSERT_NEAR(a.parameters[i], b.parameters[i], tolerance) << "parameter " << i;
  }
  for (std::size_t i = 0; i < a.record.curve.size(); ++i) {
    EXPECT_NEAR(a.record.curve[i].test_loss(), b.record.curve[i].test_loss(), tolerance);
  }
}

// The sum of a count over all workers.
inline std::uint64_t total_of(const TableOutcome& run, std::uint64_t LookupCounts::*count) {
  std::uint64_t sum = 0;
  for (const WorkerRecord& worker : run.record.workers) sum += worker.lookups.*count;
  return sum;
}

inline bool learnt(const Record& record) {
  return record.curve.back().test_loss() < record.curve.front().test_loss();
}

inline Settings tiered(const std::string& profile, const Settings& more) {
  return sharded(with(fmt::format("--algorithm ssgd --workers 4 --profile @{}", profile), more));
}

}  // namespace hetsgd::test
