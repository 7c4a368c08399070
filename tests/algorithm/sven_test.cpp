// Sven's pipelines against each other, against sgd and ssgd, and against an oracle that keeps old
// versions of the tables: to the bit.

#include "model/registry.hpp"
#include "table_runs.hpp"

namespace hetsgd::test {
namespace {

const Settings kSven =
    "--embedding-dim 8 --hidden 12 --batch-size 24 --algorithm sven --tables sharded --workers 4";

TableOutcome run_sven(const Settings& more = {}) { return run_clicks(with(kSven, more)); }

const Settings kNoPipeline = "--pipeline none";

// One worker looks up what its replica would have read. With AdaGrad both build the gradient and
// update by the same rules; sgd's fused step adds in another order.
TEST(Sven, OneWorkerWithoutPipelineIsSgdOnReplicatedTables) {
  const Settings one = "--workers 1 --optimizer adagrad --learning-rate 0.05";
  const Settings sgd = with(one, "--algorithm sgd --tables replicated");
  expect_same_run(run_sven(with(one, kNoPipeline)), run_sven(sgd));
}

// The same exchanges, sums and updates in the same order.
TEST(Sven, WithoutPipelineItIsSsgd) {
  const TableOutcome sven = run_sven(kNoPipeline);
  const Settings ssgd = "--algorithm ssgd --per-worker-batch full";
  expect_same_run(sven, run_sven(ssgd));
  const TableOutcome replicated = run_sven(with(ssgd, "--tables replicated"));
  expect_close(step_losses(sven.record), step_losses(replicated.record), 1e-6);
  expect_same_run(run_sven("--pipeline none --per-worker-batch split"),
                  run_sven("--algorithm ssgd --per-worker-batch split"));
}

// Every schedule acts on the dense part and on rows as it does in ssgd.
TEST(Sven, FollowsTheSchedule) {
  std::vector<TableOutcome> runs;
  for (const char* schedule :
       {"constant", "linear", "cosine", "step", "inverse_time", "polynomial", "inverse_sqrt"}) {
    SCOPED_TRACE(schedule);
    const Settings more = fmt::format(
        "--schedule {} --warmup-epochs 0.02 --decay-epochs 0.2 --step-epochs 0.05 --step-factor "
        "0.5 --inverse-rate 9",
        schedule);
    runs.push_back(run_sven(with(more, kNoPipeline)));
    const Settings ssgd = "--algorithm ssgd --per-worker-batch full";
    expect_same_run(runs.back(), run_sven(with(more, ssgd)));
    if (runs.size() > 1) {
      EXPECT_FALSE(runs.back().parameters == runs.front().parameters);
    }
  }
}

TEST(Sven, RequestsThatArePreparedChangeNoBit) {
  expect_same_run(run_sven(kNoPipeline), run_sven("--pipeline input"));
  expect_same_run(run_sven("--pipeline input"), run_sven("--pipeline input --input-rate 1000"));
}

TEST(Sven, NeitherJoinNorExchangeNorLayoutChangesABit) {
  for (const char* pipeline : {"full", "none"}) {
    SCOPED_TRACE(pipeline);
    const Settings base = {{"pipeline", pipeline}};
    const TableOutcome scatter = run_sven(base);
    for (const Settings& other :
         {Settings("--exchange blocking"), Settings("--exchange nonblocking"),
          Settings("--join data"), Settings("--join data --exchange blocking"),
          Settings("--sharding column:2"), Settings("--sharding table"),
          Settings("--dedup false")}) {
      SCOPED_TRACE(other.back().first + " " + other.back().second);
      expect_same_run(scatter, run_sven(with(base, other)));
    }
  }
}

TEST(Sven, ClustersAgreeToTheBit) {
  for (const char* join : {"stages", "data"}) {
    for (const char* exchange : {"scatter", "blocking"}) {
      const Settings base = fmt::format("--join {} --exchange {} --workers 3", join, exchange);
      expect_same_run(run_sven(base), run_sven(with(base, "--cluster threads")));
    }
  }
  const Settings late = "--straggler kind=uniform,min=0ms,max=2ms";
  expect_same_run(run_sven(), run_sven(with(late, "--cluster threads")));
}

// --- staleness

// 80 batches of 96 samples in four workers. The first is looked up before any update; from batch L
// + 1 on all are L + 1 updates late. L more batches are looked up than are learnt from.
TEST(Sven, StalenessIsAsConfigured) {
  for (const std::uint64_t L : {0U, 1U, 2U, 4U}) {
    const TableOutcome run = run_sven({{"lookahead", std::to_string(L)}});
    std::map<std::int64_t, std::uint64_t> expected;
    for (std::uint64_t m = 0; m < 20 + L; ++m) {
      expected[static_cast<std::int64_t>(std::min(m, L + 1))] += 4;
    }
    EXPECT_EQ(run.record.histograms.at("staleness"), expected) << "L = " << L;
  }
  const std::map<std::int64_t, std::uint64_t> none{{0, 80}};
  EXPECT_EQ(run_sven(kNoPipeline).record.histograms.at("staleness"), none);
}

// In one process, with whole tables: batch k is computed at the tables as they were before the last
// min(k, L+1) updates, and at the newest dense part.
struct SvenOracle {
  std::vector<float> parameters;
  std::vector<double> losses;  // by (iteration, rank)

  explicit SvenOracle(std::uint64_t lookahead) {
    const Configuration configuration(
        with(with(kClicks, kSven), "--algorithm sgd --workers 1 --tables replicated"));
    Training training(configuration.spec());
    training.load();
    const DatasetPtr train = training.record().train;
    const auto model =
        configuration.options.model_factory->make(DataShape::of(*train, *training.record().test));
    const std::vector<float> initial =
        initial_parameters<float>(model->layout(), configuration.options.seed);
    const std::size_t table = model->layout().blocks.front().size(), n = initial.size();
    const auto device = make_cpu_device<float>(1);
    const auto context = model->make_context(*device);
    Gradient g = make_gradient(*model, *device);
    const Sampler sampler(train, {.seed = configuration.options.seed, .workers = kWorkers});

    const auto split = initial.begin() + static_cast<std::ptrdiff_t>(table);
    std::vector<std::vector<float>> tables{{initial.begin(), split}};  // after so many updates
    std::vector<float> dense(split, initial.end()), sum(n);
    constexpr std::uint64_t kIntervals = 1920 / (kWorkers * kBatch);
    for (std::uint64_t k = 0; k < kIntervals; ++k) {
      const std::vector<float>& stale = tables[k - std::min(k, lookahead + 1)];
      std::vector<float> w = stale;
      w.insert(w.end(), dense.begin(), dense.end());
      for (std::uint64_t r = 0; r < kWorkers; ++r) {
        Batch batch;
        sampler.fill(0, {(k * kWorkers + r) * kBatch, kBatch}, batch);
        losses.push_back(model->gradient(*context, batch, w.data(), g));
        const float share = 1.0F / kWorkers;
        for (std::size_t i = 0; i < n; ++i) {
          const float part = share * g.flat.data()[i];
          sum[i] = r == 0 ? part : sum[i] + part;
        }
      }
      device->axpby(dense.size(), -kRate, sum.data() + table, 1.0F, dense.data());
      std::vector<float> next = tables.back();
      for (std::size_t i = 0; i < table; ++i) next[i] = std::fma(-kRate, sum[i], next[i]);
      tables.push_back(std::move(next));
    }
    parameters = tables[kIntervals - 1];  // the last update of rows is not made
    parameters.insert(parameters.end(), dense.begin(), dense.end());
  }

  static constexpr int kWorkers = 4;
  static constexpr std::uint64_t kBatch = 24;
  static constexpr float kRate = 0.2F;
};

TEST(Sven, IsTheOracleThatKeepsOldTables) {
  for (const std::uint64_t L : {0U, 1U, 2U, 3U, 4U}) {
    const TableOutcome run = run_sven({{"lookahead", std::to_string(L)}});
    const SvenOracle oracle(L);
    EXPECT_EQ(step_losses(run.record), oracle.losses) << "L = " << L;
    EXPECT_TRUE(run.parameters == oracle.parameters) << "L = " << L;
  }
}

// `rows` samples in the Criteo format. No value occurs twice; the first is `first`.
std::string text_without_repetitions(int rows, int first) {
  std::string text;
  for (int row = 0; row < rows; ++row) {
    text += row * 7 % 3 == 0 ? '1' : '0';
    for (int i = 0; i < 13; ++i) text += fmt::format("\t{}", (row * 31 + i * 17) % 50);
    for (int i = 0; i < 26; ++i) text += fmt::format("\t{:08x}", first + row * 26 + i);
    text += '\n';
  }
  return text;
}

// Rows that no later batch reads are read in time. Test samples' values are unknown to the
// vocabulary, and the rows of unknown values are never trained.
TEST(Sven, WithoutRepetitionsThePipelineIsNotStale) {
  const TemporaryFolder folder;
  const std::string train = folder.write("train.txt", text_without_repetitions(640, 0)),
                    test = folder.write("test.txt", text_without_repetitions(50, 1 << 20));
  const auto run = [&](const char* pipeline) {
    return run_with(with(kClicks, kSven),
                    "--train {} --test {} --format criteo --min-frequency 1 --batch-size 16 "
                    "--max-samples 640 --evaluate-every 128 --pipeline {}",
                    train, test, pipeline);
  };
  expect_same_bits(run("full"), run("none"));
}

// --- plans that are refused

TEST(Sven, NeedsShardedTables) {
  EXPECT_EQ(usage_error_of([] {
              run_sven({{"tables", "replicated"}});
            }),
            "--tables: found replicated, expected sharded: sven exchanges rows of sharded tables");
}

TEST(Sven, FarLookAheadIsAWarning) {
  const Settings base = with(kClicks, kSven);
  EXPECT_TRUE(foreseen_warnings(with(base, "--lookahead 2")).empty());
  EXPECT_EQ(foreseen_warnings(with(base, "--lookahead 3")),
            std::vector<std::string>(
                {"--lookahead 3 reads rows 4 updates late, the paper 3 updates late"}));
}

}  // namespace
}  // namespace hetsgd::test
