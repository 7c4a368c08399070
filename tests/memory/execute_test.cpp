// Plans carried out: the gradients of a plan are, to the bit, those of memory without end; wrong
// plans are caught; gradients are right.
#include "memory/execute.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/random.hpp"
#include "fixtures.hpp"
#include "graph/graph_file.hpp"
#include "linalg/device.hpp"
#include "memory/minimum.hpp"
#include "memory/validate.hpp"

namespace hetsgd {
namespace {

// Softmax and its loss, the mean over the batch, against the class sample % classes.
template <class Real>
class TestEnds final : public GraphEnds<Real> {
 public:
  TestEnds(const Graph& graph, std::int64_t batch)
      : batch_(static_cast<std::size_t>(batch)),
        inputs_(static_cast<std::size_t>(graph.node(0).shape.numbers())),
        classes_(static_cast<std::size_t>(graph.node(graph.size() - 1).shape.numbers())) {}

  void write_input(Real* X) override {
    RandomStream random(5, Purpose::test);
    for (std::size_t i = 0; i < batch_ * inputs_; ++i) {
      X[i] = static_cast<Real>(random.uniform(-1, 1));
    }
  }
  void read_scores(const Real* Z, Real* Y) override {
    loss = 0;
    for (std::size_t i = 0; i < batch_; ++i) {
      const Real* const z = Z + i * classes_;
      const double largest = static_cast<double>(*std::max_element(z, z + classes_));
      double sum = 0;
      for (std::size_t c = 0; c < classes_; ++c)
        sum += std::exp(static_cast<double>(z[c]) - largest);
      const std::size_t truth = i % classes_;
      const auto samples = static_cast<double>(batch_);
      loss += (largest + std::log(sum) - static_cast<double>(z[truth])) / samples;
      for (std::size_t c = 0; c < classes_; ++c) {
        const double share = std::exp(static_cast<double>(z[c]) - largest) / sum;
        Y[i * classes_ + c] = static_cast<Real>((share - (c == truth ? 1 : 0)) / samples);
      }
    }
  }
  double loss = 0;

 private:
  std::size_t batch_, inputs_, classes_;
};

template <class Real>
std::vector<Real> some_parameters(const Graph& graph) {
  std::vector<Real> w(static_cast<std::size_t>(graph.parameters()));
  RandomStream random(6, Purpose::test);
  const std::vector<std::size_t> offsets = parameter_offsets(graph);
  for (int node = 0; node < graph.size(); ++node) {
    const auto at = static_cast<std::size_t>(node);
    const bool scales = graph.node(node).type == NodeType::bn;
    const bool filters =
        graph.node(node).type == NodeType::conv || graph.node(node).type == NodeType::fc;
    const double fan = filters ? static_cast<double>(filter_size(graph, node)) : 3;
    for (std::size_t i = offsets[at]; i < offsets[at + 1]; ++i) {
      w[i] = static_cast<Real>(scales ? random.uniform(0.5, 1.5)
                                      : random.uniform(-1, 1) * std::sqrt(3 / fan));
    }
  }
  return w;
}

template <class Real>
struct Computed {
  double loss = 0;
  std::vector<Real> gradient;
  bool operator==(const Computed&) const = default;
};

template <class Real>
Computed<Real> carry_out(const TrainingStep& training, const MemoryPlan& plan, int cores,
                         bool poisoned, const std::vector<Real>& w) {
  const auto device = make_cpu_device<Real>(cores);
  TestEnds<Real> ends(*training.graph, training.options.batch);
  Computed<Real> result;
  result.gradient.assign(w.size(), std::numeric_limits<Real>::quiet_NaN());
  PlanExecutor<Real> executor(*device, training, plan, poisoned);
  BasicBuffer<Real> arena(*device, executor.arena_size());
  const GraphPass<Real> pass{
      .parameters = w.data(), .to = result.gradient.data(), .seed = 3, .draw = 4};
  executor.forward(pass, ends, arena.data());
  executor.backward(pass, arena.data());
  result.loss = ends.loss;
  return result;
}

// Two branches of convolutions and a pooling one, joined; then what the other networks lack.
Graph inception_block() {
  return parse_graph("inception", R"({"name": "inception", "input": [3,9,9], "nodes": [
    {"name": "a", "type": "conv", "channels": 6, "kernel": 3, "padding": 1, "bias": true},
    {"name": "b", "type": "bn"}, {"name": "r", "type": "relu"},
    {"name": "n", "type": "lrn"},
    {"name": "left", "type": "conv", "from": ["n"], "channels": 4,
     "kernel": [1,3], "padding": [0,1]},
    {"name": "left_r", "type": "relu"},
    {"name": "right", "type": "conv", "from": ["n"], "channels": 5, "kernel": 1},
    {"name": "right2", "type": "conv", "channels": 6, "kernel": 3, "padding": 1, "groups": 1},
    {"name": "pooled", "type": "pool", "kind": "average", "from": ["n"], "kernel": 3,
     "stride": 1, "padding": 1},
    {"name": "joined", "type": "concat", "from": ["left_r", "right2", "pooled"]},
    {"name": "thin", "type": "subsample", "from": ["joined"], "channels": 16, "stride": 2},
    {"name": "strided", "type": "conv", "from": ["joined"], "channels": 16, "kernel": 3,
     "padding": 1, "stride": 2},
    {"name": "sum", "type": "add", "from": ["strided", "thin"]},
    {"name": "p", "type": "pool", "kernel": 2, "stride": 2},
    {"name": "d", "type": "dropout", "p": 0.25},
    {"name": "f", "type": "fc", "units": 5}, {"name": "s", "type": "softmax"}]})");
}

// The output of every step of one lstm is the input of another.
Graph two_lstms() {
  return parse_graph("lstms", R"({"name": "lstms", "input": [7,5,1], "nodes": [
    {"name": "a", "type": "lstm", "units": 6, "output": "all"},
    {"name": "b", "type": "lstm", "units": 4},
    {"name": "f", "type": "fc", "units": 3}, {"name": "s", "type": "softmax"}]})");
}

struct ExecutedCase {
  std::string name;
  std::function<Graph()> graph;
  std::int64_t batch;
};

std::vector<ExecutedCase> executed_cases() {
  return {{"lenet5", [] { return named("lenet-5"); }, 5},
          {"resnet32", [] { return named("resnet-32?size=16"); }, 3},
          {"inception", inception_block, 4},
          {"lstm", two_lstms, 3}};
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

// From one of `count` cases to the next one that is tried: a few dozen of large networks.
std::size_t stride_over(std::size_t count) { return count / 32 + 1; }

// A release that comes a step too early: what the validator finds, the poisoned execution finds.
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
  constexpr int kTried = 24;
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
  EXPECT_LE(wrong, 1);
}

}  // namespace
}  // namespace hetsgd
