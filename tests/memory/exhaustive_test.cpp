// Small plans beside the best of all possible ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/random.hpp"
#include "graph/graph_file.hpp"
#include "memory/training_step.hpp"
#include "support/memory_fixtures.hpp"

namespace hetsgd {
namespace {

// A block of memory for as long as it is allocated: instructions begin .. end.
struct Placed {
  std::size_t begin = 0, end = 0;
  std::uint64_t bytes = 0;
};

std::vector<Placed> blocks_of(const MemoryPlan& plan) {
  std::vector<Placed> blocks;
  std::vector<std::pair<std::uint64_t, std::size_t>> open;  // offset, block
  for (std::size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& one = plan.instructions[i];
    if (one.kind == InstructionKind::allocate) {
      open.emplace_back(one.offset, blocks.size());
      blocks.push_back({i, plan.instructions.size(), rounded(one.bytes, kPoolUnit)});
    } else if (one.kind == InstructionKind::release) {
      const auto at =
          std::ranges::find(open, one.offset, [](const auto& each) { return each.first; });
      blocks[at->second].end = i;
      open.erase(at);
    }
  }
  return blocks;
}

// The smallest arena that holds all blocks: over all orders, each block goes to the lowest place at
// which it fits beside those before it. Every packing can be pushed down to one of these: take its
// blocks by address, and none of them moves up.
std::uint64_t best_arena(const std::vector<Placed>& blocks) {
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::uint64_t best = ~std::uint64_t{0};
  do {
    std::vector<std::uint64_t> place(blocks.size());
    std::uint64_t height = 0;
    for (std::size_t i = 0; i < order.size() && height < best; ++i) {
      const Placed& block = blocks[order[i]];
      std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;  // by address
      for (std::size_t j = 0; j < i; ++j) {
        const Placed& other = blocks[order[j]];
        if (other.begin < block.end && block.begin < other.end) {
          taken.emplace_back(place[order[j]], place[order[j]] + other.bytes);
        }
      }
      std::ranges::sort(taken);
      std::uint64_t low = 0;
      for (const auto& [first, end] : taken) {
        if (first >= low + block.bytes) break;
        low = std::max(low, end);
      }
      place[order[i]] = low;
      height = std::max(height, low + block.bytes);
    }
    best = std::min(best, height);
  } while (std::ranges::next_permutation(order).found);
  return best;
}

std::uint64_t most_at_once(const std::vector<Placed>& blocks) {
  std::uint64_t most = 0;
  for (const Placed& moment : blocks) {
    std::uint64_t sum = 0;
    for (const Placed& block : blocks) {
      if (block.begin <= moment.begin && moment.begin < block.end) sum += block.bytes;
    }
    most = std::max(most, sum);
  }
  return most;
}

Graph small_chain(std::uint64_t seed) {
  RandomStream random(seed, Purpose::test);
  std::string nodes;
  for (std::uint64_t i = 1 + random.below(2); i > 0; --i) {
    nodes += fmt::format(R"({{"type": "conv", "channels": {}, "kernel": 3, "padding": 1}},)",
                         1 + random.below(12));
  }
  return parse_graph("chain", R"({"name": "chain", "input": [3,16,16], "nodes": [)" + nodes +
                                  R"({"type": "fc", "units": 300}, {"type": "softmax"}]})");
}

// Whatever a pool does online, the best arena of its own blocks is not larger, and no arena is
// smaller than what is live at once. The gap is what a planner with more time could win.
TEST(BestArena, IsNeverBeatenByAPool) {
  int compared = 0, optimal = 0;
  double gap = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Planned net(small_chain(seed), {.batch = 4}, test_rates(1e30));
    for (const Policy* policy : {&liveness_policy(), &vdnn_all_policy(), &superneurons_policy()}) {
      const MemoryPlan plan = net.plan(*policy);
      const std::vector<Placed> blocks = blocks_of(plan);
      if (blocks.size() > 8) continue;
      const std::uint64_t best = best_arena(blocks);
      ASSERT_LE(most_at_once(blocks), best) << policy->name() << seed;
      ASSERT_LE(best, plan.peak_bytes) << policy->name() << seed;
      ++compared;
      optimal += best == plan.peak_bytes;
      gap += static_cast<double>(plan.peak_bytes) / static_cast<double>(best) - 1;
    }
  }
  EXPECT_GE(compared, 30);
  RecordProperty("plans", compared);
  RecordProperty("optimal", optimal);
  RecordProperty("mean_gap_percent", static_cast<int>(100 * gap / compared));
}

// --- orders --------------------------------------------------------------------------------------

// Bytes of maps at once in the forward pass, where each is freed after its last consumer.
std::int64_t forward_peak(const Graph& graph, const std::vector<int>& order) {
  std::vector<int> left(static_cast<std::size_t>(graph.size()));
  for (int node = 0; node < graph.size(); ++node) {
    left[static_cast<std::size_t>(node)] = static_cast<int>(graph.consumers(node).size());
  }
  std::int64_t live = 0, most = 0;
  for (const int node : order) {
    live += graph.node(node).shape.numbers();
    most = std::max(most, live);
    for (const int from : graph.node(node).from) {
      if (--left[static_cast<std::size_t>(from)] == 0) live -= graph.node(from).shape.numbers();
    }
  }
  return most;
}

// Calls visit(order) for every order in which inputs come before users.
void for_each_order(const Graph& graph, const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> order;
  std::vector<bool> done(static_cast<std::size_t>(graph.size()), false);
  const std::function<void()> extend = [&] {
    if (static_cast<int>(order.size()) == graph.size()) return visit(order);
    for (int node = 0; node < graph.size(); ++node) {
      const std::vector<int>& from = graph.node(node).from;
      const bool ready = std::ranges::all_of(
          from, [&](int input) { return bool{done[static_cast<std::size_t>(input)]}; });
      if (done[static_cast<std::size_t>(node)] || !ready) continue;
      done[static_cast<std::size_t>(node)] = true;
      order.push_back(node);
      extend();
      order.pop_back();
      done[static_cast<std::size_t>(node)] = false;
    }
  };
  extend();
}

// Up to 9 nodes: a fork into branches of random lengths and widths, joined again.
Graph small_fork(std::uint64_t seed) {
  RandomStream random(seed, Purpose::test);
  Graph graph("fork", {2, 4, 4});
  const auto conv = [&](int from) {
    return graph.add({.name = std::to_string(graph.size()),
                      .type = NodeType::conv,
                      .from = {from},
                      .channels = 1 + static_cast<std::int64_t>(random.below(9))});
  };
  const int fork = conv(0);
  std::vector<int> ends;
  const std::uint64_t branches = 2 + random.below(2);
  for (std::uint64_t b = 0; b < branches; ++b) {
    int end = fork;
    for (std::uint64_t i = branches == 3 ? 1 : 1 + random.below(2); i > 0; --i) end = conv(end);
    ends.push_back(end);
  }
  const int join = graph.add({.name = "join", .type = NodeType::concat, .from = ends});
  const int fc = graph.add({.name = "fc", .type = NodeType::fc, .from = {join}, .units = 2});
  graph.add({.name = "softmax", .type = NodeType::softmax, .from = {fc}});
  graph.finish();
  return graph;
}

TEST(Order, IsOneOfAllOrdersAndItsGapIsKnown) {
  int optimal = 0;
  double gap = 0;
  constexpr std::uint64_t kGraphs = 100;
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    const Graph graph = small_fork(seed);
    ASSERT_LE(graph.size(), 9);
    const std::vector<int> depth_first = execution_order(graph);
    const std::int64_t found = forward_peak(graph, depth_first);
    std::int64_t best = found;
    bool is_valid = false;
    for_each_order(graph, [&](const std::vector<int>& order) {
      best = std::min(best, forward_peak(graph, order));
      is_valid = is_valid || order == depth_first;
    });
    ASSERT_TRUE(is_valid) << seed;
    optimal += best == found;
    gap += static_cast<double>(found) / static_cast<double>(best) - 1;
  }
  // Depth first is a rule, not an optimum: it takes branches as the node list has them.
  EXPECT_GT(optimal, 50);
  EXPECT_LT(gap / kGraphs, 0.05);
  RecordProperty("optimal", optimal);
  RecordProperty("mean_gap_permille", static_cast<int>(1000 * gap / kGraphs));
}

}  // namespace
}  // namespace hetsgd
