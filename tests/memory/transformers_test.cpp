// Plans of transformers: sums that an independent script has worked out from the rules.

#include "support/memory_fixtures.hpp"
#include "support/plan_problem.hpp"

namespace hetsgd {
namespace {

// In MiB, without the rounding to 512 bytes. Stored scores would add `scores`.
TEST(TransformerPlans, HaveTheSumsOfTheirRules) {
  struct Expected {
    const char* name;
    std::int64_t batch;
    int nodes;
    double none, liveness, bound, scores;
  };
  for (const Expected& each : std::initializer_list<Expected>{
           {"gpt-tiny", 12, 44, 46.228, 26.347, 3.375, 3},
           {"nanogpt-char", 12, 64, 824.238, 459.715, 40.5, 108},
           {"bert-large?steps=128", 32, 247, 10871.578, 6247.578, 144, 768},
           {"bert-large", 8, 247, 10871.578, 6247.578, 144, 3072}}) {
    const Graph graph = named(each.name);
    EXPECT_EQ(graph.size(), each.nodes) << each.name;
    const TrainingStep step = training_step(graph, {.batch = each.batch});
    const auto mib = [](std::uint64_t bytes) { return static_cast<double>(bytes) / kMiB; };
    EXPECT_NEAR(mib(step.tensor_bytes()), each.none, 0.0006) << each.name;
    EXPECT_NEAR(mib(step.lower_bound([](const StepTensor&) { return false; })), each.liveness,
                0.0006)
        << each.name;
    // At its largest step, the backward one of a block's last linear, the gradient of the block's
    // input waits, and the masks of all norms but the last and of all attentions.
    std::uint64_t need = 0, waiting = step.tensor(step.feature[1]).bytes;
    for (int k = 1; k <= step.total_steps(); ++k) need = std::max(need, step.need(k));
    for (int node = 1; node + 2 < graph.size(); ++node) {
      const int mask = step.mask[at(node)];
      if (mask >= 0) waiting += step.tensor(mask).bytes;
    }
    EXPECT_EQ(mib(need), each.bound) << each.name;
    if (is_causal(graph)) {
      EXPECT_EQ(step.lower_bound(), need + waiting) << each.name;
    }
    const std::string stored = std::string(each.name) +
                               (std::string(each.name).find('?') == std::string::npos ? "?" : "&") +
                               "scores=1";
    const Graph with_scores = named(stored);
    EXPECT_EQ(
        mib(training_step(with_scores, {.batch = each.batch}).tensor_bytes() - step.tensor_bytes()),
        each.scores)
        << each.name;
  }
}

// Nothing grows with the square of the steps, unless scores are stored.
TEST(TransformerPlans, GrowWithTheirSteps) {
  const auto bytes = [](const std::string& name) {
    const Graph graph = named(name);
    return training_step(graph, {.batch = 3, .needs = BackwardNeeds::minimal}).tensor_bytes();
  };
  for (const std::string name : {"gpt-tiny?block=1024&steps=", "bert-micro?block=1024&steps="}) {
    EXPECT_EQ(bytes(name + "1024"), 2 * bytes(name + "512")) << name;
    EXPECT_GT(bytes(name + "1024&scores=1"), 2 * bytes(name + "512&scores=1")) << name;
  }
}

// Every policy plans them, also at its minimum; the input of a linear moves, unlike that of an fc.
TEST(TransformerPlans, EveryPolicyPlansThem) {
  const Planned net(named("gpt-micro?dropout=0.1"), {.batch = 4, .needs = BackwardNeeds::minimal});
  for (const Policy* policy : all_policies()) {
    for (const auto recompute : {Recomputation::none, Recomputation::cost}) {
      PlanRequest request = net.request();
      request.recompute = recompute;
      const MemoryPlan plan = policy->plan(request);
      ASSERT_TRUE(plan.fits()) << policy->name();
      if (policy->name() != "none" && policy->name() != "shared" &&
          recompute == Recomputation::none) {
        EXPECT_EQ(plan_problem(request, plan), "") << policy->name();
      }
    }
  }
  EXPECT_GT(net.plan(vdnn_conv_policy()).offloaded_bytes, 0u);
  EXPECT_GT(net.plan(superneurons_policy()).offloaded_bytes, 0u);
}

// Checkpoints keep their maps; norm, gelu and dropout are made again.
TEST(TransformerPlans, MakeCheapNodesAgain) {
  const Planned net(named("gpt-micro?dropout=0.1"), {.batch = 4, .needs = BackwardNeeds::minimal});
  PlanRequest request = net.request();
  request.recompute = Recomputation::cost;
  int again = 0;
  for (const Instruction& one : superneurons_policy().plan(request).instructions) {
    if (one.kind != InstructionKind::recompute) continue;
    const NodeType type = net.graph->node(net.training.tensor(one.tensor).node).type;
    EXPECT_TRUE(type == NodeType::norm || type == NodeType::gelu || type == NodeType::dropout);
    ++again;
  }
  // The maps of norm and gelu, which linears read; the last norm's is kept for the softmax.
  EXPECT_GE(again, 2 * 3);
}

}  // namespace
}  // namespace hetsgd
