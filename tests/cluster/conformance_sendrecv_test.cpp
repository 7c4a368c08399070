// Comm::sendrecv, the same on every cluster.
#include <numeric>

#include "cluster/conformance.hpp"
#include "cluster/random_calls.hpp"

namespace hetsgd::conformance {
namespace {

using testing::HasSubstr;

class SendrecvOn : public OnEveryCluster {};
INSTANTIATE_TEST_SUITE_P(All, SendrecvOn, testing::ValuesIn(clusters_to_test()),
                         [](const auto& test) { return test.param; });
// Errors carry the rank's number under mpirun, and need other sizes: mpi_errors_test.cpp.
class SendrecvErrorsOn : public OnEveryCluster {};
INSTANTIATE_TEST_SUITE_P(All, SendrecvErrorsOn, testing::ValuesIn(local_cluster_names()),
                         [](const auto& test) { return test.param; });

// Workers of a test that goes well with any number of its kind.
int workers(const std::string& cluster, int wanted) {
  ProcessGroup& processes = processes_of(cluster);
  return processes.control() == nullptr ? wanted : processes.size();
}

std::vector<float> values_of(int rank, std::size_t n) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), static_cast<float>(1000 * rank));
  return x;
}

// Lengths around the limits of a copy under the mutex, of one message, and of several.
TEST_P(SendrecvOn, SwapsVectorsOfAnyLength) {
  constexpr std::size_t kPiece = kSendrecvPiece / sizeof(float);
  const std::vector<std::pair<std::size_t, std::size_t>> lengths{
      {0, 0}, {0, 5}, {7, 0}, {1, 1}, {256, 257}, {300, 1}, {kPiece, kPiece + 1}, {11 * kPiece, 3}};
  const int p = workers(cluster(), 4);
  if (p % 2 != 0) GTEST_SKIP() << "needs pairs";
  run_on(cluster(), p, [&](Endpoint& endpoint) {
    const int r = endpoint.rank(), peer = r ^ 1;
    for (const auto& [even, odd] : lengths) {
      const std::vector<float> out = values_of(r, r % 2 == 0 ? even : odd);
      std::vector<float> in(r % 2 == 0 ? odd : even, -1.0F);
      endpoint.comm().sendrecv<float>(peer, 3, out, in);
      EXPECT_EQ(in, values_of(peer, in.size()));
    }
  });
}

// With several partners one after the other, in several groups, tags crossed by background tasks.
TEST_P(SendrecvOn, KeepsTagsGroupsAndOrderApart) {
  const int p = workers(cluster(), 8);
  if ((p & (p - 1)) != 0) GTEST_SKIP() << "needs a power of two";
  run_on(cluster(), p, [](Endpoint& endpoint) {
    std::shared_ptr<Comm> own = endpoint.comm().split(0, endpoint.rank());
    const auto sweep = [](Comm& comm, int tag, std::size_t n) {
      for (int round = 0; round < 20; ++round) {
        for (int distance = 1; distance < comm.size(); distance *= 2) {
          const int peer = comm.rank() ^ distance;
          const std::vector<float> out = values_of(comm.rank() + round + tag, n);
          std::vector<float> in(n);
          comm.sendrecv<float>(peer, tag, out, in);
          ASSERT_EQ(in, values_of(peer + round + tag, n));
        }
      }
    };
    endpoint.background_task("sweep", [own, sweep](Endpoint&) { sweep(*own, 1, 1500); });
    sweep(endpoint.comm(), 1, 100);
    const auto half = endpoint.comm().split(endpoint.rank() % 2, endpoint.rank());
    sweep(*half, 2, 3000);
  });
}

TEST_P(SendrecvOn, CountsItsBytesEachWay) {
  if (workers(cluster(), 2) != 2) GTEST_SKIP() << "needs two";
  const ClusterReport report = run_on(cluster(), 2, [](Endpoint& endpoint) {
    const std::vector<float> out(endpoint.rank() == 0 ? 1000 : 500);
    std::vector<float> in(endpoint.rank() == 0 ? 500 : 1000);
    endpoint.comm().sendrecv<float>(1 - endpoint.rank(), 0, out, in, Traffic::gradients);
  });
  if (!is_here(cluster(), 0)) return;
  const auto kind = static_cast<std::size_t>(Traffic::gradients);
  EXPECT_EQ(report.workers[0].breakdown.bytes_sent[kind], 4000U);
  EXPECT_EQ(report.workers[0].breakdown.bytes_received[kind], 2000U);
  EXPECT_EQ(report.workers[1].breakdown.bytes_sent[kind], 2000U);
  EXPECT_EQ(report.workers[1].breakdown.bytes_received[kind], 4000U);
}

TEST_P(SendrecvErrorsOn, LengthsThatDifferAreFoundOut) {
  const std::string text = failure_of<CheckFailure>(cluster(), 2, [](Endpoint& endpoint) {
    const std::vector<float> out(1000);
    std::vector<float> in(endpoint.rank() == 0 ? 1000 : 999);
    endpoint.comm().sendrecv<float>(1 - endpoint.rank(), 4, out, in);
  });
  EXPECT_THAT(text, HasSubstr("tag 4"));
}

TEST_P(SendrecvErrorsOn, DeadlockWithoutAPartner) {
  const std::string text = failure_of<Error>(cluster(), 3, [](Endpoint& endpoint) {
    std::vector<float> x(10), y(10);
    const int peer = (endpoint.rank() + 1) % 3;  // around in a circle: nobody's partner calls him
    endpoint.comm().sendrecv<float>(peer, 5, x, y);
  });
  EXPECT_THAT(text, HasSubstr("deadlock: no process can go on"));
  EXPECT_THAT(text, HasSubstr("tag 5"));
}

TEST_P(SendrecvErrorsOn, AnErrorEndsWhoWaitsInOne) {
  const std::string text = failure_of<std::runtime_error>(cluster(), 2, [](Endpoint& endpoint) {
    std::vector<float> x(100'000), y(100'000);
    if (endpoint.rank() == 1) throw std::runtime_error("rank 1 gives up");
    endpoint.comm().sendrecv<float>(1, 0, x, y);
  });
  EXPECT_EQ(text, "rank 1 gives up");
}

}  // namespace
}  // namespace hetsgd::conformance
