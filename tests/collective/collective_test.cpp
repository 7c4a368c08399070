// Collectives over messages: results on every cluster against closed forms, times on `sim` against
// the network model's analytic costs.

#include <bit>

#include "cluster/conformance.hpp"
#include "collective/message_collectives.hpp"
#include "support/plain_cluster.hpp"

namespace hetsgd {
namespace {

constexpr int kTag = 17;

template <class T>
using AllReduce = std::function<void(Comm&, int, std::span<T>, std::vector<T>&, ReduceOp)>;

template <class T>
std::vector<std::pair<std::string, AllReduce<T>>> all_reduces() {
  return {
      {"ring", [](Comm& comm, int tag, std::span<T> x, std::vector<T>& scratch,
                  ReduceOp op) { ring_all_reduce(comm, tag, x, scratch, op); }},
      {"tree", [](Comm& comm, int tag, std::span<T> x, std::vector<T>& scratch,
                  ReduceOp op) { tree_all_reduce(comm, tag, x, scratch, op); }},
      {"halving_doubling",
       [](Comm& comm, int tag, std::span<T> x, std::vector<T>& scratch, ReduceOp op) {
         halving_doubling_all_reduce(comm, tag, x, scratch, op);
       }},
  };
}

// Rank r's number j is 3 j + (rank's turn), where the turn makes neither the first nor the last
// rank the largest.
std::int64_t input(std::size_t j, int rank, int size) {
  return 3 * static_cast<std::int64_t>(j) + (rank + static_cast<int>(j % 5)) % size;
}
// The turns of all ranks are 0 ... p-1, each once.
std::int64_t reduced(std::size_t j, int size, ReduceOp op) {
  const auto base = 3 * static_cast<std::int64_t>(j);
  if (op == ReduceOp::sum) return base * size + static_cast<std::int64_t>(size) * (size - 1) / 2;
  return op == ReduceOp::max ? base + size - 1 : base;
}

template <class T>
std::vector<T> inputs(std::size_t n, int rank, int size) {
  std::vector<T> x(n);
  for (std::size_t j = 0; j < n; ++j) x[j] = static_cast<T>(input(j, rank, size));
  return x;
}

constexpr std::size_t kCounts[] = {0, 1, 100, 10'000};

class CollectiveOn : public conformance::OnEverySize {
 protected:
  // The worker for each number of elements.
  void run(const std::function<void(Endpoint&, std::size_t)>& worker) const {
    conformance::run_on(cluster(), size(), [&](Endpoint& endpoint) {
      for (const std::size_t n : kCounts) worker(endpoint, n);
    });
  }
};
HETSGD_ON_EVERY_SIZE(CollectiveOn);

template <class T>
void expect_reduced(const std::vector<T>& x, int size, ReduceOp op) {
  for (std::size_t j = 0; j < x.size(); ++j) {
    ASSERT_EQ(x[j], static_cast<T>(reduced(j, size, op))) << "at " << j;
  }
}

template <class T>
void check_all_reduces(Endpoint& endpoint, std::size_t n) {
  std::vector<T> scratch;
  for (const auto& [name, all_reduce] : all_reduces<T>()) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
      SCOPED_TRACE(name);
      std::vector<T> x = inputs<T>(n, endpoint.rank(), endpoint.size());
      all_reduce(endpoint.comm(), kTag, x, scratch, op);
      expect_reduced(x, endpoint.size(), op);
    }
  }
}

TEST_P(CollectiveOn, AllReduces) {
  run([&](Endpoint& endpoint, std::size_t n) {
    check_all_reduces<float>(endpoint, n);
    check_all_reduces<double>(endpoint, n);
    check_all_reduces<std::int64_t>(endpoint, n);
  });
}

TEST_P(CollectiveOn, RingReduceScatterAndAllGather) {
  run([&](Endpoint& endpoint, std::size_t n) {
    Comm& comm = endpoint.comm();
    std::vector<float> x = inputs<float>(n, endpoint.rank(), size()), scratch;
    ring_reduce_scatter(comm, kTag, std::span(x), scratch);
    const auto mine = comm.block_of(endpoint.rank(), n);
    for (std::size_t j = mine.begin; j < mine.end; ++j) {
      ASSERT_EQ(x[j], static_cast<float>(reduced(j, size(), ReduceOp::sum)));
    }
    EXPECT_LE(scratch.size(), n / static_cast<std::size_t>(size()) + 1);
    // The blocks of other ranks are wiped, so that all_gather must bring them.
    for (std::size_t j = 0; j < n; ++j) {
      if (j < mine.begin || j >= mine.end) x[j] = -1;
    }
    ring_all_gather(comm, kTag, std::span(x));
    expect_reduced(x, size(), ReduceOp::sum);
  });
}

TEST_P(CollectiveOn, BroadcastFromEveryRoot) {
  run([&](Endpoint& endpoint, std::size_t n) {
    for (int root = 0; root < size(); ++root) {
      std::vector<float> x(n, -1);
      if (endpoint.rank() == root) x = inputs<float>(n, root, size());
      binomial_broadcast(endpoint.comm(), kTag, std::span(x), root);
      ASSERT_EQ(x, inputs<float>(n, root, size()));
    }
  });
}

// The result of inexact sums is the same bits on all ranks.
TEST_P(CollectiveOn, AllRanksGetTheSameBits) {
  std::vector<std::vector<float>> results(static_cast<std::size_t>(size()));
  for (const auto& one : all_reduces<float>()) {
    run([&](Endpoint& endpoint, std::size_t n) {
      std::vector<float> x(n), scratch;
      for (std::size_t j = 0; j < x.size(); ++j) {
        x[j] = 1.0F / static_cast<float>(j + 1 + static_cast<std::size_t>(endpoint.rank()));
      }
      one.second(endpoint.comm(), kTag, x, scratch, ReduceOp::sum);
      auto& mine = results[static_cast<std::size_t>(endpoint.rank())];
      mine.insert(mine.end(), x.begin(), x.end());
    });
    for (const auto& x : results) EXPECT_EQ(x, results.front()) << one.first;
  }
}

// --- times on sim against the analytic costs -----------------------------------------------------

double time_of(int workers, const std::function<void(Endpoint&)>& worker) {
  return make_cluster("sim", plain_cluster(workers))->run(worker).elapsed.count();
}
double relative(double a, double b) { return a == b ? 0 : std::abs(a - b) / std::abs(b); }

constexpr std::size_t kElements = 1680;  // divisible by every size up to 8
constexpr double kBytes = kElements * sizeof(float);
constexpr std::size_t kMany = 64 * kElements;  // worth slices in a broadcast

double message_level_time(int workers, std::size_t n, const std::string& name) {
  for (const auto& [known, all_reduce] : all_reduces<float>()) {
    if (known != name) continue;
    return time_of(workers, [&, call = all_reduce](Endpoint& endpoint) {
      std::vector<float> x(n), scratch;
      call(endpoint.comm(), kTag, x, scratch, ReduceOp::sum);
    });
  }
  ADD_FAILURE() << name;
  return 0;
}
double analytic_time(int workers, std::size_t n, Topology topology) {
  NetworkModel model = plain_cluster(workers).network;
  model.all_reduce = topology;
  return model.all_reduce_cost(workers, static_cast<double>(n * sizeof(float))).count();
}

TEST(CollectiveTime, AllReducesAreTheirAnalyticCosts) {
  for (const auto& [name, topology] : {std::pair{"ring", Topology::ring},
                                       {"halving_doubling", Topology::halving_doubling},
                                       {"tree", Topology::tree}}) {
    for (const int p : {1, 2, 3, 4, 5, 7, 8, 16}) {
      if (topology == Topology::tree && !std::has_single_bit(static_cast<unsigned>(p))) continue;
      if (topology != Topology::tree && p == 16) continue;  // whose blocks differ
      const double time = message_level_time(p, kElements, name);
      EXPECT_LE(relative(time, analytic_time(p, kElements, topology)), 1e-12) << name << " " << p;
    }
  }
}

// Blocks of uneven length: a step takes as long as its longest block, at most one number more than
// the mean.
TEST(CollectiveTime, RingOfUnevenBlocksIsWithinOneNumberPerStep) {
  for (const int p : {3, 7, 8}) {
    for (const std::size_t n : {std::size_t{100}, std::size_t{10'001}}) {
      const double analytic = analytic_time(p, n, Topology::ring);
      const double measured = message_level_time(p, n, "ring");
      EXPECT_GE(measured, analytic * (1 - 1e-12));
      EXPECT_LE(measured, analytic + 2 * (p - 1) * sizeof(float) / 1e9 + 1e-15);
    }
  }
}

TEST(CollectiveTime, TreeOfOtherSizesTakesAtMostItsAnalyticCost) {
  for (const int p : {3, 5, 6, 7, 12}) {
    const double analytic = analytic_time(p, kElements, Topology::tree);
    EXPECT_LE(message_level_time(p, kElements, "tree"), analytic * (1 + 1e-12)) << p;
    EXPECT_GE(message_level_time(p, kElements, "tree"), analytic / 2) << p;
  }
}

// Halves of uneven length: each of the 2 log2 q steps moves less than one number more than the
// mean.
TEST(CollectiveTime, HalvingDoublingOfUnevenHalvesIsWithinOneNumberPerStep) {
  for (const auto& [p, steps] : {std::pair{4, 4}, {7, 4}, {8, 6}}) {
    const double analytic = analytic_time(p, 10'001, Topology::halving_doubling);
    const double measured = message_level_time(p, 10'001, "halving_doubling");
    EXPECT_LE(std::abs(measured - analytic), steps * sizeof(float) / 1e9) << p;
  }
}

// From rank 0: a slice to each rank; when all have theirs a ring passes the slices on.
void broadcast_in_slices(Endpoint& endpoint, int p) {
  std::vector<float> x(kMany);
  Comm& comm = endpoint.comm();
  const auto slice = [&](int r) {
    const Block block = block_of(r, p, x.size());
    return std::span(x).subspan(block.begin, block.size());
  };
  for (int r = 1; endpoint.rank() == 0 && r < p; ++r) {
    comm.send(r, kTag, std::span<const float>(slice(r)));
  }
  if (endpoint.rank() != 0) comm.receive(0, kTag, slice(endpoint.rank()));
  comm.barrier();
  ring_all_gather(comm, kTag, std::span(x));
}

TEST(CollectiveTime, ScatterAndGatherAreTheirAnalyticCosts) {
  for (const int p : {1, 2, 3, 4, 7, 8}) {
    const NetworkModel model = plain_cluster(p).network;
    const double scatter = time_of(p, [](Endpoint& endpoint) {
      std::vector<float> x(kElements), scratch;
      ring_reduce_scatter(endpoint.comm(), kTag, std::span(x), scratch);
    });
    EXPECT_LE(relative(scatter, model.reduce_scatter_cost(p, kBytes).count()), 1e-12) << p;
    const double gather = time_of(p, [](Endpoint& endpoint) {
      std::vector<float> x(kElements);
      ring_all_gather(endpoint.comm(), kTag, std::span(x));
    });
    EXPECT_LE(relative(gather, model.all_gather_cost(p, kBytes / p).count()), 1e-12) << p;
  }
}

// The two ways of a broadcast: one number goes down the tree, many go in slices.
TEST(CollectiveTime, BroadcastIsTheFasterOfItsTwoWays) {
  for (const int p : {1, 2, 3, 4, 7, 8}) {
    const NetworkModel model = plain_cluster(p).network;
    const double one = time_of(p, [](Endpoint& endpoint) {
      std::vector<float> x(1);
      binomial_broadcast(endpoint.comm(), kTag, std::span(x), 0);
    });
    const double cost = model.broadcast_cost(p, sizeof(float)).count();
    EXPECT_FALSE(model.broadcast_scatters(p, sizeof(float))) << p;
    EXPECT_LE(one, cost * (1 + 1e-12)) << p;
    if ((p & (p - 1)) == 0) {
      EXPECT_LE(relative(one, cost), 1e-12) << p;
    }
    if (p < 3) continue;
    const double bytes = kMany * sizeof(float);
    EXPECT_TRUE(model.broadcast_scatters(p, bytes)) << p;
    const double many = time_of(p, [p](Endpoint& endpoint) { broadcast_in_slices(endpoint, p); });
    EXPECT_LE(relative(many, (model.broadcast_cost(p, bytes) + model.barrier_cost(p)).count()),
              1e-12)
        << p;
  }
}

}  // namespace
}  // namespace hetsgd
