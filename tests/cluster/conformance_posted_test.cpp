// Comm::post, the same on every cluster.
#include "cluster/conformance.hpp"
#include "support/effort.hpp"

namespace hetsgd::conformance {
namespace {

class PostedOn : public OnEverySize {};
HETSGD_ON_EVERY_SIZE(PostedOn);

// Lengths around the limits of a head, of one piece and of several. 3 MB is longer than any buffer
// that a library provides for a message. (Sanitizers see no such library.)
constexpr std::size_t kPostedLengths[] = {
    0, 1, 250, 1000, 40'000, std::size_t{test::effort(750'000, 100'000, 100'000)}};

std::vector<std::int32_t> posted_content(int from, int to, std::size_t n, int salt) {
  std::vector<std::int32_t> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = static_cast<std::int32_t>(i) * 64 + from * 8 + to + salt;
  }
  return x;
}

// All ranks post to all, themselves included, before any rank looks at its messages. A post that
// waited for its receiver would deadlock; one that did not copy would send data that was written
// later.
TEST_P(PostedOn, AllToAllBeforeAnybodyReceives) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    Comm& comm = endpoint.comm();
    const int p = comm.size(), me = comm.rank();
    for (const std::size_t n : kPostedLengths) {
      for (int to = 0; to < p; ++to) {
        std::vector<std::int32_t> x = posted_content(me, to, n, 0);
        comm.post(to, 5, std::span(x), Traffic::rows);
        std::ranges::fill(x, -1);
      }
      comm.barrier();
      for (int from = 0; from < p; ++from) {
        std::vector<std::int32_t> x(n);
        EXPECT_EQ(comm.receive(from, 5, std::span(x)).source, from);
        EXPECT_TRUE(x == posted_content(from, me, n, 0)) << n << " from " << from;
      }
    }
  });
}

// Messages of one pair and tag arrive as sent, whichever way they were: also where the receiver
// waits already, and a long send would go straight from memory.
TEST_P(PostedOn, KeepsTheOrderWithSend) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    Comm& comm = endpoint.comm();
    const int p = comm.size(), me = comm.rank();
    const int next = (me + 1) % p, before = (me + p - 1) % p;
    constexpr std::size_t kLong = test::effort(200'000, 50'000, 50'000);
    for (int round = 0; round < 6; ++round) {
      if (me % 2 == 0) {
        const auto a = posted_content(me, next, kLong, round),
                   b = posted_content(me, next, 3, round);
        comm.post(next, 7, std::span(a));
        comm.send(next, 7, std::span(b));
        comm.post(next, 7, std::span(b));
        comm.send(next, 7, std::span(a));
      }
      if (before % 2 != 0) continue;
      for (const std::size_t n : {kLong, std::size_t{3}, std::size_t{3}, kLong}) {
        std::vector<std::int32_t> x(n);
        comm.receive(before, 7, std::span(x));
        EXPECT_TRUE(x == posted_content(before, me, n, round));
      }
    }
  });
}

}  // namespace
}  // namespace hetsgd::conformance
