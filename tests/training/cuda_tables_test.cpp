// Sharded embedding tables whose rows lie on GPUs: runs against runs on cores, which differ by the
// rounding of the dense part, and against each other, to the bit.

#include "core/error.hpp"
#include "support/compare.hpp"
#include "support/gpu.hpp"

namespace hetsgd::test {
namespace {

const Settings kGpuClicks =
    "--train generate:ctr-tiny --test generate:ctr-tiny --min-frequency 5 --cache false --cluster "
    "threads --model deepfm --embedding-dim 8 --embedding-init-std 0.1 --hidden 8 --batch-size 48 "
    "--learning-rate 0.2 --max-samples 480 --evaluate-every 240 --evaluate-samples 400 --tables "
    "sharded --record-steps";

// The data are generated once for all runs.
Record run_clicks_on(const std::string& devices, const Settings& more) {
  static DataCache cache;
  const Configuration configuration(with(with(kGpuClicks, {{"devices", devices}}), more));
  Training training(configuration.spec());
  training.load(&cache);
  return run_loaded(training);
}

// One worker, two on one GPU, and one beside a core, whose shards lie where they compute.
TEST(CudaShardedTables, FollowTheCpu) {
  for (const Settings& more :
       {Settings("--algorithm sgd"), Settings("--algorithm ssgd --workers 2"),
        Settings("--algorithm ssgd --workers 2 --optimizer adam --learning-rate 0.01"),
        Settings(
            "--algorithm ssgd --workers 2 --optimizer adagrad --learning-rate 0.05 --dedup false"),
        Settings("--algorithm ssgd --workers 2 --sharding column:2"),
        Settings("--algorithm local-sgd --workers 2 --local-steps 2"),
        Settings("--algorithm sven --workers 2 --exchange blocking"),
        Settings("--algorithm sven --workers 2 --exchange scatter")}) {
    SCOPED_TRACE(more.back().first + " " + more.back().second);
    const Record cpu = run_clicks_on("cpu:1", more);
    const Record gpu = run_clicks_on("cuda:0", more);
    expect_alike(cpu, gpu);
    EXPECT_EQ(gpu.workers[0].report.device.rfind("cuda:0 (", 0), 0U);
    if (more.size() > 1) expect_alike(cpu, run_clicks_on("cuda:0,cpu:1", more));
  }
}

// Tiers move bytes and change no value; pipelines that see the same rows make the same bits.
TEST(CudaShardedTables, TiersAndExchangesChangeNoBit) {
  const Settings run = "--algorithm sven --workers 2 --optimizer adagrad --learning-rate 0.05";
  const Record device = run_clicks_on("cuda:0", run);
  const auto same = [&](const Record& other) {
    EXPECT_EQ(step_losses(device), step_losses(other));
    EXPECT_EQ(device.curve.back().test_loss(), other.curve.back().test_loss());
  };
  for (const Settings& more :
       {Settings("--table-storage host"), Settings("--table-storage hybrid --hot-fraction 0.3"),
        Settings("--table-storage hybrid --hot-fraction 0"),
        Settings("--table-storage hybrid --hot-fraction 0.5 --hot random"), Settings("--join data"),
        Settings("--exchange nonblocking")}) {
    SCOPED_TRACE(more.back().first + " " + more.back().second);
    same(run_clicks_on("cuda:0", with(run, more)));
  }
}

// Rows that come and go under a capacity, in the memory of the GPU and in the host's.
TEST(CudaShardedTables, RowsUnderACapacityFollowTheCpu) {
  const Settings run =
      "--algorithm ssgd --workers 2 --optimizer adagrad --learning-rate 0.05 --table-capacity 400";
  const Record cpu = run_clicks_on("cpu:1", run);
  for (const Settings& where :
       {Settings("--table-storage device"), Settings("--table-storage host")}) {
    SCOPED_TRACE(where.back().second);
    const Record gpu = run_clicks_on("cuda:0", with(run, where));
    expect_alike(cpu, gpu);
    for (std::size_t w = 0; w < 2; ++w) {
      EXPECT_GT(gpu.workers[w].lookups.evicted, 0U);
      EXPECT_EQ(gpu.workers[w].lookups.evicted, cpu.workers[w].lookups.evicted);
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
