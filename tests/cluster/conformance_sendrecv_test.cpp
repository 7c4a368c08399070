// Comm::sendrecv, the same on every cluster.

#include "cluster/conformance.hpp"

namespace hetsgd::conformance {
namespace {

class SendrecvOn : public OnEveryCluster {};
HETSGD_ON_EVERY_CLUSTER(SendrecvOn);
class SendrecvErrorsOf : public ErrorsOfRanks {};
HETSGD_ON_EVERY_CLUSTER(SendrecvErrorsOf);

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
  const int p = size_to_test(4);
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
  const int p = size_to_test(8);
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

TEST_P(SendrecvErrorsOf, LengthsThatDifferAreFoundOut) {
  const auto text = failure<CheckFailure>([](Endpoint& endpoint) {
    if (endpoint.rank() > 1) return endpoint.comm().barrier();
    const std::vector<float> out(1000);
    std::vector<float> in(endpoint.rank() == 0 ? 1000 : 999);
    endpoint.comm().sendrecv<float>(1 - endpoint.rank(), 4, out, in);
  });
  EXPECT_THAT(text, HasSubstr("tag 4"));
}

TEST_P(SendrecvErrorsOf, AnErrorEndsWhoWaitsInOne) {
  const auto text = failure<Error>([this](Endpoint& endpoint) {
    std::vector<float> x(300'000), y(300'000);
    if (endpoint.rank() == last_) throw runtime_failure("no partner");
    while (true) endpoint.comm().sendrecv<float>(last_, 1, x, y);
  });
  EXPECT_EQ(text, of_last("no partner"));
}

}  // namespace
}  // namespace hetsgd::conformance
