// Every call of the vocabulary at random, for tests that nothing hangs and no sum is wrong.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "cluster/conformance.hpp"
#include "core/random.hpp"

namespace hetsgd::conformance {

// What each worker does: `calls` calls in an order that all ranks draw alike from `seed`, with
// fences between and a companion that makes half as many all_reduces of its own.
inline void call_at_random(Node& node, std::uint64_t seed, int calls) {
  auto gather = serve<Gather>(node, "gather", node.size());
  std::shared_ptr<Comm> own = node.comm().split(0, node.rank());
  node.companion("reduce", [own, seed, calls](Node& self) {
    RandomStream random(seed, Purpose::test, 1);
    for (int i = 0; i < calls / 2; ++i) {
      std::vector<float> x(random.below(9000), 1.0F);
      own->all_reduce(std::span(x));
      for (const float sum : x) ASSERT_EQ(sum, static_cast<float>(self.size()));
    }
  });
  RandomStream common(seed, Purpose::test, 2);
  const int next = (node.rank() + 1) % node.size();
  for (int i = 0; i < calls; ++i) {
    std::vector<float> x(common.below(6000), static_cast<float>(node.rank()));
    switch (common.below(6)) {
      case 0:
        node.comm().all_reduce(std::span(x), ReduceOp::max);
        break;
      case 1:
        node.comm().broadcast(
            std::span(x), static_cast<int>(common.below(static_cast<std::uint64_t>(node.size()))));
        break;
      case 2:
        node.comm().send(next, i, std::span<const float>(x));
        node.comm().receive(kAnySource, i, std::span(x));
        break;
      case 3:
        node.fence_together([] {});
        break;
      case 4:
        node.fence([] {});
        break;
      default:
        EXPECT_EQ(gather.call({1}).number, node.size());
    }
  }
}

}  // namespace hetsgd::conformance
