// Published sums, a net worked out by hand, and closed forms.

#include "graph/graph_file.hpp"
#include "memory/dymem.hpp"
#include "memory/training_step.hpp"
#include "support/memory_fixtures.hpp"
#include "support/plan_problem.hpp"

namespace hetsgd {
namespace {

// SuperNeurons (PPoPP 2018) prints these for AlexNet with batch 200, without the input's map.
TEST(SuperNeuronsAlexNet, SumsAreExact) {
  const Planned alexnet(named("alexnet"), {.batch = 200, .input_gradient = true});
  const double input = static_cast<double>(alexnet.training.tensor(0).bytes);
  const auto mib = [&](std::uint64_t bytes) { return (static_cast<double>(bytes) - input) / kMiB; };
  std::uint64_t masks = 0;  // of the two dropout, which the published sum does not count
  for (const StepTensor& tensor : alexnet.training.tensors) {
    if (tensor.kind == TensorKind::mask) masks += tensor.bytes;
  }
  EXPECT_EQ(masks, 2u * 200 * 4096);
  EXPECT_NEAR(mib(alexnet.plan(none_policy()).peak_bytes - masks), 2189.437, 0.0005);
  const MemoryPlan liveness = alexnet.plan(liveness_policy());
  EXPECT_NEAR(mib(liveness.peak_live_bytes), 1489.355, 0.0005);
  EXPECT_EQ(liveness.peak_live_step, 32);
  const MemoryPlan moved = alexnet.plan(superneurons_policy());
  EXPECT_NEAR(mib(moved.peak_live_bytes), 1132.06, 0.2);
  EXPECT_EQ(moved.peak_live_step, 39);
  EXPECT_NEAR(mib(moved.steps[44].live_bytes), 886.23, 0.2);
}

// CROSSBOW, section 4.5: the outputs of ResNet-50 take 7.5 GB for 32 images, and a plan saves up to
// half.
TEST(ResNet50, TakesWhatPaper002Says) {
  const Planned strided(named("resnet-50?stride=1x1"), {.batch = 32});
  EXPECT_NEAR(static_cast<double>(strided.plan(none_policy()).peak_bytes) / kMiB, 7510, 1);
  const Planned net(named("resnet-50"), {.batch = 32});
  const double none = static_cast<double>(net.plan(none_policy()).peak_bytes);
  EXPECT_NEAR(none / kMiB, 7832, 1);
  EXPECT_NEAR(static_cast<double>(net.plan(liveness_policy()).peak_live_bytes) / none, 0.48, 0.01);
}

std::string by_hand() {
  return R"({"name": "by hand", "input": [1,16,16], "nodes": [
    {"type": "conv", "channels": 4, "kernel": 3, "padding": 1}, {"type": "relu"},
    {"type": "conv", "channels": 4, "kernel": 3, "padding": 1}, {"type": "relu"},
    {"type": "fc", "units": 2}, {"type": "softmax"}]})";
}

// Maps of 1024, 4 x 4096, 8 and 8 bytes; gradients of the two relu, 4096 each, in place of those
// of the conv; that of the fc lies in the softmax's output.
TEST(ByHand, SumsAndSteps) {
  const Planned net(parse_graph("by hand", by_hand()));
  const MemoryPlan none = net.plan(none_policy());
  EXPECT_EQ(none.peak_bytes, 25616u);
  for (std::size_t k = 1; k < none.steps.size(); ++k) EXPECT_EQ(none.steps[k].used_bytes, 25616u);
  const MemoryPlan liveness = net.plan(liveness_policy());
  EXPECT_EQ(liveness.peak_live_bytes, 21512u);
  EXPECT_EQ(liveness.peak_live_step, 8);
  EXPECT_EQ(net.training.lower_bound(), 12288u);
  EXPECT_EQ(net.training.need(9), 12288u);
  const MemoryPlan vdnn = net.plan(vdnn_all_policy());
  EXPECT_EQ(vdnn.offloaded_bytes, 13312u);
  // With each of the two maps of 8 bytes rounded up to 512.
  const std::vector<std::uint64_t> kLive{5120, 8192,  8192,  8192,  4608,  5120,
                                         8704, 16896, 16384, 16384, 13312, 5120};
  const std::vector<std::uint64_t> kSmall{0, 0, 0, 0, 1, 2, 1, 1, 0, 0, 0, 0};
  for (std::size_t k = 0; k < kLive.size(); ++k) {
    EXPECT_EQ(vdnn.steps[k + 1].live_bytes + kSmall[k] * (512 - 8), kLive[k]) << k + 1;
  }
}

Graph chain(int length) {
  std::string nodes;
  for (int i = 0; i < length; ++i) {
    nodes += R"({"type": "conv", "channels": 16, "kernel": 3, "padding": 1},)";
  }
  return parse_graph("chain", R"({"name": "chain", "input": [16,32,32], "nodes": [)" + nodes +
                                  R"({"type": "fc", "units": 1}, {"type": "softmax"}]})");
}

// L conv whose maps have S bytes: none holds L + 1 maps and L gradients; liveness ends the forward
// pass with L + 1 maps and adds one gradient; a conv's backward step uses X, G of Y and G of X,
// and one more map is on its way.
TEST(Chain, HasClosedForms) {
  for (const int length : {2, 3, 7}) {
    const Planned net(chain(length), {}, test_rates(1e30));  // no offload lags behind
    const std::uint64_t s = 16 * 32 * 32 * 4, tiny = 2 * 512;
    EXPECT_EQ(net.plan(none_policy()).peak_bytes / s, 2u * static_cast<unsigned>(length) + 1);
    EXPECT_EQ(net.plan(liveness_policy()).peak_live_bytes / s, static_cast<unsigned>(length) + 2);
    EXPECT_EQ(net.training.lower_bound() / s, 3u);
    for (const Policy* policy : {&vdnn_all_policy(), &dymem_policy()}) {
      const MemoryPlan plan = net.plan(*policy);
      EXPECT_LE(plan.peak_live_bytes, 4 * s + tiny) << policy->name() << length;
      EXPECT_GE(plan.peak_live_bytes, 4 * s) << policy->name() << length;
    }
  }
}

// Dymem's figure 4.2, with convolutions, whose backward steps need their inputs.
Graph figure42() {
  return parse_graph("figure", R"({"name": "4.2", "input": [4,8,8], "nodes": [
    {"name": "l0", "type": "conv", "channels": 4, "kernel": 1},
    {"name": "l1", "type": "pool", "kernel": 3, "padding": 1},
    {"name": "l2", "type": "conv", "channels": 4, "kernel": 1, "from": ["l0"]},
    {"name": "l3", "type": "conv", "channels": 4, "kernel": 1, "from": ["l0"]},
    {"name": "l4", "type": "conv", "channels": 4, "kernel": 1, "from": ["l0"]},
    {"name": "l5", "type": "conv", "channels": 4, "kernel": 1, "from": ["l1"]},
    {"name": "l6", "type": "conv", "channels": 4, "kernel": 1, "from": ["l3"]},
    {"name": "l7", "type": "conv", "channels": 4, "kernel": 1, "from": ["l4"]},
    {"name": "l8", "type": "conv", "channels": 4, "kernel": 1, "from": ["l7"]},
    {"name": "l9", "type": "concat", "from": ["l5", "l2", "l6", "l8"]},
    {"name": "next", "type": "conv", "channels": 4, "kernel": 1},
    {"type": "fc", "units": 2}, {"type": "softmax"}]})");
}

// Dymem's figure 4.2.
TEST(Order, IsDepthFirstAndWaitsAtJoins) {
  const Graph graph = figure42();
  std::string names;
  for (const int node : execution_order(graph)) names += graph.node(node).name + " ";
  EXPECT_EQ(names.substr(0, 40), "input l0 l1 l5 l2 l3 l6 l4 l7 l8 l9 next");
}

TEST(Groups, AreThoseOfFigure42) {
  const Planned net(figure42());
  const auto group = [&](const std::string& name) {
    for (const int id : net.training.feature) {
      const StepTensor& tensor = net.training.tensor(id);
      if (net.graph->node(tensor.node).name == name) {
        return mobility_of(net.training, tensor, Pass::forward);
      }
    }
    return Mobility::workspace;
  };
  for (const char* name : {"l0", "l5", "l2", "l6"})
    EXPECT_EQ(group(name), Mobility::temporary) << name;
  for (const char* name : {"l1", "l3", "l4", "l7", "l8"}) {
    EXPECT_EQ(group(name), Mobility::movable) << name;
  }
  EXPECT_EQ(group("next"), Mobility::reclaimed);  // it stays for the fc
}

}  // namespace
}  // namespace hetsgd
