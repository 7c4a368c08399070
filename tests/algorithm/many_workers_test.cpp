// Thousands of simulated workers: shared knowledge is in memory once, not once per worker.

#include <malloc.h>

#include "cluster/trace/trace.hpp"
#include "support/effort.hpp"
#include "support/run.hpp"

namespace hetsgd::test {
namespace {

// A model of 30 parameters: a worker's own memory is small, so memory for the other workers shows.
const Settings kSmall =
    "--train generate:tiny?rows_train=64&rows_test=16&features=8&labels=4&nonzeros=3 --test "
    "generate:tiny?rows_train=64&rows_test=16&features=8&labels=4&nonzeros=3 --cache false "
    "--hidden 2 --batch-size 1 --learning-rate 0.01 --host-threads 1 --straggler "
    "kind=uniform,min=0ms,max=50ms";

// Every algorithm, and the options under which workers exchange more information.
std::vector<Settings> every_way() {
  std::vector<Settings> ways = {"--algorithm esync --weight steps",
                                "--algorithm sma --learners-per-device auto --tuner-every 1",
                                "--algorithm ssgd --per-worker-batch full --storage central",
                                "--algorithm rna --hierarchical --group-after 1"};
  for (const RegisteredAlgorithm& algorithm : algorithms()) {
    if (algorithm.info.max_workers == 1) continue;
    if (!algorithm.info.sharded_tables_only.empty()) continue;
    ways.push_back({{"algorithm", algorithm.info.name}});
    if (algorithm.info.name == "ssgd") ways.back().push_back({"per_worker_batch", "full"});
    if (algorithm.info.name == "local-sgd") ways.back().push_back({"local_steps", "1"});
  }
  return ways;
}

Settings rounds_of(int workers, int rounds) {
  return fmt::format("--workers {0} --mega-batch {0} --max-samples {1}", workers, workers * rounds);
}

// all_gather would leave P parts with each of P workers. Algorithms agree on a result of the parts.
TEST(ManyWorkers, NobodyGathersWhatAllKnow) {
  for (const Settings& way : every_way()) {
    SCOPED_TRACE(describe_settings(way));
    Trace trace;
    run_training(with(with(kSmall, rounds_of(4, 8)), way), {.trace = &trace});
    std::set<std::string> calls;
    for (const TraceLine* line : trace.lines()) {
      for (const RecordedCall& range : line->ranges) calls.insert(range.name);
    }
    EXPECT_FALSE(calls.contains("all_gather"));
  }
}

// All that is allocated, in the heap or mapped.
std::size_t bytes_in_use() {
  const struct mallinfo2 all = mallinfo2();
  return all.uordblks + all.hblkhd;
}

// Measured in the middle of a round, at an evaluation.
double bytes_of(const Settings& way, int workers) {
  TrainHooks hooks;
  const std::size_t before = bytes_in_use();
  std::size_t most = before;
  hooks.on_record = [&](const Record&) { most = std::max(most, bytes_in_use()); };
  run_training(with(with(kSmall, rounds_of(workers, 2)), way), hooks);
  return static_cast<double>(most - before);
}

// P workers take a + b P bytes, and c P^2 more if each of them has a vector of P elements: c is 4
// or 8. Then a further worker takes 3 c P / 4 more between P/2 and P than between P/4 and P/2. P is
// so large that 2 MiB do not matter: a block on a huge page takes 2 or 4 of them, depending on
// where the heap has room.
TEST(ManyWorkers, AWorkersMemoryDoesNotGrowWithTheirNumber) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be counted";
  constexpr int P = 4000;
  constexpr double kLeastC = 2;
  for (const Settings& way : every_way()) {
    const double quarter = bytes_of(way, P / 4), half = bytes_of(way, P / 2),
                 all = bytes_of(way, P);
    const double early = (half - quarter) / (P / 4), late = (all - half) / (P / 2);
    EXPECT_LT(late, early + 3 * kLeastC * P / 4) << describe_settings(way);
  }
}

// This would take minutes and gigabytes if anything of a merge cost P^2.
TEST(ManyWorkers, TenThousandMergeTwice) {
  constexpr int kWorkers = kSanitized ? 100 : 10'000;
  const Record run = run_with(with(kSmall, rounds_of(kWorkers, 2)), "--algorithm adaptive");
  ASSERT_EQ(merges(run).size(), 2U);
  for (const auto& merge : merges(run)) {
    EXPECT_EQ(merge["updates"].size(), static_cast<std::size_t>(kWorkers));
    EXPECT_NEAR(merge["weight_sum"].get<double>(), 1, 0.01);
  }
}

}  // namespace
}  // namespace hetsgd::test
