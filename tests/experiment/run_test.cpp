#include "experiment/run.hpp"

#include "result/validate.hpp"
#include "support/failure.hpp"
#include "support/run.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

class RunTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }

  // A run of one epoch with more settings.
  static test::Configuration epoch(const test::Settings& more) {
    return test::Configuration(
        test::with(test::tiny("ssgd", {{"workers", "2"}, {"epochs", "1"}}), more));
  }

 private:
  const TemporaryFolder folder_;
};

TEST_F(RunTest, LeavesTheResultThatItReturns) {
  const auto run = epoch({{"output", path("a.json")},
                          {"evaluate_every", "64"},
                          {"target", "p1>=0.01"},
                          {"target", "p1>=0.99"}});
  int points = 0;
  const Outcome outcome = run_one(
      run.spec(), {.args = {"train"}},
      {.on_record = [&](const Record& record) { points = static_cast<int>(record.curve.size()); }});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_FALSE(outcome.error);
  EXPECT_EQ(outcome.record.status, Status::completed);
  EXPECT_EQ(points, static_cast<int>(outcome.record.curve.size()));
  const json result = read_result(path("a.json"));
  EXPECT_EQ(result["status"], "completed");
  EXPECT_EQ(result["args"], json({"train"}));
  EXPECT_EQ(result["summary"]["elapsed_s"], outcome.summary.elapsed_s);
  ASSERT_EQ(outcome.summary.targets.size(), 2U);
  EXPECT_TRUE(outcome.summary.targets[0].time.held);
  EXPECT_EQ(result["time_to_accuracy"][0]["time_s"], outcome.summary.targets[0].time.held->time_s);
  EXPECT_FALSE(outcome.summary.reached_all_targets());
}

TEST_F(RunTest, ResumeFindsAResultThatIsThere) {
  const auto first = epoch({{"output", path("a.json")}});
  run_one(first.spec(), {}, {});
  const auto again = epoch({{"output", path("a.json")}, {"resume", "true"}});
  EXPECT_TRUE(run_one(again.spec(), {}, {}).already_done);
  const auto other = epoch({{"output", path("a.json")}, {"resume", "true"}, {"seed", "2"}});
  EXPECT_NE(test::usage_error_of([&] { run_one(other.spec(), {}, {}); }).find("seed differs"),
            std::string::npos);
}

TEST_F(RunTest, TheExitCodeSaysHowItEnded) {
  const auto missed = epoch({{"target", "p1>=0.99"}, {"require_target", "true"}});
  EXPECT_EQ(run_one(missed.spec(), {}, {}).exit_code, 3);
  const std::atomic<int> signal = 15;
  const auto endless = epoch({{"epochs", "1e6"}, {"output", path("b.json")}});
  EXPECT_EQ(run_one(endless.spec(), {}, {.signal = &signal}).exit_code, 128 + 15);
  EXPECT_EQ(read_result(path("b.json"))["status"], "aborted");
}

TEST_F(RunTest, AFileThatCannotBeWrittenIsTheOutcomesError) {
  const auto run = epoch({{"output", path("no/such/folder.json")}});
  const Outcome outcome = run_one(run.spec(), {}, {});
  EXPECT_EQ(outcome.record.status, Status::completed);
  ASSERT_TRUE(outcome.error);
  EXPECT_THROW(std::rethrow_exception(outcome.error), Error);
}

// Runs at the same time, in any order, are the runs that they are alone, and read the data once.
TEST_F(RunTest, RunsAtOnceShareTheirData) {
  DataCache cache;
  std::vector<Outcome> outcomes(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      threads.emplace_back([&, i] {
        const auto run =
            epoch({{"seed", std::to_string(i / 2)}, {"output", path(std::to_string(i) + ".json")}});
        outcomes[i] = run_one(run.spec(), {}, {}, &cache);
      });
    }
  }
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].record.train, outcomes[0].record.train);
    EXPECT_EQ(read_result(path(std::to_string(i) + ".json"))["status"], "completed");
  }
  const auto loss = [&](std::size_t i) { return outcomes[i].record.curve.back().test_loss(); };
  EXPECT_EQ(loss(0), loss(1));
  EXPECT_EQ(loss(2), loss(3));
  EXPECT_NE(loss(0), loss(2));
}

}  // namespace
}  // namespace hetsgd
