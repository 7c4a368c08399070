// Comm::exchange, the same on every cluster.
#include <numeric>

#include "cluster/conformance.hpp"
#include "cluster/random_calls.hpp"

namespace hetsgd::conformance {
namespace {

using testing::HasSubstr;

class ExchangeOn : public OnEveryCluster {};
INSTANTIATE_TEST_SUITE_P(All, ExchangeOn, testing::ValuesIn(clusters_to_test()),
                         [](const auto& test) { return test.param; });
// Errors carry the rank's number under mpirun, and need other sizes: mpi_errors_test.cpp.
class ExchangeErrorsOn : public OnEveryCluster {};
INSTANTIATE_TEST_SUITE_P(All, ExchangeErrorsOn, testing::ValuesIn(local_cluster_names()),
                         [](const auto& test) { return test.param; });

// Workers of a test that goes well with any number of its kind.
int workers(const std::string& cluster, int wanted) {
  return cluster == "mpi" ? mpi_rank().size : wanted;
}

std::vector<float> numbers(int rank, std::size_t n) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), static_cast<float>(1000 * rank));
  return x;
}

// Around what goes under the mutex, in one message, and in several.
TEST_P(ExchangeOn, SwapsVectorsOfAnyLength) {
  constexpr std::size_t kPiece = kExchangePiece / sizeof(float);
  const std::vector<std::pair<std::size_t, std::size_t>> lengths{
      {0, 0}, {0, 5}, {7, 0}, {1, 1}, {256, 257}, {300, 1}, {kPiece, kPiece + 1}, {11 * kPiece, 3}};
  const int p = workers(cluster(), 4);
  if (p % 2 != 0) GTEST_SKIP() << "needs pairs";
  run_on(cluster(), p, [&](Node& node) {
    const int r = node.rank(), peer = r ^ 1;
    for (const auto& [even, odd] : lengths) {
      const std::vector<float> out = numbers(r, r % 2 == 0 ? even : odd);
      std::vector<float> in(r % 2 == 0 ? odd : even, -1.0F);
      node.comm().exchange<float>(peer, 3, out, in);
      EXPECT_EQ(in, numbers(peer, in.size()));
    }
  });
}

// With several partners one after the other, in several groups, tags crossed by companions.
TEST_P(ExchangeOn, KeepsTagsGroupsAndOrderApart) {
  const int p = workers(cluster(), 8);
  if ((p & (p - 1)) != 0) GTEST_SKIP() << "needs a power of two";
  run_on(cluster(), p, [](Node& node) {
    std::shared_ptr<Comm> own = node.comm().split(0, node.rank());
    const auto sweep = [](Comm& comm, int tag, std::size_t n) {
      for (int round = 0; round < 20; ++round) {
        for (int distance = 1; distance < comm.size(); distance *= 2) {
          const int peer = comm.rank() ^ distance;
          const std::vector<float> out = numbers(comm.rank() + round + tag, n);
          std::vector<float> in(n);
          comm.exchange<float>(peer, tag, out, in);
          ASSERT_EQ(in, numbers(peer + round + tag, n));
        }
      }
    };
    node.companion("sweep", [own, sweep](Node&) { sweep(*own, 1, 1500); });
    sweep(node.comm(), 1, 100);
    const auto half = node.comm().split(node.rank() % 2, node.rank());
    sweep(*half, 2, 3000);
  });
}

TEST_P(ExchangeOn, CountsItsBytesEachWay) {
  if (workers(cluster(), 2) != 2) GTEST_SKIP() << "needs two";
  const ClusterReport report = run_on(cluster(), 2, [](Node& node) {
    const std::vector<float> out(node.rank() == 0 ? 1000 : 500);
    std::vector<float> in(node.rank() == 0 ? 500 : 1000);
    node.comm().exchange<float>(1 - node.rank(), 0, out, in, Traffic::gradients);
  });
  if (!is_here(cluster(), 0)) return;
  const auto kind = static_cast<std::size_t>(Traffic::gradients);
  EXPECT_EQ(report.workers[0].ledger.bytes_sent[kind], 4000U);
  EXPECT_EQ(report.workers[0].ledger.bytes_received[kind], 2000U);
  EXPECT_EQ(report.workers[1].ledger.bytes_sent[kind], 2000U);
  EXPECT_EQ(report.workers[1].ledger.bytes_received[kind], 4000U);
}

TEST_P(ExchangeErrorsOn, LengthsThatDifferAreFoundOut) {
  const std::string text = failure_of<CheckFailure>(cluster(), 2, [](Node& node) {
    const std::vector<float> out(1000);
    std::vector<float> in(node.rank() == 0 ? 1000 : 999);
    node.comm().exchange<float>(1 - node.rank(), 4, out, in);
  });
  EXPECT_THAT(text, HasSubstr("tag 4"));
}

TEST_P(ExchangeErrorsOn, DeadlockWithoutAPartner) {
  const std::string text = failure_of<Error>(cluster(), 3, [](Node& node) {
    std::vector<float> x(10), y(10);
    const int peer = (node.rank() + 1) % 3;  // around in a circle: nobody's partner calls him
    node.comm().exchange<float>(peer, 5, x, y);
  });
  EXPECT_THAT(text, HasSubstr("deadlock: no process can go on"));
  EXPECT_THAT(text, HasSubstr("tag 5"));
}

TEST_P(ExchangeErrorsOn, AnErrorEndsWhoWaitsInOne) {
  const std::string text = failure_of<std::runtime_error>(cluster(), 2, [](Node& node) {
    std::vector<float> x(100'000), y(100'000);
    if (node.rank() == 1) throw std::runtime_error("rank 1 gives up");
    node.comm().exchange<float>(1, 0, x, y);
  });
  EXPECT_EQ(text, "rank 1 gives up");
}

}  // namespace
}  // namespace hetsgd::conformance
