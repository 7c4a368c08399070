// Invariants of every plan, over random series-parallel networks.

#include "core/random.hpp"
#include "memory/minimum.hpp"
#include "support/failure.hpp"
#include "support/memory_fixtures.hpp"
#include "support/plan_problem.hpp"

namespace hetsgd {
namespace {

class RandomNetwork {
 public:
  explicit RandomNetwork(std::uint64_t seed)
      : random_(seed, Purpose::test), graph_("random", {side(), side(), side()}) {}

  Graph build() {
    const int nodes = 3 + static_cast<int>(random_.below(40));
    while (graph_.size() < nodes) {
      if (random_.below(4) == 0) {
        block();
      } else {
        layer(graph_.size() - 1);
      }
    }
    put({.type = NodeType::fc, .from = {graph_.size() - 1}, .units = 2});
    put({.type = NodeType::softmax, .from = {graph_.size() - 1}});
    graph_.finish();
    return std::move(graph_);
  }
  RandomStream& random() { return random_; }

 private:
  std::int64_t side() { return 1 + static_cast<std::int64_t>(random_.below(12)); }
  int put(Node node) {
    node.name = std::to_string(graph_.size());
    return graph_.add(std::move(node));
  }
  // Adds a layer of its input's shape, except for the channels of a conv.
  int layer(int from) {
    static const std::vector<NodeType> kTypes{NodeType::conv, NodeType::conv,    NodeType::relu,
                                              NodeType::lrn,  NodeType::dropout, NodeType::bn,
                                              NodeType::pool};
    Node node{.type = kTypes[random_.below(kTypes.size())], .from = {from}};
    if (node.type == NodeType::conv || node.type == NodeType::pool) {
      node.channels = 1 + static_cast<std::int64_t>(random_.below(16));
      node.kernel = {3, 3};
      node.padding = {1, 1};
    }
    return put(std::move(node));
  }
  void block() {
    const int fork = graph_.size() - 1;
    std::vector<int> ends;
    const std::size_t branches = 2 + random_.below(3);
    for (std::size_t b = 0; b < branches; ++b) {
      int end = fork;
      for (std::size_t i = 1 + random_.below(3); i > 0; --i) end = layer(end);
      ends.push_back(end);
    }
    put({.type = NodeType::concat, .from = ends});
  }

  RandomStream random_;
  Graph graph_;
};

TEST(Plans, OfRandomNetworksHoldTheirInvariants) {
  constexpr std::uint64_t kNetworks = 10'000;
  int fitting = 0;
  for (std::uint64_t seed = 0; seed < kNetworks; ++seed) {
    RandomNetwork network(seed);
    Graph graph = network.build();
    RandomStream& random = network.random();
    const std::int64_t batch = 1 + static_cast<std::int64_t>(random.below(64));
    const Planned net(std::move(graph), {.batch = batch},
                      test_rates(1e6 * random.uniform(1, 1e3), 1e9 * random.uniform(1, 1e3)));
    const Policy& policy = *all_policies()[2 + seed % (all_policies().size() - 2)];
    PlanRequest request = net.request();
    if (random.below(2) == 0) {
      request.capacity =
          static_cast<std::uint64_t>(static_cast<double>(net.training.lower_bound()) *
                                     random.uniform(1, 3)) +
          4096;
    }
    request.convolution = static_cast<ConvolutionMode>(random.below(3));
    request.prefetch_convs = 1 + static_cast<int>(random.below(3));
    if (random.below(2) == 0) request.recompute = Recomputation::cost;
    if (random.below(2) == 0) request.tensor_cache = TensorCache::lru;
    const MemoryPlan plan = policy.plan(request);
    if (!plan.fits()) continue;
    ++fitting;
    ASSERT_EQ(plan_problem(request, plan), "") << policy.name() << " seed " << seed;
    ASSERT_LE(net.training.lower_bound(), plan.peak_live_bytes);
    ASSERT_LE(plan.peak_live_bytes, plan.peak_bytes) << policy.name() << " seed " << seed;
    ASSERT_LE(plan.peak_bytes, request.capacity) << policy.name() << " seed " << seed;
    ASSERT_EQ(plan.fetched_bytes, plan.offloaded_bytes + plan.cancelled_bytes)
        << policy.name() << " seed " << seed;
    const double tiny = 1e-9 * plan.iteration_s;
    ASSERT_LE(std::max(plan.compute_s, plan.transfer_s), plan.iteration_s + tiny);
    ASSERT_GE(plan.idle_s(), -tiny);
  }
  EXPECT_GT(fitting, 5000);
}

// With a free link nothing waits; without computing the transfers remain.
TEST(Times, HaveTheirLimits) {
  const Planned free_link(named("resnet-20"), {.batch = 16}, test_rates(1e30));
  for (const Policy* policy : {&dymem_policy(), &vdnn_all_policy()}) {
    const MemoryPlan plan = free_link.plan(*policy);
    EXPECT_NEAR(plan.iteration_s, plan.compute_s, 1e-9) << policy->name();
  }
  const Planned slow(named("resnet-20"), {.batch = 16}, test_rates(1e7));
  const MemoryPlan sequential = slow.plan(sequential_policy());
  EXPECT_NEAR(sequential.iteration_s, sequential.compute_s + sequential.transfer_s, 1e-9);
}

TEST(LargestBatch, IsTheLastThatFits) {
  EXPECT_EQ(largest_batch([](std::int64_t batch) { return batch <= 37; }), 37);
  EXPECT_EQ(largest_batch([](std::int64_t) { return false; }), 0);
}

Graph chain_of_relus(int length) {
  Graph graph("relus", {4, 8, 8});
  for (int i = 0; i < length; ++i) {
    graph.add({.name = fmt::format("r{}", i), .type = NodeType::relu, .from = {i}});
  }
  graph.add({.name = "softmax", .type = NodeType::softmax, .from = {length}});
  return graph;
}

// Liveness, with a count of the calls.
class CountedPolicy final : public Policy {
 public:
  CountedPolicy() : Policy({.name = "counted"}) {}
  MemoryPlan plan(const PlanRequest& request) const override {
    ++plans;
    return Policy::plan(request);
  }
  mutable int plans = 0;
};

// A policy that does not move the maps of a chain needs all of them, far above the bound of
// policies that move maps.
TEST(Minimum, OfAChainWhoseMapsStayIsFoundInFewPlans) {
  for (const int length : {150, 2000}) {
    const Planned net(chain_of_relus(length), {.batch = 4});
    const CountedPolicy counted;
    const auto minimum = minimum_capacity(counted, net.request());
    ASSERT_TRUE(minimum.has_value());
    EXPECT_GE(*minimum, net.training.feature_bytes());
    EXPECT_LE(*minimum, net.training.feature_bytes() + net.training.feature_bytes() / 20);
    EXPECT_LE(counted.plans, 10);
  }
  const Planned net(chain_of_relus(150), {.batch = 4});
  for (const Policy* policy : all_policies()) {
    EXPECT_TRUE(minimum_capacity(*policy, net.request()).has_value()) << policy->name();
  }
}

// The capacities that are passed over without a plan would not have fitted.
TEST(Minimum, IsTheFirstThatFitsOfAllThatAreTried) {
  for (const char* name : {"resnet-20", "lenet-5", "lstm-video?size=8&steps=20&units=8&dense=4"}) {
    const Planned net(named(name), {.batch = 4});
    for (const Policy* policy : all_policies()) {
      if (policy->total_bytes(net.request())) continue;
      const auto minimum = minimum_capacity(*policy, net.request());
      ASSERT_TRUE(minimum.has_value()) << name << " under " << policy->name();
      const auto bound = static_cast<double>(net.training.lower_bound());
      std::uint64_t capacity = 0;
      for (double factor = 1; capacity < *minimum; factor *= 1.01) {
        capacity = rounded(static_cast<std::uint64_t>(std::ceil(bound * factor)), kPoolUnit);
        EXPECT_EQ(policy->fits(net.request(capacity)), capacity == *minimum)
            << capacity << " of " << name << " under " << policy->name();
      }
    }
  }
}

// The offers of a search. Every map is on the host until it has been offered.
class Offers final : public FetchQueue {
 public:
  explicit Offers(const TrainingStep& training)
      : searched_(training.forward_steps() + 1), offered_(training.tensors.size(), false) {}
  bool is_absent(int tensor) const override {
    ++asked;
    return !offered_[static_cast<std::size_t>(tensor)];
  }
  bool was_fetched(int) const override { return false; }
  void push(int tensor) override {
    offered_[static_cast<std::size_t>(tensor)] = true;
    order.push_back(tensor);
  }
  int& searched() override { return searched_; }

  mutable int asked = 0;
  std::vector<int> order;

 private:
  int searched_;
  std::vector<bool> offered_;
};

// Algorithm 3 as it is written: each step looks at its whole window again.
void search_again(const PlanRequest& request, int k, FetchQueue& queue) {
  const TrainingStep& training = *request.training;
  int convolutions = 0;
  for (int m = k; m >= 1; --m) {
    const bool is_conv = training.node_of(training.step(m)).type == NodeType::conv;
    if (is_conv && m < k && convolutions >= request.prefetch_convs) return;
    if (is_conv) ++convolutions;
    for (const int map : training.step(training.total_steps() + 1 - m).reads) {
      if (queue.is_absent(map)) queue.push(map);
    }
  }
}

TEST(Dymem, OffersWhatAlgorithm3SaysWithoutLookingTwice) {
  for (Graph graph : {named("resnet-20"), named("lenet-5"), named("vgg-16"), chain_of_relus(500)}) {
    const Planned net(std::move(graph), {.batch = 4});
    for (const int window : {1, 2, 5}) {
      PlanRequest request = net.request();
      request.prefetch_convs = window;
      Offers offers(net.training), expected(net.training);
      for (int k = net.training.forward_steps(); k >= 1; --k) {
        dymem_policy().search(request, k, offers);
        search_again(request, k, expected);
        EXPECT_EQ(offers.order, expected.order) << net.graph->name() << " at step " << k;
      }
      EXPECT_LE(offers.asked, 4 * net.training.total_steps());
    }
  }
}

TEST(TrainingStep, RefusesMoreBytesThanCanBeCounted) {
  Graph graph("long", {1, 1'000'000, 1});
  graph.add({.name = "lstm", .type = NodeType::lstm, .from = {0}, .units = 500'000});
  graph.add({.name = "softmax", .type = NodeType::softmax, .from = {1}});
  EXPECT_EQ(test::failure_of([&] { training_step(graph, {.batch = 1'000'000}); }).code,
            ExitCode::data);
}

}  // namespace
}  // namespace hetsgd
