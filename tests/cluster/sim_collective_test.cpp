// Cost of collectives, in closed form, and the data that they move.

#include "cluster/sim_support.hpp"

namespace hetsgd::sim {
namespace {

struct Case {
  std::string name;
  std::function<void(Comm&)> call;
  std::function<Seconds(const NetworkModel&)> cost;
  std::function<std::pair<double, double>(int rank)> bytes;  // sent, received: gradients
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all_cases{
      {"all_reduce",
       [](Comm& comm) {
         std::vector<float> v(40);
         comm.all_reduce(std::span(v), ReduceOp::sum, Traffic::gradients);
       },
       [](const NetworkModel& m) { return m.all_reduce_cost(4, 160); },
       [](int) {
         return std::pair{240.0, 240.0};
       }},
      {"short broadcast",
       [](Comm& comm) {
         std::vector<float> v(4);
         comm.broadcast(std::span(v), 1, Traffic::gradients);
       },
       [](const NetworkModel&) { return Seconds(2 * (0.25 + 16 / 64.0)); },
       // Binomial from 1: 1 sends to 3 and 2, 3 sends to 0.
       [](int rank) {
         return std::pair{rank == 1 ? 32.0 : rank == 3 ? 16.0 : 0.0, rank == 1 ? 0.0 : 16.0};
       }},
      {"long broadcast",
       [](Comm& comm) {
         std::vector<float> v(40);
         comm.broadcast(std::span(v), 1, Traffic::gradients);
       },
       [](const NetworkModel&) { return Seconds(4 * 0.25 + 2 * 0.75 * 160 / 64); },
       // A slice of 40 bytes to each other rank, then all pass on three.
       [](int rank) {
         return std::pair{rank == 1 ? 240.0 : 120.0, rank == 1 ? 120.0 : 160.0};
       }},
      {"all_gather",
       [](Comm& comm) {
         std::vector<float> v(40), every(160);
         comm.all_gather(std::span<const float>(v), std::span(every), Traffic::gradients);
       },
       [](const NetworkModel& m) { return m.all_gather_cost(4, 160); },
       [](int) {
         return std::pair{480.0, 480.0};
       }},
      {"agree",
       [](Comm& comm) {
         comm.agree(
             std::array<float, 40>{}, [](auto) { return 0; }, Traffic::gradients);
       },
       [](const NetworkModel& m) { return m.all_gather_cost(4, 160); },
       [](int) {
         return std::pair{480.0, 480.0};
       }},
      {"reduce_scatter",
       [](Comm& comm) {
         std::vector<float> v(40);
         comm.reduce_scatter(std::span(v), ReduceOp::sum, Traffic::gradients);
       },
       [](const NetworkModel& m) { return m.reduce_scatter_cost(4, 160); },
       [](int) {
         return std::pair{120.0, 120.0};
       }},
      // Rank r sends 40 numbers to rank r + 1 and 10 to rank r + 2, and 1,000 to itself.
      {"all_to_all",
       [](Comm& comm) {
         const auto count = [](int from, int to) -> std::size_t {
           return std::array{1000U, 40U, 10U, 0U}[static_cast<std::size_t>((to - from + 4) % 4)];
         };
         std::vector<std::size_t> out, in;
         for (int r = 0; r < 4; ++r) {
           out.push_back(count(comm.rank(), r));
           in.push_back(count(r, comm.rank()));
         }
         std::vector<float> v(1050), w(1050);
         comm.all_to_all<float>(v, out, w, in, Traffic::gradients);
       },
       [](const NetworkModel& m) { return m.all_to_all_cost(4, 200); },
       [](int) {
         return std::pair{200.0, 200.0};
       }},
      {"barrier", [](Comm& comm) { comm.barrier(); },
       [](const NetworkModel& m) { return m.barrier_cost(4); },
       [](int) {
         return std::pair{0.0, 0.0};
       }},
  };
  return all_cases;
}

TEST(SimCollective, EndsForAllWhenTheLastArrivalHasPaidTheCost) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const ClusterOptions options = slow_machine(4);
    const double cost = one.cost(options.network).count();
    const auto report = run(options, [&](Endpoint& endpoint) {
      endpoint.sleep(Seconds(endpoint.rank()));
      one.call(endpoint.comm());
      EXPECT_EQ(now(endpoint), 3 + cost);
    });
    for (int r = 0; r < 4; ++r) {
      EXPECT_EQ(breakdown(report, r).wait.count(), 3.0);  // asleep or for the last
      EXPECT_DOUBLE_EQ(breakdown(report, r).communicate.count(), cost);
      EXPECT_EQ(breakdown(report, r).bytes_sent[kGradients], one.bytes(r).first);
      EXPECT_EQ(breakdown(report, r).bytes_received[kGradients], one.bytes(r).second);
    }
  }
}

TEST(SimCollective, ChargesFullSize) {
  ClusterOptions options = slow_machine(4);
  options.payload_scale = 10;
  run(options, [&](Endpoint& endpoint) {
    std::vector<float> v(40);
    endpoint.comm().all_reduce(std::span(v), ReduceOp::sum, Traffic::parameters);
    const double scaled = options.network.all_reduce_cost(4, 1600).count();
    EXPECT_EQ(now(endpoint), scaled);
    endpoint.comm().all_reduce(std::span(v), ReduceOp::sum, Traffic::control);
    EXPECT_DOUBLE_EQ(now(endpoint), scaled + options.network.all_reduce_cost(4, 160).count());
  });
}

// The busiest rank sets the time; on a shared bus all that travels does.
TEST(SimCollective, AllToAllTakesTheTimeOfTheBusiestRank) {
  for (const bool shared_bus : {false, true}) {
    ClusterOptions options = slow_machine(3);
    options.network.shared_bus = shared_bus;
    run(options, [&](Endpoint& endpoint) {
      // 0 sends 10 bytes to 1 and 20 to 2; 1 sends 5 to 2.
      const std::size_t counts[3][3] = {{0, 10, 20}, {0, 0, 5}, {0, 0, 0}};
      const auto r = static_cast<std::size_t>(endpoint.rank());
      std::vector<std::size_t> in;
      for (const auto& row : counts) in.push_back(row[r]);
      const std::vector<char> send(AllToAll::sum(counts[r]));
      std::vector<char> receive(AllToAll::sum(in));
      endpoint.comm().all_to_all<char>(send, counts[r], receive, in);
      const double bytes = shared_bus ? 35 : 30;
      EXPECT_DOUBLE_EQ(now(endpoint),
                       options.network.latency.count() + bytes / options.network.bytes_per_s);
    });
  }
}

// A collective sees all changes that a rank makes to its buffer before it arrives, in any order of
// arrival.
TEST(SimCollective, MovesDataAtTheLastArrival) {
  std::vector<float> shared{1};
  run(slow_machine(2), [&](Endpoint& endpoint) {
    if (endpoint.rank() == 1) {
      endpoint.sleep(1s);
      shared[0] = 5;  // rank 0 has arrived, but its buffer is its own until rank 1 comes
    }
    std::vector<float> one{2};
    endpoint.comm().all_reduce(endpoint.rank() == 0 ? std::span(shared) : std::span(one));
    EXPECT_EQ(one[0] + shared[0], endpoint.rank() == 0 ? 9 : 14);
  });
}

// One worker makes what all know alike, and all have the same object, to the end of the last one's
// use: P numbers for P workers, not P^2.
TEST(SimCollective, WhatAllAgreeOnIsMadeOnceAndShared) {
  constexpr int kRanks = 100;
  using Numbers = std::vector<int>;
  int made = 0;
  std::vector<std::shared_ptr<const Numbers>> of(kRanks);
  run(slow_machine(kRanks), [&](Endpoint& endpoint) {
    for (int round = 1; round <= 3; ++round) {
      const auto all =
          endpoint.comm().agree(round * endpoint.rank(), [&](std::span<const int> numbers) {
            ++made;
            return Numbers(numbers.begin(), numbers.end());
          });
      EXPECT_EQ(made, round);
      ASSERT_EQ(all->size(), kRanks);
      for (int r = 0; r < kRanks; ++r) EXPECT_EQ((*all)[static_cast<std::size_t>(r)], round * r);
      of[static_cast<std::size_t>(endpoint.rank())] = all;
    }
  });
  for (const auto& one : of) EXPECT_EQ(one, of.front());
}

TEST(SimCollective, WhatFailsToBeMadeFailsTheRun) {
  EXPECT_EQ(failure_of<CheckFailure>(slow_machine(3),
                                     [](Endpoint& endpoint) {
                                       endpoint.comm().agree(endpoint.rank(), [](auto) -> int {
                                         throw CheckFailure("no agreement");
                                       });
                                     }),
            "no agreement");
}

TEST(SimCollective, BackgroundTaskOnTheWorkersCommIsACheckFailure) {
  const auto text = failure_of<CheckFailure>(slow_machine(2), [](Endpoint& endpoint) {
    if (endpoint.rank() == 1) {
      endpoint.background_task("comm", [](Endpoint& self) {
        self.sleep(1s);
        self.comm().barrier();
      });
      endpoint.comm().barrier();
    } else {
      endpoint.sleep(5s);
      endpoint.comm().barrier();
    }
  });
  EXPECT_EQ(
      text,
      "rank 1 calls barrier in background task \"comm\" of worker 1 while its barrier goes on in "
      "worker 1: give "
      "a background task a Comm of its own (split)");
}

}  // namespace
}  // namespace hetsgd::sim
