// The scatter all_to_all: right on every cluster, and its times on sim in closed form beside those
// of the meeting; the queue of operations that makes it beside computations.
#include "collective/all_to_all.hpp"

#include "cluster/conformance.hpp"
#include "collective/operation_queue.hpp"
#include "support/plain_cluster.hpp"

namespace hetsgd {
namespace {

constexpr Exchange kExchanges[] = {Exchange::scatter, Exchange::blocking, Exchange::nonblocking};

float number(int from, int to, std::size_t i) {
  return static_cast<float>(from * 100'000 + to * 10'000) + static_cast<float>(i);
}

// One call, rank r sending `lengths(r, to)` numbers to each.
template <class Lengths>
void exchange_and_check(Exchange how, Endpoint& endpoint, Comm& comm, const Lengths& lengths) {
  std::vector<float> send, expected;
  std::vector<std::size_t> send_counts, receive_counts;
  for (int r = 0; r < comm.size(); ++r) {
    send_counts.push_back(lengths(comm.rank(), r));
    receive_counts.push_back(lengths(r, comm.rank()));
    for (std::size_t i = 0; i < send_counts.back(); ++i) send.push_back(number(comm.rank(), r, i));
    for (std::size_t i = 0; i < receive_counts.back(); ++i) {
      expected.push_back(number(r, comm.rank(), i));
    }
  }
  std::vector<float> receive(expected.size());
  exchange_parts(how, comm, endpoint.device(), 3,
                 all_to_all(std::span<const float>(send), send_counts, std::span(receive),
                            receive_counts, Traffic::rows));
  EXPECT_TRUE(receive == expected);
}

std::size_t unequal(int from, int to) {
  return static_cast<std::size_t>((from + to) % 3 == 0 ? 0 : 5 * from + 700 * to);
}

TEST(ScatterAllToAll, EveryPartArrivesOnEveryCluster) {
  for (const std::string& cluster : local_cluster_names()) {
    for (const int workers : {1, 2, 3, 7}) {
      make_cluster(cluster, plain_cluster(workers))->run([](Endpoint& endpoint) {
        for (int round = 0; round < 5; ++round) {
          for (const Exchange how : kExchanges) {
            exchange_and_check(how, endpoint, endpoint.comm(), unequal);
          }
        }
      });
    }
  }
}

// Rank 1 expects one number less of rank 0 than that one sends.
TEST(ScatterAllToAll, LengthsThatDifferAreFoundOut) {
  for (const Exchange how : kExchanges) {
    EXPECT_THROW(make_cluster("sim", plain_cluster(2))->run([&](Endpoint& endpoint) {
      const auto rank = static_cast<std::size_t>(endpoint.rank());
      const std::vector<std::size_t> send_counts = {1, 4},
                                     receive_counts = {rank == 1 ? 3U : 1U, rank == 1 ? 4U : 1U};
      const std::vector<float> send(5);
      std::vector<float> receive(receive_counts[0] + receive_counts[1]);
      exchange_parts(how, endpoint.comm(), endpoint.device(), 3,
                     all_to_all(std::span<const float>(send), send_counts, std::span(receive),
                                receive_counts, Traffic::rows));
    }),
                 CheckFailure);
  }
}

// When each of p ranks is done, of which the first comes late; parts of 4,000 bytes.
std::vector<double> ends(Exchange how, int p, double late_s) {
  std::vector<double> ends(static_cast<std::size_t>(p));
  make_cluster("sim", plain_cluster(p))->run([&](Endpoint& endpoint) {
    if (endpoint.rank() == 0) endpoint.sleep(Seconds(late_s));
    exchange_and_check(how, endpoint, endpoint.comm(), [](int, int) { return std::size_t{1000}; });
    ends[static_cast<std::size_t>(endpoint.rank())] = endpoint.now().count();
  });
  return ends;
}

constexpr double kLatency = 1e-5, kPart = 4000 / 1e9;  // plain_cluster: 10 us, 1 GB/s

// Identity: all arrive at once with equal parts. Part d leaves at d n/B and meets no other.
TEST(ScatterAllToAll, TakesAsLongAsTheMeetingWhereAllArriveAtOnce) {
  for (const int p : {2, 3, 8}) {
    const std::vector<double> scatter = ends(Exchange::scatter, p, 0);
    const std::vector<double> blocking = ends(Exchange::blocking, p, 0);
    for (std::size_t r = 0; r < scatter.size(); ++r) {
      EXPECT_NEAR(scatter[r], kLatency + (p - 1) * kPart, 1e-15);
      EXPECT_NEAR(blocking[r], scatter[r], 1e-15);
    }
  }
}

// Identity: one rank is late by D. No rank ends later than with `blocking`, where all end at D + L
// + (p-1) n/B. The late rank ends earlier, at D, as all its parts are there. The rank d places
// behind it has its part at D + L + d n/B.
TEST(ScatterAllToAll, NobodyIsLaterWhereOneIsLate) {
  constexpr double kLate = 1e-3;
  const int p = 5;
  const std::vector<double> scatter = ends(Exchange::scatter, p, kLate);
  const std::vector<double> blocking = ends(Exchange::blocking, p, kLate);
  for (int r = 0; r < p; ++r) {
    const auto i = static_cast<std::size_t>(r);
    EXPECT_NEAR(blocking[i], kLate + kLatency + (p - 1) * kPart, 1e-15);
    EXPECT_LE(scatter[i], blocking[i] + 1e-15);
    EXPECT_NEAR(scatter[i], r == 0 ? kLate : kLate + kLatency + r * kPart, 1e-15);
  }
}

// --- the queue

// Operations are made in the order given while the worker computes; all of them have run when the
// last one is complete.
TEST(OperationQueue, KeepsTheOrderOnEveryCluster) {
  for (const std::string& cluster : local_cluster_names()) {
    for (const int workers : {1, 2, 5}) {
      make_cluster(cluster, plain_cluster(workers))->run([&](Endpoint& endpoint) {
        const auto sums = std::make_shared<std::vector<float>>();
        OperationQueue queue(endpoint, "communication");
        std::vector<OperationQueue::Ticket> tickets;
        for (int i = 0; i < 20; ++i) {
          tickets.push_back(queue.add([sums, i](Endpoint& companion, Comm& comm) {
            exchange_and_check(kExchanges[i % 3], companion, comm, unequal);
            auto x = static_cast<float>(i);
            comm.all_reduce(std::span(&x, 1));
            sums->push_back(x);
          }));
          endpoint.compute({.operations = 1000}, ComputeKind::vector, [] {});
          float mine = 1;  // the worker's own collectives are matched apart
          endpoint.comm().all_reduce(std::span(&mine, 1));
          EXPECT_EQ(mine, static_cast<float>(workers));
        }
        for (const auto& ticket : tickets) {
          const CallTime time = queue.wait(ticket);
          EXPECT_LE(time.begin, time.end);
        }
        queue.wait(nullptr);
        queue.close();
        ASSERT_EQ(sums->size(), 20U);
        for (std::size_t i = 0; i < 20; ++i) {
          EXPECT_EQ((*sums)[i], static_cast<float>(i) * static_cast<float>(workers));
        }
      });
    }
  }
}

// A computation of 1 s hides operations of 0.3 and 0.5 s; the third, of 0.4 s, ends 0.2 s later.
TEST(OperationQueue, HidesWhatGoesOnBehindAComputation) {
  make_cluster("sim", plain_cluster(2))->run([](Endpoint& endpoint) {
    OperationQueue queue(endpoint, "communication");
    const double begin = endpoint.now().count();
    OperationQueue::Ticket last;
    for (const double seconds : {0.3, 0.5, 0.4}) {
      last =
          queue.add([seconds](Endpoint& companion, Comm&) { companion.sleep(Seconds(seconds)); });
    }
    endpoint.compute({.operations = 1e9}, ComputeKind::vector, [] {});
    EXPECT_NEAR(endpoint.now().count() - begin, 1.0, 1e-9);
    const CallTime time = queue.wait(last);
    EXPECT_NEAR(time.begin.count() - begin, 0.8, 1e-9);
    EXPECT_NEAR(endpoint.now().count() - begin, 1.2, 1e-9);
    queue.close();
  });
}

// An operation that fails ends the run with its error, for the worker that waits for it as well.
TEST(OperationQueue, AnErrorOfAnOperationIsTheRuns) {
  for (const std::string& cluster : local_cluster_names()) {
    EXPECT_EQ(conformance::failure_of<Error>(cluster, plain_cluster(3),
                                             [](Endpoint& endpoint) {
                                               OperationQueue queue(endpoint, "communication");
                                               const bool fails = endpoint.rank() == 1;
                                               const auto ticket =
                                                   queue.add([fails](Endpoint&, Comm& comm) {
                                                     if (fails)
                                                       throw runtime_failure("the cable is out");
                                                     comm.barrier();
                                                   });
                                               queue.wait(ticket);
                                               queue.close();
                                             }),
              "the cable is out")
        << cluster;
  }
}

}  // namespace
}  // namespace hetsgd
