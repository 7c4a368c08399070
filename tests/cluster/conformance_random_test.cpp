// Every call of the vocabulary at random on every cluster: nothing hangs, and no sum is wrong.

#include "cluster/conformance.hpp"
#include "core/random.hpp"
#include "support/effort.hpp"

namespace hetsgd::conformance {
namespace {

// Rank r sends (r + s) % 3 times n elements to rank s.
void all_to_all_at_random(Endpoint& endpoint, std::size_t n) {
  std::vector<std::size_t> counts;
  for (int r = 0; r < endpoint.size(); ++r) {
    counts.push_back(n * static_cast<std::size_t>((endpoint.rank() + r) % 3));
  }
  const std::vector<int> send(AllToAll::sum(counts), endpoint.rank());
  std::vector<int> receive(send.size(), -1), expected;
  for (int r = 0; r < endpoint.size(); ++r) {
    expected.insert(expected.end(), counts[static_cast<std::size_t>(r)], r);
  }
  endpoint.comm().all_to_all<int>(send, counts, receive, counts);
  ASSERT_EQ(receive, expected);
}

// Two sums and a request that run behind a barrier or a computation.
void behind_others(Endpoint& endpoint, ServiceClient<Ask, Answer>& gather, std::vector<float>& x,
                   bool barrier) {
  std::vector<float> ones(x.size() / 2 + 1, 1);
  const Pending largest = endpoint.comm().start(all_reduce(std::span(x), ReduceOp::max));
  Pending sum = endpoint.comm().start(all_reduce(std::span(ones)));
  auto answer = gather.post({1});
  barrier ? endpoint.comm().barrier() : endpoint.compute({}, ComputeKind::vector, [] {});
  EXPECT_EQ(answer.wait().number, endpoint.size());
  sum.wait();
  ASSERT_EQ(ones, std::vector(ones.size(), static_cast<float>(endpoint.size())));
}

// Each worker makes `calls` calls in an order that all ranks draw alike from `seed`, with pauses
// between them. A background task makes half as many all_reduces of its own.
void call_at_random(Endpoint& endpoint, std::uint64_t seed, int calls) {
  auto gather = serve<Gather>(endpoint, "gather", endpoint.size());
  std::shared_ptr<Comm> own = endpoint.comm().split(0, endpoint.rank());
  endpoint.background_task("reduce", [own, seed, calls](Endpoint& self) {
    RandomStream random(seed, Purpose::test, 1);
    for (int i = 0; i < calls / 2; ++i) {
      std::vector<float> x(random.below(9000), 1.0F);
      own->all_reduce(std::span(x));
      for (const float sum : x) ASSERT_EQ(sum, static_cast<float>(self.size()));
    }
  });
  RandomStream common(seed, Purpose::test, 2);
  const int next = next_of(endpoint);
  for (int i = 0; i < calls; ++i) {
    std::vector<float> x(common.below(6000), static_cast<float>(endpoint.rank()));
    switch (common.below(8)) {
      case 0:
        endpoint.comm().all_reduce(std::span(x), ReduceOp::max);
        break;
      case 1:
        endpoint.comm().broadcast(
            std::span(x),
            static_cast<int>(common.below(static_cast<std::uint64_t>(endpoint.size()))));
        break;
      case 2:
        endpoint.comm().send(next, i, std::span<const float>(x));
        endpoint.comm().receive(kAnySource, i, std::span(x));
        break;
      case 3:
        endpoint.while_paused_together([] {});
        break;
      case 4:
        endpoint.while_paused([] {});
        break;
      case 5:
        all_to_all_at_random(endpoint, static_cast<std::size_t>(common.below(700)));
        break;
      case 6:
        behind_others(endpoint, gather, x, common.below(2) == 0);
        break;
      default:
        EXPECT_EQ(gather.call({1}).number, endpoint.size());
    }
  }
}

class RandomCallsOn : public OnEverySize {};
HETSGD_ON_EVERY_SIZE(RandomCallsOn);

TEST_P(RandomCallsOn, End) {
  const std::uint64_t seeds = launched() ? 200 : test::random_runs(20);
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    run_on(cluster(), size(),
           [seed](Endpoint& endpoint) { call_at_random(endpoint, seed, launched() ? 10 : 40); });
  }
}

}  // namespace
}  // namespace hetsgd::conformance
