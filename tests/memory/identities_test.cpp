// Relations between plans: limits of times, sizes that do not depend on times, scaling.

#include "graph/graph_file.hpp"
#include "memory/minimum.hpp"
#include "support/memory_fixtures.hpp"
#include "support/plan_problem.hpp"

namespace hetsgd {
namespace {

TEST(LowerBound, CountsGradientsThatWaitForShortcuts) {
  constexpr double kMap = 306.25;  // MiB of 256x56x56 numbers of 100 images
  const auto bound = [](const std::string& name, std::int64_t batch) {
    const Planned net(named(name), {.batch = batch});
    return static_cast<double>(net.training.lower_bound()) / kMiB;
  };
  // Three maps that the backward step of a bn uses, and the waiting gradient; statistics are small.
  for (const char* name : {"resnet-50", "resnet-101", "resnet-152"}) {
    EXPECT_NEAR(bound(name, 100), 4 * kMap, 0.05) << name;
  }
  EXPECT_NEAR(bound("resnet-32?bn=0&size=224", 100), 4 * kMap, 0.05);
  // No shortcuts: X, Y and gradient of a relu, whose maps have 64x147x147 and 64x224x224 numbers.
  EXPECT_NEAR(bound("inception-v4?bn=0", 128), 3.0 * 128 * 64 * 147 * 147 * 4 / kMiB, 0.05);
  EXPECT_NEAR(bound("vgg-16", 64), 3.0 * 64 * 64 * 224 * 224 * 4 / kMiB, 0.05);
}

TEST(Sizes, OfTheOthersDoNotDependOnRates) {
  const Planned fast(named("resnet-20"), {.batch = 16}, test_rates(1e12));
  const Planned slow(named("resnet-20"), {.batch = 16}, test_rates(1e6));
  for (const Policy* policy : {&none_policy(), &liveness_policy(), &vdnn_all_policy()}) {
    EXPECT_EQ(fast.plan(*policy).peak_bytes, slow.plan(*policy).peak_bytes) << policy->name();
  }
}

std::string three_conv() {
  return R"({"name": "three", "input": [16,16,16], "nodes": [
    {"type": "conv", "channels": 16, "kernel": 3, "padding": 1}, {"type": "relu"},
    {"type": "conv", "channels": 32, "kernel": 3, "padding": 1}, {"type": "relu"},
    {"type": "conv", "channels": 16, "kernel": 1},
    {"type": "fc", "units": 128}, {"type": "softmax"}]})";
}

// All maps are multiples of 512 bytes, and there are no masks.
TEST(Sizes, DoubleWithTheBatch) {
  const Planned one(parse_graph("three", three_conv()), {.batch = 1});
  const Planned two(parse_graph("three", three_conv()), {.batch = 2});
  for (const Policy* policy : {&none_policy(), &liveness_policy(), &vdnn_all_policy()}) {
    EXPECT_EQ(2 * one.plan(*policy).peak_bytes, two.plan(*policy).peak_bytes) << policy->name();
  }
  EXPECT_EQ(2 * one.training.feature_bytes(), two.training.feature_bytes());
}

// A faster link never makes an iteration longer if there is room for everything.
TEST(Times, DoNotGrowWithTheLinksRate) {
  double before = 1e30;
  for (const double rate : {1e7, 1e8, 1e9, 1e10, 1e12}) {
    const Planned net(named("resnet-20"), {.batch = 16}, test_rates(rate));
    const double time = net.plan(dymem_policy()).iteration_s;
    EXPECT_LE(time, before) << rate;
    before = time;
  }
}

TEST(Times, WithoutComputingAreThoseOfTheTransfers) {
  const Planned net(named("resnet-20"), {.batch = 16}, test_rates(1e9));
  PlanRequest request = net.request();
  StepTimes times = net.times;
  for (StepTime& step : times.steps) step = {};
  request.times = &times;
  for (const Policy* policy : {&dymem_policy(), &vdnn_all_policy()}) {
    const MemoryPlan plan = policy->plan(request);
    EXPECT_NEAR(plan.iteration_s, plan.transfer_s, 1e-9) << policy->name();
  }
}

// Each step of a long chain takes as long as the transfer of its map: the transfers hide behind the
// computing, but for the first and the last, and half of the sequential time is left.
TEST(Times, OfALongChainAreHalved) {
  constexpr int kLength = 200;
  std::string nodes;
  for (int i = 0; i < kLength; ++i) {
    nodes += R"({"type": "conv", "channels": 4, "kernel": 3, "padding": 1},)";
  }
  const Planned net(
      parse_graph("chain", R"({"name": "chain", "input": [4,16,16], "nodes": [)" + nodes +
                               R"({"type": "fc", "units": 1}, {"type": "softmax"}]})"));
  PlanRequest request = net.request();
  StepTimes times = net.times;
  const double transfer = times.transfer_s(4 * 16 * 16 * 4);
  for (int k = 1; k <= net.training.total_steps(); ++k) {
    const bool conv = net.training.node_of(net.training.step(k)).type == NodeType::conv;
    times.steps[static_cast<std::size_t>(k)] = {0, conv ? transfer : 0};
  }
  request.times = &times;
  const double ratio =
      dymem_policy().plan(request).iteration_s / sequential_policy().plan(request).iteration_s;
  EXPECT_NEAR(ratio, 0.5, 2.0 / kLength);
}

// Groups affect addresses only.
TEST(Groups, ChangeNeitherTimesNorWhatIsLive) {
  for (const char* name : {"resnet-20", "lenet-5", "inception-v4?bn=0"}) {
    const Planned net(named(name), {.batch = 4});
    PlanRequest request = net.request();
    const MemoryPlan arenas = dymem_policy().plan(request);
    request.best_fit = true;
    const MemoryPlan best_fit = dymem_policy().plan(request);
    EXPECT_EQ(arenas.iteration_s, best_fit.iteration_s) << name;
    EXPECT_EQ(arenas.fetched_bytes, best_fit.fetched_bytes) << name;
    ASSERT_EQ(arenas.steps.size(), best_fit.steps.size());
    for (std::size_t k = 1; k < arenas.steps.size(); ++k) {
      ASSERT_EQ(arenas.steps[k].live_bytes, best_fit.steps[k].live_bytes) << name << ' ' << k;
      ASSERT_EQ(arenas.steps[k].start_s, best_fit.steps[k].start_s) << name << ' ' << k;
    }
  }
}

TEST(TensorCache, MovesNothingWhileThereIsRoomAndFitsIntoLess) {
  const Planned net(named("resnet-20"), {.batch = 16});
  const std::uint64_t room = net.plan(liveness_policy()).peak_bytes;
  PlanRequest request = net.request(room);
  request.tensor_cache = TensorCache::lru;
  const MemoryPlan all = superneurons_policy().plan(request);
  EXPECT_TRUE(all.fits());
  EXPECT_EQ(all.offloaded_bytes + all.fetched_bytes, 0u);
  EXPECT_EQ(net.plan(vdnn_policy(), 4 * room).offloaded_bytes, 0u);

  std::uint64_t moved = 0;
  for (const double share : {0.9, 0.7, 0.5}) {
    request.capacity = static_cast<std::uint64_t>(share * static_cast<double>(room));
    const MemoryPlan plan = superneurons_policy().plan(request);
    ASSERT_TRUE(plan.fits()) << share;
    EXPECT_EQ(plan_problem(request, plan), "") << share;
    EXPECT_GT(plan.offloaded_bytes, moved) << share;
    EXPECT_EQ(plan.fetched_bytes, plan.offloaded_bytes + plan.cancelled_bytes) << share;
    moved = plan.offloaded_bytes;
  }
}

// The first iteration determines the size; without jitter, the next ones are alike and fit.
TEST(Sizing, IsWhatTheFirstIterationUsedAndBeta) {
  const Planned net(named("resnet-20"), {.batch = 16});
  constexpr std::uint64_t kBeta = 1 << 20, kInitial = std::uint64_t{1} << 34;
  PlanRequest request = net.request();
  const auto capacity = sized_capacity(dymem_policy(), request, kInitial, kBeta);
  ASSERT_TRUE(capacity.has_value());
  request.on_shortage = OnShortage::restart;
  request.capacity = *capacity;
  const auto series = run_iterations(dymem_policy(), request, 3, kBeta);
  ASSERT_TRUE(series.has_value());
  EXPECT_EQ(series->failed, 0);
  EXPECT_NEAR(series->mean_iteration_s, dymem_policy().plan(request).iteration_s, 1e-12);
  EXPECT_EQ(sized_capacity(dymem_policy(), request, 4096, kBeta), std::nullopt);
}

// The forward pass of a chain, whose maps leave far more slowly than they are made, holds nearly
// all of them: in less memory one iteration waits, the other starts again.
TEST(Sizing, ARestartDoesNotWaitForOffloads) {
  const Planned net(named("vgg-16-cifar"), {.batch = 16}, test_rates(1e8));
  const MemoryPlan roomy = net.plan(dymem_policy());
  PlanRequest request = net.request(roomy.peak_bytes * 9 / 10);
  const MemoryPlan waits = dymem_policy().plan(request);
  ASSERT_TRUE(waits.fits());
  EXPECT_LT(waits.peak_bytes, roomy.peak_bytes);
  request.on_shortage = OnShortage::restart;
  const MemoryPlan again = dymem_policy().plan(request);
  ASSERT_FALSE(again.fits());
  EXPECT_LE(again.shortage->step, net.training.forward_steps());
}

// A plan that fits only by cancelling fails under `restart`, until beta has been added often
// enough.
TEST(Sizing, ARestartAddsBeta) {
  const Planned net(named("resnet-32?bn=0&size=32"), {.batch = 16}, test_rates(1e10, 1e10));
  PlanRequest request = net.request();
  request.prefetch_convs = 6;
  std::optional<std::uint64_t> short_capacity;
  for (double factor = 1; factor < 4 && !short_capacity; factor *= 1.01) {
    request.capacity =
        static_cast<std::uint64_t>(factor * static_cast<double>(net.training.lower_bound()));
    request.on_shortage = OnShortage::cancel;
    const MemoryPlan cancelled = dymem_policy().plan(request);
    if (!cancelled.fits() || cancelled.cancelled_bytes == 0) continue;
    request.on_shortage = OnShortage::restart;
    if (!dymem_policy().plan(request).fits()) short_capacity = request.capacity;
  }
  ASSERT_TRUE(short_capacity.has_value());
  request.capacity = *short_capacity;
  const auto series = run_iterations(dymem_policy(), request, 2, 1 << 16);
  ASSERT_TRUE(series.has_value());
  EXPECT_EQ(series->failed, 2);
  EXPECT_EQ(series->restarts % 2, 0);
  request.capacity += static_cast<std::uint64_t>(series->restarts / 2) << 16;
  EXPECT_TRUE(dymem_policy().plan(request).fits());
}

}  // namespace
}  // namespace hetsgd
