// Effects of messages and collectives on each other while they share a link, in closed form. The
// network has no latency here unless a test says so: an all_reduce of n bytes on two workers takes
// 2 (p-1)/p n/64 = n/64 s, a message of n bytes n/64 s.
#include <optional>

#include "cluster/sim_support.hpp"
#include "core/random.hpp"

namespace hetsgd::sim {
namespace {

ClusterOptions no_latency(int workers) {
  ClusterOptions options = slow_machine(workers);
  options.network.latency = options.network.server_latency = Seconds(0);
  return options;
}

void send(Comm& comm, int to, double seconds) {
  const std::vector<std::byte> data(static_cast<std::size_t>(seconds * 64));
  comm.send(to, 0, data);
}
void receive(Comm& comm, int from, double seconds) {
  std::vector<std::byte> data(static_cast<std::size_t>(seconds * 64));
  comm.receive<std::byte>(from, 0, data);
}

using Ends = std::vector<double>;

TEST(SimLink, CollectivesOfDisjointGroupsDoNotMeet) {
  EXPECT_EQ(ends(no_latency(4), {{{0, 1}, 0, 4}, {{2, 3}, 1, 4}}), (Ends{4, 5}));
}

// 2 s alone, then both at half speed; at 7 the second, which began at 2 with 2.5 s, has ended, and
// the first has 8 - 2 - 2.5 = 3.5 s left.
TEST(SimLink, CollectivesOnOneLinkShareItsRate) {
  EXPECT_EQ(ends(no_latency(3), {{{0, 1}, 0, 8}, {{1, 2}, 2, 2.5}}), (Ends{10.5, 7}));
}

TEST(SimLink, EqualCollectivesOnOneLinkEndTogether) {
  EXPECT_EQ(ends(no_latency(2), {{{0, 1}, 0, 4}, {{0, 1}, 0, 4}}), (Ends{8, 8}));
}

// Three on worker 0: each a third from 0 to 6, when the first two have done 2 s; then the third
// alone.
TEST(SimLink, TheFullestLinkSetsTheSpeed) {
  EXPECT_EQ(ends(no_latency(4), {{{0, 1}, 0, 2}, {{0, 2}, 0, 2}, {{0, 3}, 0, 4}}), (Ends{6, 6, 8}));
}

// The one in the middle shares a link with each of the others: all are at half speed until it ends
// at 8. The last one has done 4 s of 5 by then and is alone from there on.
TEST(SimLink, AChainOfGroupsSharesLinkByLink) {
  EXPECT_EQ(ends(no_latency(4), {{{0, 1}, 0, 3}, {{1, 2}, 0, 4}, {{2, 3}, 0, 5}}), (Ends{6, 8, 9}));
}

// With latencies L = 2 * 0.25 and T = 1 an all_reduce takes the links for 2/3 of its time. Two of
// them run at 3/4 of their speed, and 1.5 s become 2 = 2 T.
TEST(SimLink, BytesPassWhileAnotherWaitsForItsLatencies) {
  for (const double end : ends(slow_machine(3), {{{0, 1}, 0, 1}, {{1, 2}, 0, 1}})) {
    EXPECT_NEAR(end, 2, 1e-9);
  }
}

// L = 0.5 and T = 0.125: of the 0.625 s the links are taken for 0.25 s by both together.
TEST(SimLink, ShortCollectivesDoNotSlowEachOtherDown) {
  EXPECT_EQ(ends(slow_machine(2), {{{0, 1}, 0, 0.125}, {{0, 1}, 0, 0.125}}), (Ends{0.625, 0.625}));
}

TEST(SimLink, ABarrierTakesNoLink) {
  run(slow_machine(2), [](Endpoint& endpoint) {
    const std::shared_ptr<Comm> other = endpoint.comm().split(0, 0);
    const double begin = now(endpoint);
    endpoint.background_task("barrier", [=](Endpoint& self) {
      self.sleep(1s);
      other->barrier();
      EXPECT_DOUBLE_EQ(now(self), begin + 1.25);
    });
    all_reduce(endpoint.comm(), 4);
    EXPECT_DOUBLE_EQ(now(endpoint), begin + 4.5);
  });
}

// One message of 1 s on the links of the two, at `at`, while they reduce from 0 to 4 (alone).
double end_beside_message(int from, int to, double at, Seconds latency = Seconds(0)) {
  ClusterOptions options = no_latency(4);
  options.network.latency = latency;
  double end = 0;
  run(options, [&](Endpoint& endpoint) {
    const std::shared_ptr<Comm> pair = endpoint.comm().split(endpoint.rank() < 2 ? 0 : -1, 0);
    const double begin = now(endpoint);
    if (endpoint.rank() == from || endpoint.rank() == to) {
      endpoint.background_task("message", [=](Endpoint& self) {
        if (self.rank() == from) {
          self.sleep(Seconds(at));
          send(self.comm(), to, 1);
          EXPECT_DOUBLE_EQ(now(self), begin + at + 1);  // the collective does not hold it up
        } else {
          receive(self.comm(), from, 1);
          EXPECT_DOUBLE_EQ(now(self), begin + at + latency.count() + 1);
        }
      });
    }
    if (!pair) return;
    all_reduce(*pair, 4);
    end = now(endpoint) - begin;
  });
  return end;
}

TEST(SimLink, AMessageHoldsACollectiveUpForItsTimeOnTheLink) {
  EXPECT_EQ(end_beside_message(0, 2, 1), 5);  // out of a member's link
  EXPECT_EQ(end_beside_message(3, 1, 1), 5);  // into one
  EXPECT_EQ(end_beside_message(0, 1, 1), 5);  // both at the same time
  EXPECT_EQ(end_beside_message(2, 3, 1), 4);  // elsewhere
  EXPECT_EQ(end_beside_message(0, 2, 5), 4);  // later
}

// From 1 to 2 out of the one link and, a latency of 0.25 s behind, from 1.25 to 2.25 into the other
// one: 1.25 s in all. The all_reduce itself has two latencies.
TEST(SimLink, ACollectiveStandsWhileAnyOfItsLinksIsTaken) {
  EXPECT_DOUBLE_EQ(end_beside_message(0, 1, 1, Seconds(0.25)), 4 + 0.5 + 1.25);
}

// The message begins at 0 and the collective at 0.5: it waits for the rest of 0.5 s first.
TEST(SimLink, ACollectiveBeginsBehindWhatIsOnItsLinks) {
  run(no_latency(2), [](Endpoint& endpoint) {
    if (endpoint.rank() == 0) {
      endpoint.background_task("message", [](Endpoint& self) { send(self.comm(), 1, 1); });
    } else {
      endpoint.background_task("message", [](Endpoint& self) { receive(self.comm(), 0, 1); });
    }
    endpoint.sleep(Seconds(0.5));
    all_reduce(endpoint.comm(), 4);
    EXPECT_EQ(now(endpoint), 0.5 + 0.5 + 4);
  });
}

// Two collectives of 4 s, at half speed each, and at 2 a message of 1 s on a link of the first. The
// second continues at half speed meanwhile and ends at 8. The first has 0.5 s left by then, and the
// link alone.
TEST(SimLink, WhoStandsStillKeepsItsShare) {
  double end_of_a = 0, end_of_b = 0;
  run(no_latency(4), [&](Endpoint& endpoint) {
    const int rank = endpoint.rank();
    const std::shared_ptr<Comm> a = endpoint.comm().split(rank < 2 ? 0 : -1, 0);
    const std::shared_ptr<Comm> b = endpoint.comm().split(rank == 1 || rank == 2 ? 0 : -1, 0);
    const double begin = now(endpoint);
    if (rank == 0) {
      endpoint.background_task("message", [](Endpoint& self) {
        self.sleep(2s);
        send(self.comm(), 3, 1);
      });
    }
    if (rank == 3) receive(endpoint.comm(), 0, 1);
    if (b) {
      endpoint.background_task("b", [=, &end_of_b](Endpoint& self) {
        all_reduce(*b, 4);
        end_of_b = now(self) - begin;
      });
    }
    if (a) {
      all_reduce(*a, 4);
      end_of_a = now(endpoint) - begin;
    }
  });
  EXPECT_EQ(end_of_b, 8);
  EXPECT_EQ(end_of_a, 8.5);
}

// 64 bytes take 1 s of the worker's link and 2 s of the services', each way: the request is on the
// worker's link from 0 to 1, the reply from 2 to 3.
TEST(SimLink, RequestsAndRepliesHoldCollectivesUp) {
  run(no_latency(2), [](Endpoint& endpoint) {
    auto echo = serve<Echo>(endpoint, "echo");
    const std::vector<float> x(15);
    std::vector<float> y(15);
    std::optional<PendingReply<Number>> reply;
    if (endpoint.rank() == 0) reply.emplace(echo.post({7}, x, y));
    all_reduce(endpoint.comm(), 4);
    EXPECT_EQ(now(endpoint), 6);
    if (reply) {
      EXPECT_EQ(reply->wait().number, 7);
    }
  });
}

// Two workers put 2 n bytes on the bus: 4 s each.
TEST(SimLink, OnASharedBusEverybodyMeets) {
  ClusterOptions options = no_latency(4);
  options.network.shared_bus = true;
  EXPECT_EQ(ends(options, {{{0, 1}, 0, 2}, {{2, 3}, 0, 2}}), (Ends{8, 8}));
  EXPECT_EQ(ends(options, {{{0, 1}, 0, 2}, {{2, 3}, 4, 2}}), (Ends{4, 8}));
}

// 2 p n / 32 = 8 s each over the services' link, which is all that the groups share.
TEST(SimLink, StarsMeetAtTheServicesLink) {
  ClusterOptions options = no_latency(4);
  options.network.all_reduce = Topology::star;
  EXPECT_EQ(ends(options, {{{0, 1}, 0, 1}}), (Ends{8}));
  EXPECT_EQ(ends(options, {{{0, 1}, 0, 1}, {{2, 3}, 0, 1}}), (Ends{16, 16}));
}

// The rule of transfer.hpp from one change to the next, everything worked out anew each time:
// when collectives of two workers with latencies of 0.5 s in all end.
std::vector<double> ends_by_the_rule(int workers, const std::vector<Meeting>& pairs) {
  std::vector<double> end(pairs.size(), -1), left;
  for (const Meeting& pair : pairs) left.push_back(0.5 + pair.seconds);
  const auto share = [&](std::size_t i) { return pairs[i].seconds / (0.5 + pairs[i].seconds); };
  for (double now = 0;;) {
    const auto active = [&](std::size_t i) { return pairs[i].at <= now && end[i] < 0; };
    std::vector<double> load(static_cast<std::size_t>(workers));
    const auto load_of = [&](int worker) -> double& {
      return load[static_cast<std::size_t>(worker)];
    };
    double next = 1e9;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (pairs[i].at > now) next = std::min(next, pairs[i].at);
      for (const int worker : pairs[i].workers) load_of(worker) += active(i) ? share(i) : 0;
    }
    const auto speed = [&](std::size_t i) {
      return 1 / std::max({1.0, load_of(pairs[i].workers[0]), load_of(pairs[i].workers[1])});
    };
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (active(i)) next = std::min(next, now + left[i] / speed(i));
    }
    if (next == 1e9) return end;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (!active(i)) continue;
      left[i] -= (next - now) * speed(i);
      if (left[i] < 1e-9) end[i] = next;
    }
    now = next;
  }
}

TEST(SimLink, ManyCollectivesFollowTheRule) {
  constexpr int kWorkers = 6;
  RandomStream random(3, Purpose::test, 0);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<Meeting> pairs;
    for (int i = 0; i < 25; ++i) {
      const int first = static_cast<int>(random.below(kWorkers));
      const int second = (first + 1 + static_cast<int>(random.below(kWorkers - 1))) % kWorkers;
      pairs.push_back(
          {{first, second}, random.uniform(0, 20), static_cast<double>(1 + random.below(64)) / 16});
    }
    const std::vector<double> found = ends(slow_machine(kWorkers), pairs);
    const std::vector<double> expected = ends_by_the_rule(kWorkers, pairs);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-6) << trial << " " << i;
    }
  }
}

}  // namespace
}  // namespace hetsgd::sim
