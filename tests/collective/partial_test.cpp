// Partial all_reduce and activation without a centre: results on every cluster, and on `sim` the
// cost of an all_reduce over all ranks whatever the number of contributors.
#include "collective/partial.hpp"

#include <bit>

#include "cluster/conformance.hpp"
#include "support/plain_cluster.hpp"

namespace hetsgd {
namespace {

class PartialOn : public conformance::OnEverySize {
 protected:
  ClusterReport run(const std::function<void(Endpoint&)>& worker) const {
    return conformance::run_on(cluster(), size(), worker);
  }
};
HETSGD_ON_EVERY_SIZE(PartialOn);

// In call k the ranks r with r % (k + 1) == 0 contribute (r + 1) 2^j in place j.
TEST_P(PartialOn, SumsTheContributions) {
  run([&](Endpoint& endpoint) {
    for (int k = 0; k < 4; ++k) {
      for (const std::size_t n : {std::size_t{0}, std::size_t{5}, std::size_t{10'000}}) {
        float sum = 0;
        std::int64_t items = 0;
        int contributors = 0;
        for (int r = 0; r < size(); ++r) {
          items += r;
          if (r % (k + 1) != 0) continue;
          sum += static_cast<float>(r + 1);
          ++contributors;
        }
        const bool mine = endpoint.rank() % (k + 1) == 0;
        std::vector<float> data(n + kPartialTail, -1.0F);
        for (std::size_t j = 0; j < n; ++j) {
          data[j] = mine ? static_cast<float>((endpoint.rank() + 1) * (1 << j % 4)) : 0.0F;
        }
        const PartialSum result =
            partial_all_reduce(endpoint.comm(), endpoint.device(), data,
                               {.contributes = mine, .items = endpoint.rank()}, Traffic::gradients);
        EXPECT_EQ(result.contributors, contributors);
        EXPECT_EQ(result.items, items);
        EXPECT_FALSE(result.last);
        for (std::size_t j = 0; j < n; ++j) {
          ASSERT_EQ(data[j], sum * static_cast<float>(1 << j % 4)) << "place " << j;
        }
      }
    }
  });
}

// One rank says that this call is the last. All learn it in the same call, and none calls again.
TEST_P(PartialOn, TheLastCallIsACommonDecision) {
  for (int leaver = 0; leaver < size(); ++leaver) {
    std::vector<int> calls(static_cast<std::size_t>(size()));
    run([&](Endpoint& endpoint) {
      std::vector<float> data(kPartialTail);
      PartialSum result;
      for (int k = 0; !result.last; ++k) {
        const bool last = endpoint.rank() == leaver && k == leaver + 2;
        result = partial_all_reduce(endpoint.comm(), endpoint.device(), data, {.last = last},
                                    Traffic::gradients);
        ++calls[static_cast<std::size_t>(endpoint.rank())];
      }
    });
    EXPECT_EQ(calls, std::vector<int>(static_cast<std::size_t>(size()), leaver + 3));
  }
}

// Any set of initiators reaches all ranks, and after all messages of a round none is left.
TEST_P(PartialOn, AnyInitiatorActivatesEverybody) {
  const int p = size();
  EXPECT_EQ(activation_messages(p), p == 1 ? 0 : std::bit_width(static_cast<unsigned>(p - 1)));
  run([&](Endpoint& endpoint) {
    for (int initiators = 1; initiators < 1 << p; initiators += p < 4 ? 1 : 7) {
      const int tag = initiators % 2;
      int expected = activation_messages(p);
      if ((initiators >> endpoint.rank() & 1) == 0) {
        receive_activation(endpoint.comm(), tag);
        --expected;
      }
      pass_on_activation(endpoint.comm(), tag);
      for (; expected > 0; --expected) receive_activation(endpoint.comm(), tag);
      endpoint.comm().barrier();
      EXPECT_FALSE(endpoint.comm().poll(kAnySource, tag));
    }
  });
}

TEST(Partial, CostsAnAllReduceOverAllRanks) {
  constexpr std::size_t kCount = 100'000;
  for (const int workers : {2, 3, 8}) {
    for (const int contributors : {0, 1, workers}) {
      const ClusterOptions options = plain_cluster(workers);
      const double expected =
          options.network.all_reduce_cost(workers, 4.0 * (kCount + kPartialTail)).count();
      const ClusterReport report = make_cluster("sim", options)->run([&](Endpoint& endpoint) {
        std::vector<float> data(kCount + kPartialTail);
        partial_all_reduce(endpoint.comm(), endpoint.device(), data,
                           {.contributes = endpoint.rank() < contributors}, Traffic::gradients);
      });
      EXPECT_DOUBLE_EQ(report.elapsed.count(), expected);
      const auto& breakdown = report.workers.back().breakdown;
      EXPECT_GT(breakdown.bytes_sent[static_cast<std::size_t>(Traffic::gradients)], 4 * kCount / 2);
    }
  }
}

// One initiator: the last rank knows after ceil(log2 p) messages in a row.
TEST(Partial, ActivationTakesLogarithmicTime) {
  for (const int workers : {2, 3, 4, 8, 16, 100}) {
    std::vector<double> heard(static_cast<std::size_t>(workers));
    make_cluster("sim", plain_cluster(workers))->run([&](Endpoint& endpoint) {
      int expected = activation_messages(workers);
      if (endpoint.rank() != 0) {
        receive_activation(endpoint.comm(), 0);
        --expected;
        heard[static_cast<std::size_t>(endpoint.rank())] = endpoint.now().count();
      }
      pass_on_activation(endpoint.comm(), 0);
      for (; expected > 0; --expected) receive_activation(endpoint.comm(), 0);
    });
    const double latest = *std::ranges::max_element(heard);
    EXPECT_LE(latest, activation_messages(workers) * 1e-5 * (1 + 1e-12)) << workers;
    EXPECT_GE(latest, 1e-5 * (1 - 1e-12));
  }
}

}  // namespace
}  // namespace hetsgd
