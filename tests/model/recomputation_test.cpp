// Maps that are dropped and computed again: published peaks, counts, the bits of kept ones.

#include "carried_out.hpp"
#include "memory/minimum.hpp"
#include "memory/superneurons.hpp"
#include "support/plan_problem.hpp"

namespace hetsgd {
namespace {

MemoryPlan recomputed(const Planned& net, std::uint64_t capacity = kRoom,
                      TensorCache cache = TensorCache::off) {
  PlanRequest request = net.request(capacity);
  request.recompute = Recomputation::cost;
  request.tensor_cache = cache;
  return superneurons_policy().plan(request);
}

// SuperNeurons prints 886.385 MiB at step 44, without the input's map: the maps of conv1, relu1 and
// lrn1 and one gradient, each of 96 x 55 x 55 numbers.
TEST(SuperNeuronsAlexNet, PeaksAtItsLargestLayerOnceMapsAreComputedAgain) {
  const Planned alexnet(named("alexnet"), {.batch = 200, .input_gradient = true});
  const MemoryPlan plan = recomputed(alexnet);
  const std::uint64_t input = alexnet.training.tensor(0).bytes, map = 200 * 96 * 55 * 55 * 4;
  EXPECT_NEAR(static_cast<double>(plan.peak_live_bytes - input) / kMiB, 886.385, 0.2);
  EXPECT_GE(plan.peak_live_bytes, input + 4 * map);
  EXPECT_EQ(plan.peak_live_step, 44);
  // Per image, relu and dropout 1, lrn 14, pooling 9 operations for each output. The first segment
  // takes 4 and a bit maps, the largest step 3: relu1 is made for steps 42 to 45, lrn1 for 42 to
  // 44, pool1 for 42 and 43. Everything else is made once.
  constexpr double kFirst = (4 + 3 * 14) * 96. * 55 * 55 + 2 * 9 * 96. * 27 * 27;
  constexpr double kSecond = (1 + 14) * 256. * 27 * 27 + 9 * 256. * 13 * 13;
  constexpr double kRest = (2 * 384 + 256) * 13. * 13 + 9 * 256. * 6 * 6 + 4 * 4096;
  EXPECT_DOUBLE_EQ(plan.recomputed_operations, 200 * (kFirst + kSecond + kRest));
}

// Five maps of S bytes. The backward step of the pooling needs most, X, Y and two gradients: 4 S,
// which is what the checkpoint c and the segment r, p, q take, too. So they are made once.
TEST(Recomputation, DropsWhatLiesBetweenCheckpoints) {
  const Planned net(parse_graph("chain", R"({"name": "chain", "input": [4,8,8], "nodes": [
    {"name": "c", "type": "conv", "channels": 4, "kernel": 3, "padding": 1},
    {"name": "r", "type": "relu"},
    {"name": "p", "type": "pool", "kernel": 3, "padding": 1},
    {"name": "q", "type": "relu"},
    {"name": "d", "type": "conv", "channels": 4, "kernel": 3, "padding": 1},
    {"name": "f", "type": "fc", "units": 2}, {"name": "s", "type": "softmax"}]})"));
  const TrainingStep training = with_recomputation(net.training);
  const auto map = [&](int node) {
    return training.tensor(training.feature[static_cast<std::size_t>(node)]);
  };
  for (const int node : {0, 1, 5, 6, 7}) EXPECT_EQ(map(node).remade, Remade::no) << node;
  for (const int node : {2, 3, 4}) EXPECT_EQ(map(node).remade, Remade::once) << node;
  // Backward, d is step 10: there the three nodes run again, from c's map, which q does not read.
  EXPECT_EQ(training.step(10).again, (std::vector<int>{2, 3, 4}));
  for (const int k : {8, 9, 11, 12, 13, 14}) EXPECT_TRUE(training.step(k).again.empty()) << k;
  EXPECT_EQ(map(1).backward_uses, (std::vector<int>{10, 13}));
  const MemoryPlan plan = recomputed(net);
  PlanRequest request = net.request();
  EXPECT_EQ(plan_problem(request, plan), "");
  EXPECT_EQ(plan.recomputed_operations, (1 + 9 + 1) * 4. * 8 * 8);
  EXPECT_EQ(net.plan(superneurons_policy()).recomputed_operations, 0);
  EXPECT_NEAR(plan.compute_s - net.plan(superneurons_policy()).compute_s,
              net.times.steps[2].other_s + net.times.steps[3].other_s + net.times.steps[4].other_s,
              1e-12);
}

class Recomputed : public ::testing::TestWithParam<ExecutedCase> {};
INSTANTIATE_TEST_SUITE_P(Memory, Recomputed, ::testing::ValuesIn(executed_cases()),
                         [](const auto& each) { return each.param.name; });

TEST_P(Recomputed, HasTheBitsOfMapsThatWereKept) {
  for (const BackwardNeeds needs : {BackwardNeeds::cudnn, BackwardNeeds::minimal}) {
    const Planned net(GetParam().graph(), {.batch = GetParam().batch, .needs = needs});
    const auto device = make_cpu_device<float>(1);
    const auto w = some_parameters<float>(*net.graph);
    const auto expected =
        carry_out_on(*device, net.training, plan_without_reuse(net.training), false, w);
    for (const TensorCache cache : {TensorCache::off, TensorCache::lru}) {
      PlanRequest request = net.request();
      request.recompute = Recomputation::cost;
      request.tensor_cache = cache;
      const auto minimum = minimum_capacity(superneurons_policy(), request);
      ASSERT_TRUE(minimum.has_value());
      const MemoryPlan plan = recomputed(net, *minimum, cache);
      EXPECT_EQ(plan_problem(request, plan), "");
      EXPECT_EQ(carry_out_on(*device, net.training, plan, true, w), expected);
      EXPECT_EQ(plan.recomputed_operations > 0, GetParam().name != "lstm");
    }
  }
}

// A missing recomputation is found, and caught by the poisoned execution.
TEST_P(Recomputed, IsMissedWhereItIsLeftOut) {
  const Planned net(GetParam().graph(), {.batch = GetParam().batch});
  const auto device = make_cpu_device<float>(1);
  const auto w = some_parameters<float>(*net.graph);
  const MemoryPlan plan = recomputed(net);
  const auto is_one = [](const Instruction& one) { return one.kind == InstructionKind::recompute; };
  const auto count = std::count_if(plan.instructions.begin(), plan.instructions.end(), is_one);
  for (std::ptrdiff_t left_out = 0; left_out < count; left_out += 1 + count / 8) {
    MemoryPlan wrong = plan;
    auto at = wrong.instructions.begin();
    for (std::ptrdiff_t i = 0; !is_one(*at) || i++ < left_out;) ++at;
    wrong.instructions.erase(at);
    EXPECT_NE(plan_problem(net.request(), wrong), "") << left_out;
    EXPECT_THROW(carry_out_on(*device, net.training, wrong, true, w), CheckFailure) << left_out;
  }
}

}  // namespace
}  // namespace hetsgd
