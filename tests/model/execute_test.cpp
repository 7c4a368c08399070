// Plans carried out: the gradients of a plan have the bits of unlimited memory; wrong plans are
// caught; gradients are right.
#include "model/network/execute.hpp"

#include "carried_out.hpp"
#include "memory/minimum.hpp"
#include "memory/plan.hpp"
#include "support/plan_problem.hpp"

namespace hetsgd {
namespace {

template <class Real>
Computed<Real> carry_out(const TrainingStep& training, const MemoryPlan& plan, int cores,
                         bool poisoned, const std::vector<Real>& w) {
  return carry_out_on(*make_cpu_device<Real>(cores), training, plan, poisoned, w);
}

class Execution : public ::testing::TestWithParam<ExecutedCase> {};
INSTANTIATE_TEST_SUITE_P(Memory, Execution, ::testing::ValuesIn(executed_cases()),
                         [](const auto& each) { return each.param.name; });

// At the minimum on one core, above it on two.
TEST_P(Execution, HasTheSameBitsUnderEveryPlan) {
  for (const BackwardNeeds needs : {BackwardNeeds::cudnn, BackwardNeeds::minimal}) {
    const Planned net(GetParam().graph(), {.batch = GetParam().batch, .needs = needs});
    const auto w = some_parameters<float>(*net.graph);
    const auto expected = carry_out(net.training, plan_without_reuse(net.training), 1, false, w);
    ASSERT_TRUE(std::isfinite(expected.loss));
    for (const float each : expected.gradient) ASSERT_TRUE(std::isfinite(each));
    for (const Policy* policy : all_policies()) {
      const auto minimum = minimum_capacity(*policy, net.request());
      ASSERT_TRUE(minimum.has_value()) << policy->name();
      for (const double room : {1.0, 1.3}) {
        const auto capacity = static_cast<std::uint64_t>(room * static_cast<double>(*minimum));
        const MemoryPlan plan = net.plan(*policy, capacity);
        if (!plan.fits()) continue;  // what fits into less need not fit into more
        const int cores = room > 1 ? 2 : 1;
        EXPECT_EQ(carry_out(net.training, plan, cores, cores == 1, w), expected)
            << policy->name() << ", " << room << " times the minimum, cores " << cores;
      }
    }
  }
}

// The same scores in less memory, none of which is used before it is written, and the statistics of
// bn at the end.
TEST_P(Execution, AForwardPassAloneHasTheSameScores) {
  const Planned net(GetParam().graph(),
                    {.batch = GetParam().batch, .needs = BackwardNeeds::minimal});
  const auto w = some_parameters<float>(*net.graph);
  const MemoryPlan all = plan_without_reuse(net.training), alone = forward_plan(net.training);
  EXPECT_LT(alone.peak_bytes, net.plan(liveness_policy()).peak_bytes);
  const auto device = make_cpu_device<float>(1);
  std::vector<std::vector<float>> results;
  for (const MemoryPlan* plan : {&all, &alone}) {
    TestEnds<float> ends(*device, *net.graph, GetParam().batch);
    PlanExecutor<float> executor(*device, net.training, *plan, true);
    std::vector<float> arena(executor.arena_size());
    std::vector<float>& result = results.emplace_back();
    executor.forward(ends.pass(w.data(), nullptr),
                     {[&](float* X) { ends.write_input(X); },
                      [&](const float* Z, float* Y) { ends.read_scores(Z, Y); }},
                     arena.data());
    result.push_back(static_cast<float>(ends.loss));
    for (int node = 0; node < net.graph->size(); ++node) {
      if (net.graph->node(node).type != NodeType::bn) continue;
      const float* const kept = executor.mask(node);
      result.insert(result.end(), kept, kept + 2 * net.graph->node(node).shape.channels);
    }
  }
  EXPECT_EQ(results[0], results[1]);
}

// From one of `count` cases to the next one that is tried: a few dozen of large networks.
std::size_t stride_over(std::size_t count) { return count / 32 + 1; }

// A release that comes a step too early: both the validator and the poisoned execution find it.
TEST_P(Execution, CatchesEarlyReleases) {
  const Planned net(GetParam().graph(), {.batch = GetParam().batch});
  const auto w = some_parameters<float>(*net.graph);
  const auto expected = carry_out(net.training, plan_without_reuse(net.training), 1, false, w);
  const auto minimum = minimum_capacity(dymem_policy(), net.request());
  ASSERT_TRUE(minimum.has_value());
  const PlanRequest request = net.request(*minimum);
  const MemoryPlan plan = dymem_policy().plan(request);
  const auto is_caught = [&](const MemoryPlan& wrong) {
    try {
      return carry_out(net.training, wrong, 1, true, w) != expected;
    } catch (const CheckFailure&) {
      return true;
    }
  };
  ASSERT_FALSE(is_caught(plan));
  int early = 0;
  std::vector<std::size_t> releases;
  for (std::size_t i = 0; i < plan.instructions.size(); ++i) {
    if (plan.instructions[i].kind == InstructionKind::release) releases.push_back(i);
  }
  for (std::size_t at = 0; at < releases.size(); at += stride_over(releases.size())) {
    const std::size_t i = releases[at];
    std::size_t before = i;
    while (before > 0 && plan.instructions[before].kind != InstructionKind::compute) --before;
    MemoryPlan wrong = plan;
    std::rotate(wrong.instructions.begin() + static_cast<std::ptrdiff_t>(before),
                wrong.instructions.begin() + static_cast<std::ptrdiff_t>(i),
                wrong.instructions.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    if (plan_problem(request, wrong).empty()) continue;
    ++early;
    EXPECT_TRUE(is_caught(wrong)) << "release " << i << ": " << plan_problem(request, wrong);
  }
  EXPECT_GT(early, 2);
}

// A tensor that is put where another one lies is caught at once.
TEST_P(Execution, CatchesOffsetsThatMeet) {
  const Planned net(GetParam().graph(), {.batch = GetParam().batch});
  const auto w = some_parameters<float>(*net.graph);
  const MemoryPlan plan = net.plan(liveness_policy());
  int found = 0;
  for (std::size_t i = 1; i < plan.instructions.size(); ++i) {
    if (plan.instructions[i].kind != InstructionKind::allocate) continue;
    MemoryPlan wrong = plan;
    std::size_t before = i - 1;
    while (before > 0 && plan.instructions[before].kind != InstructionKind::allocate) --before;
    std::swap(wrong.instructions[i].offset, wrong.instructions[before].offset);
    if (plan_problem(net.request(), wrong).find("overlaps") == std::string::npos) continue;
    ++found;
    EXPECT_THROW(carry_out(net.training, wrong, 1, true, w), CheckFailure) << "allocation " << i;
  }
  EXPECT_GT(found, 3);
}

// Central differences in double: dropout has the same mask at every point, and every kink is far
// away for nearly all parameters, so a few are left out.
TEST_P(Execution, GradientAgreesWithCentralDifferences) {
  const Planned net(GetParam().graph(), {.batch = GetParam().batch});
  const MemoryPlan plan = net.plan(liveness_policy());
  const auto w = some_parameters<double>(*net.graph);
  const auto exact = carry_out(net.training, plan, 1, false, w);
  double largest = 0;
  for (const double each : exact.gradient) largest = std::max(largest, std::abs(each));
  RandomStream random(7, Purpose::test);
  int wrong = 0;
  constexpr int kTried = 40;
  for (int t = 0; t < kTried; ++t) {
    const std::size_t i = random.below(w.size());
    constexpr double kStep = 1e-6;
    auto up = w, down = w;
    up[i] += kStep;
    down[i] -= kStep;
    const double numeric = (carry_out(net.training, plan, 1, false, up).loss -
                            carry_out(net.training, plan, 1, false, down).loss) /
                           (2 * kStep);
    if (std::abs(numeric - exact.gradient[i]) > 1e-5 * (largest + std::abs(numeric))) ++wrong;
  }
  EXPECT_LE(wrong, kTried / 20);
}

}  // namespace
}  // namespace hetsgd
