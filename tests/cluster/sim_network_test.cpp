// Workers that differ: nodes of several, nodes whose links are slower, devices; in closed form.

#include "cluster/sim_support.hpp"

namespace hetsgd::sim {
namespace {

// Inside of a node 1/8 s and 128 bytes/s, between nodes 1/4 s and 64 bytes/s.
const InnerNetwork kInside{.name = "inside", .latency = Seconds(0.125), .bytes_per_s = 128};

ClusterOptions machine_of(int workers, std::vector<NetworkNode> nodes) {
  ClusterOptions options = slow_machine(workers);
  options.network.nodes = std::move(nodes);
  return options;
}

ClusterOptions pairs(int workers) {
  return machine_of(workers, {{.workers = 2, .inside = kInside}});
}

void without_latencies(ClusterOptions& options) {
  options.network.latency = options.network.server_latency = Seconds(0);
  for (NetworkNode& node : options.network.nodes) {
    if (node.inside) node.inside->latency = Seconds(0);
  }
}

// When 64 bytes that `from` sends at 0 have left, and are there.
struct Trip {
  double left = 0, arrived = 0;
  bool operator==(const Trip&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Trip& trip) {
  return out << trip.left << " " << trip.arrived;
}

// One message for each pair of workers, all sent at 0; no worker is in two pairs.
std::vector<Trip> trips(const ClusterOptions& options,
                        const std::vector<std::pair<int, int>>& pairs) {
  std::vector<Trip> trips(pairs.size());
  run(options, [&](Endpoint& endpoint) {
    std::vector<std::byte> data(64);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const auto [from, to] = pairs[i];
      if (endpoint.rank() == from) {
        endpoint.comm().send(to, 0, data);
        trips[i].left = now(endpoint);
      } else if (endpoint.rank() == to) {
        endpoint.comm().receive<std::byte>(from, 0, data);
        trips[i].arrived = now(endpoint);
      }
    }
  });
  return trips;
}

using Trips = std::vector<Trip>;

TEST(SimNodes, MessagesOfANodeStayInside) {
  EXPECT_EQ(trips(pairs(4), {{0, 1}, {3, 2}}), (Trips{{0.5, 0.625}, {0.5, 0.625}}));
}

TEST(SimNodes, WorkersOfANodeShareItsLink) {
  EXPECT_EQ(trips(pairs(4), {{0, 2}, {1, 3}}), (Trips{{1, 1.25}, {2, 2.25}}));
  EXPECT_EQ(trips(pairs(4), {{0, 2}, {3, 1}}), (Trips{{1, 1.25}, {1, 1.25}}));  // full duplex
}

TEST(SimNodes, ABusInsideCarriesOneMessageAtATime) {
  InnerNetwork bus = kInside;
  bus.shared_bus = true;
  EXPECT_EQ(trips(machine_of(4, {{.workers = 4, .inside = bus}}), {{0, 1}, {2, 3}}),
            (Trips{{0.5, 0.625}, {1, 1.125}}));
}

// Worker 1 has 16 bytes/s: 64 bytes take 4 s of its link and 1 s of the other one.
TEST(SimNodes, TheSlowerLinkSetsTheTime) {
  const ClusterOptions options = machine_of(3, {{}, {.bytes_per_s = 16}, {}});
  EXPECT_EQ(trips(options, {{0, 1}}), (Trips{{1, 4.25}}));
  EXPECT_EQ(trips(options, {{1, 0}}), (Trips{{4, 4.25}}));
  EXPECT_EQ(trips(options, {{0, 2}}), (Trips{{1, 1.25}}));
}

TEST(SimNodes, TheLongerLatencyCounts) {
  const ClusterOptions options = machine_of(3, {{}, {.latency = Seconds(2)}, {}});
  EXPECT_EQ(trips(options, {{0, 1}}), (Trips{{1, 3}}));
  EXPECT_EQ(trips(options, {{1, 2}}), (Trips{{1, 3}}));
  EXPECT_EQ(trips(options, {{2, 0}}), (Trips{{1, 1.25}}));
}

// Two nodes of one worker, then nodes of two: {0} {1} {2, 3} {4, 5} {6}.
TEST(SimNodes, AreInTheOrderOfRanksAndTheLastRepeats) {
  const ClusterOptions options =
      machine_of(7, {{.times = 2}, {.times = 1, .workers = 2, .inside = kInside}});
  EXPECT_EQ(trips(options, {{0, 1}, {2, 3}, {4, 5}}),
            (Trips{{1, 1.25}, {0.5, 0.625}, {0.5, 0.625}}));
  EXPECT_EQ(trips(options, {{1, 2}, {3, 4}, {5, 6}}), (Trips{{1, 1.25}, {1, 1.25}, {1, 1.25}}));
}

// 4 bytes: 1/16 s or 1/4 s of the worker's link, 1/8 s of the services', one behind the other each
// way; latencies of 1/8 s, of the far worker 2 s.
TEST(SimNodes, ServicesAreBehindTheNodesLink) {
  const auto options = machine_of(3, {{}, {.bytes_per_s = 16}, {.latency = Seconds(2)}});
  for (int caller = 0; caller < 3; ++caller) {
    run(options, [&](Endpoint& endpoint) {
      auto service = serve<Echo>(endpoint, "echo");
      if (endpoint.rank() != caller) return;
      service.call({1});
      EXPECT_EQ(now(endpoint), caller == 0   ? 2 * (0.125 + 0.125)
                               : caller == 1 ? 2 * (0.125 + 0.25)
                                             : 2 * (2 + 0.125));
    });
  }
}

// When an all_reduce of `bytes` among these workers ends, which begins at 0.
double all_reduce_s(const ClusterOptions& options, std::size_t bytes, int first, int last) {
  double end = 0;
  run(options, [&](Endpoint& endpoint) {
    const bool member = endpoint.rank() >= first && endpoint.rank() <= last;
    const auto group = endpoint.comm().split(member ? 0 : -1, 0);
    if (!group) return;
    const double begin = now(endpoint);
    std::vector<float> v(bytes / sizeof(float));
    group->all_reduce(std::span(v));
    end = now(endpoint) - begin;
  });
  return end;
}

// A ring: 2 (p-1) (latency + n / (p B)).
TEST(SimNodes, ACollectiveTakesItsMembersSlowestLink) {
  const auto ring = [](int p, double latency, double bytes_per_s) {
    return 2 * (p - 1) * (latency + 256 / (p * bytes_per_s));
  };
  EXPECT_DOUBLE_EQ(all_reduce_s(pairs(4), 256, 2, 3), ring(2, 0.125, 128));
  EXPECT_DOUBLE_EQ(all_reduce_s(pairs(4), 256, 0, 3), ring(4, 0.25, 64));
  EXPECT_DOUBLE_EQ(all_reduce_s(pairs(4), 256, 1, 2), ring(2, 0.25, 64));
  const ClusterOptions slow = machine_of(4, {{}, {.latency = Seconds(1), .bytes_per_s = 16}, {}});
  EXPECT_DOUBLE_EQ(all_reduce_s(slow, 256, 0, 3), ring(4, 1, 16));
  EXPECT_DOUBLE_EQ(all_reduce_s(slow, 256, 2, 3), ring(2, 0.25, 64));
  InnerNetwork inside = kInside;
  inside.latency = Seconds(0.5);
  inside.bytes_per_s = 32;
  const ClusterOptions slow_inside = machine_of(4, {{.workers = 2, .inside = inside}});
  EXPECT_DOUBLE_EQ(all_reduce_s(slow_inside, 256, 0, 3), ring(4, 0.5, 32));
  EXPECT_DOUBLE_EQ(all_reduce_s(slow_inside, 256, 1, 2), ring(2, 0.25, 64));
}

// Alone on the bus all hops of a step follow each other, 2 (p-1) (latency + n / B). If a ring
// continues to another node, m - 1 of its hops are on the bus, so each has the bus rate over m - 1.
TEST(SimNodes, TheHopsOfACollectiveShareABusInside) {
  InnerNetwork bus = kInside;
  bus.shared_bus = true;
  const ClusterOptions options = machine_of(4, {{.workers = 3, .inside = bus}, {}});
  EXPECT_DOUBLE_EQ(all_reduce_s(options, 256, 0, 2), 2 * 2 * (0.125 + 2));
  EXPECT_DOUBLE_EQ(all_reduce_s(options, 256, 0, 3), 2 * 3 * (0.25 + 256 / (4.0 * 64)));
  bus.bytes_per_s = 96;
  EXPECT_DOUBLE_EQ(all_reduce_s(machine_of(4, {{.workers = 3, .inside = bus}, {}}), 256, 0, 3),
                   2 * 3 * (0.25 + 256 / (4 * 48.0)));
}

// 2 (server_latency + p n / rate), the services' 32 bytes/s or what the busiest node's link has for
// each of its members.
TEST(SimNodes, AStarTakesTheServicesLinkOrThatOfANode) {
  ClusterOptions options = pairs(4);
  options.network.all_reduce = Topology::star;
  EXPECT_DOUBLE_EQ(all_reduce_s(options, 256, 0, 3), 2 * (0.125 + 4 * 256 / 32.0));
  options.network.bytes_per_s = 8;
  EXPECT_DOUBLE_EQ(all_reduce_s(options, 256, 0, 3), 2 * (0.125 + 2 * 256 / 8.0));
}

// --- nodes whose workers have links of their own

ClusterOptions linked_pairs(int workers) {
  return machine_of(workers, {{.workers = 2, .own_links = true, .inside = kInside}});
}

TEST(SimNodes, WorkersMayHaveLinksOfTheirOwn) {
  EXPECT_EQ(trips(linked_pairs(4), {{0, 2}, {1, 3}}), (Trips{{1, 1.25}, {1, 1.25}}));
  EXPECT_EQ(trips(linked_pairs(4), {{0, 1}, {3, 2}}), (Trips{{0.5, 0.625}, {0.5, 0.625}}));
}

// A message inside and one to another node leave at the same time, each on the link of its kind.
TEST(SimNodes, BytesInsideAndOutsideTravelAtTheSameTime) {
  run(linked_pairs(4), [](Endpoint& endpoint) {
    const std::vector<std::byte> data(64);
    std::vector<std::byte> room(64);
    if (endpoint.rank() == 0) {
      endpoint.comm().post(1, 0, data);
      endpoint.comm().post(2, 0, data);
      endpoint.comm().post(3, 0, data);
    } else {
      endpoint.comm().receive<std::byte>(0, 0, room);
      const double expected[] = {0, 0.625, 1.25, 2.25};
      EXPECT_EQ(now(endpoint), expected[endpoint.rank()]);
    }
  });
}

// Two nodes of two: 2 (m-1)(l_n + n/(m B_n)) + 2 (N-1)(l + n/(m N B)); a group with one member in
// each node has only the second part, one inside of a node is a ring there.
TEST(SimNodes, ATwoLevelAllReduceInClosedForm) {
  ClusterOptions options = linked_pairs(4);
  options.network.all_reduce = Topology::two_level;
  EXPECT_DOUBLE_EQ(all_reduce_s(options, 256, 0, 3),
                   2 * (0.125 + 256 / (2 * 128.0)) + 2 * (0.25 + 256 / (4 * 64.0)));
  EXPECT_DOUBLE_EQ(all_reduce_s(options, 256, 1, 2), 2 * (0.25 + 256 / (2 * 64.0)));
  EXPECT_DOUBLE_EQ(all_reduce_s(options, 256, 2, 3), 2 * (0.125 + 256 / (2 * 128.0)));
  // Three members in two nodes are not equally many: a ring at the slowest link.
  EXPECT_DOUBLE_EQ(all_reduce_s(options, 192, 0, 2), 4 * (0.25 + 192 / (3 * 64.0)));
  options = linked_pairs(6);
  options.network.all_reduce = Topology::two_level;
  EXPECT_DOUBLE_EQ(all_reduce_s(options, 384, 0, 5),
                   2 * (0.125 + 384 / (2 * 128.0)) + 4 * (0.25 + 384 / (6 * 64.0)));
}

// Two nodes of two, 64 bytes for each: 64 stay inside (1/8 + 1/2 s), 128 leave (1/4 + 2 s). With
// 1,024 inside these take longer.
TEST(SimNodes, AnAllToAllTakesTheLaterOfTheTwoLevels) {
  const auto seconds = [](std::size_t inside_bytes) {
    double end = 0;
    run(linked_pairs(4), [&](Endpoint& endpoint) {
      std::vector<std::size_t> counts(4, 64);
      counts[static_cast<std::size_t>(endpoint.rank() ^ 1)] = inside_bytes;
      const std::vector<std::byte> send(AllToAll::sum(counts));
      std::vector<std::byte> receive(send.size());
      endpoint.comm().all_to_all<std::byte>(send, counts, receive, counts);
      end = now(endpoint);
    });
    return end;
  };
  EXPECT_DOUBLE_EQ(seconds(64), 0.25 + 128 / 64.0);
  EXPECT_DOUBLE_EQ(seconds(1024), 0.125 + 1024 / 128.0);
}

// Two all_reduces of 256 bytes that begin together.
std::vector<double> ends_of_two(const ClusterOptions& options, const std::vector<int>& first,
                                const std::vector<int>& second) {
  return ends(options, {{first, 0, 4}, {second, 0, 4}});
}

using Two = std::vector<double>;

// An all_reduce of two workers without latencies: 256 / 64 = 4 s between nodes, 256 / 128 = 2 s
// inside.
TEST(SimNodes, CollectivesMeetOnTheLinksThatTheyShare) {
  ClusterOptions options = pairs(4);
  without_latencies(options);
  EXPECT_EQ(ends_of_two(options, {0, 1}, {2, 3}), (Two{2, 2}));
  EXPECT_EQ(ends_of_two(options, {0, 2}, {1, 3}), (Two{8, 8}));  // both nodes' links
  EXPECT_EQ(ends_of_two(options, {0, 1}, {0, 2}), (Two{2, 4}));  // inside, and outside
}

// All four take 2 * 3 * 256 / (4 * 64) = 6 s and half of the bandwidth inside, a pair takes all of
// it. Both run at 2/3 of their speed until the pair ends at 3; 2 s of the other are done by then.
TEST(SimNodes, AFastLinkIsTakenInPart) {
  ClusterOptions options = pairs(4);
  without_latencies(options);
  const Two found = ends_of_two(options, {0, 1}, {0, 1, 2, 3});
  EXPECT_NEAR(found[0], 3, 1e-9);
  EXPECT_NEAR(found[1], 7, 1e-9);
}

TEST(SimProfiles, EveryWorkerHasItsOwn) {
  ClusterOptions options = slow_machine(3);
  options.profiles.push_back(options.profiles.front());
  options.profiles[1].name = "fast";
  options.profiles[1].launch_overhead_s = 0.25;
  options.speed = {1, 1, 0.5};
  const auto report = run(options, [](Endpoint& endpoint) {
    endpoint.compute({.operations = 0, .bytes = 0, .launches = 2}, ComputeKind::step, nothing);
    EXPECT_EQ(now(endpoint), endpoint.rank() == 1 ? 0.5 : 1.0);  // the last one at half speed
  });
  const std::string devices[] = {"slow", "fast", "fast x 0.5"},
                    profiles[] = {"slow", "fast", "fast"};
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(report.workers[r].device, devices[r]);
    EXPECT_EQ(report.workers[r].profile, profiles[r]);
  }
}

}  // namespace
}  // namespace hetsgd::sim
