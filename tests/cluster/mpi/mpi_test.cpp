// What only the mpi cluster promises, besides the conformance suite. Every rank runs every test.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>
#include <thread>

#include "cluster/conformance.hpp"
#include "cluster/random_calls.hpp"

namespace hetsgd::mpi {
namespace {

using conformance::options_for;
using conformance::run_on;

int size() { return mpi_rank().size; }
bool is_root() { return mpi_rank().rank == 0; }

ClusterReport run(const std::function<void(Node&)>& worker) {
  return run_on("mpi", size(), worker);
}

// --- who is who ----------------------------------------------------------------------------------

TEST(MpiRanks, AreThoseOfTheLauncher) {
  EXPECT_TRUE(launched_by_mpi());
  EXPECT_GE(mpi_rank().local_rank, 0);
  EXPECT_LT(mpi_rank().local_rank, mpi_rank().local_size);
  EXPECT_LE(mpi_rank().local_size, size());
  EXPECT_FALSE(mpi_rank().host.empty());
  EXPECT_FALSE(mpi_library().empty());
}

TEST(MpiRanks, WorkersMustBeAsMany) {
  try {
    make_cluster("mpi", options_for(size() + 1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), testing::HasSubstr(fmt::format("MPI started {} rank", size())));
  }
}

TEST(MpiReport, IsCompleteOnRank0) {
  const auto report = run([](Node& node) {
    node.compute({}, ComputeKind::step, [] {});
    for (int i = 0; i < node.rank(); ++i) node.compute({}, ComputeKind::step, [] {});
  });
  if (!is_root()) return;
  ASSERT_EQ(report.workers.size(), static_cast<std::size_t>(size()));
  for (int r = 0; r < size(); ++r) {
    const WorkerReport& worker = report.workers[static_cast<std::size_t>(r)];
    EXPECT_EQ(worker.rank, r);
    EXPECT_EQ(worker.ledger.steps, static_cast<std::uint64_t>(1 + r));
    EXPECT_THAT(worker.device, testing::StartsWith("cpu:1"));
    EXPECT_FALSE(worker.host.empty());
  }
}

TEST(MpiLedger, BytesAreThoseOfARing) {
  if (size() != 2) GTEST_SKIP() << "for two ranks";
  constexpr std::size_t kNumbers = 64000;
  const auto report = run([](Node& node) {
    std::vector<float> x(kNumbers), all(2 * kNumbers);
    node.comm().all_reduce(std::span(x), ReduceOp::sum, Traffic::gradients);
    node.comm().broadcast(std::span(x), 0, Traffic::parameters);
    node.comm().all_gather(std::span<const float>(x), std::span(all));
    node.comm().reduce_scatter(std::span(x));
    if (node.rank() == 0) node.comm().send(1, 0, std::span<const float>(x), Traffic::parameters);
    if (node.rank() == 1) node.comm().receive(0, 0, std::span(x));
  });
  if (!is_root()) return;
  using Bytes = std::array<std::uint64_t, 3>;  // parameters, gradients, control
  EXPECT_EQ(report.workers[0].ledger.bytes_sent, (Bytes{512000, 256000, 384000}));
  EXPECT_EQ(report.workers[0].ledger.bytes_received, (Bytes{0, 256000, 384000}));
  EXPECT_EQ(report.workers[1].ledger.bytes_sent, (Bytes{0, 256000, 384000}));
  EXPECT_EQ(report.workers[1].ledger.bytes_received, (Bytes{512000, 256000, 384000}));
}

// --- messages ------------------------------------------------------------------------------------

// Every length around the places where a message is cut: all ranks send before they receive.
TEST(MpiMessages, OfEveryFormArriveWhole) {
  run([](Node& node) {
    const int p = node.size(), next = (node.rank() + 1) % p, previous = (node.rank() + p - 1) % p;
    for (const std::size_t n : {0UL, 1UL, 3999UL, 4000UL, 4001UL, 4016UL, 20384UL, 20385UL, 65536UL,
                                1000003UL, std::size_t{16} << 20}) {
      std::vector<unsigned char> x(n), y(n);
      for (std::size_t i = 0; i < n; ++i) {
        x[i] = static_cast<unsigned char>(i * 7 + i / 251 + static_cast<std::size_t>(node.rank()));
      }
      node.comm().send(next, 1, std::span<const unsigned char>(x));
      node.comm().receive(previous, 1, std::span(y));
      for (std::size_t i = 0; i < n; ++i) {
        x[i] = static_cast<unsigned char>(i * 7 + i / 251 + static_cast<std::size_t>(previous));
      }
      EXPECT_TRUE(n == 0 || std::memcmp(x.data(), y.data(), n) == 0) << n << " bytes";
    }
  });
}

// Two processes of a rank send and receive long messages with one tag at the same time.
TEST(MpiMessages, OfTwoProcessesDoNotMix) {
  run([](Node& node) {
    const int p = node.size(), next = (node.rank() + 1) % p;
    const auto exchange = [p, next](Node& self) {
      constexpr std::size_t kNumbers = 50000;
      for (int i = 0; i < 20; ++i) {
        const std::vector<int> x(kNumbers, 1000 * self.rank() + i);
        std::vector<int> y(kNumbers);
        self.comm().send(next, 3, std::span(x));
        self.comm().receive(kAnySource, 3, std::span(y));
        EXPECT_EQ(y, std::vector<int>(kNumbers, y[0]));
        EXPECT_EQ(y[0] / 1000, (self.rank() + p - 1) % p);
      }
    };
    node.companion("too", exchange);
    exchange(node);
  });
}

// A message that a run leaves unreceived is none of the next run's.
TEST(MpiMessages, StayInTheirRun) {
  for (int i = 0; i < 3; ++i) {
    run([i](Node& node) {
      const int next = (node.rank() + 1) % node.size();
      const std::vector<int> x(30000, i);
      std::vector<int> y(x.size());
      for (int k = 0; k < 2; ++k) node.comm().send(next, 4, std::span(x));
      node.comm().receive(kAnySource, 4, std::span(y));
      EXPECT_EQ(y, x);
    });
  }
}

// --- clocks --------------------------------------------------------------------------------------

// Ranks of one host share a monotonic clock: where each has its zero must stay the same, however
// often the world is stopped.
TEST(MpiClock, RanksAgreeAfterManyFences) {
  run([](Node& node) {
    for (int i = 0; i < 30; ++i) {
      if (i % node.size() == node.rank()) node.fence([] {});
      if (i % 5 == 0) node.fence_together([] {});
    }
    node.comm().barrier();
    const auto host = std::chrono::steady_clock::now().time_since_epoch();
    const double zero = Seconds(host).count() - node.now().count();
    std::vector<double> zeros(static_cast<std::size_t>(node.size()));
    node.comm().all_gather(std::span(&zero, 1), std::span(zeros));
    const auto [min, max] = std::ranges::minmax(zeros);
    // Apart from the time between the two looks, in which another program may have run.
    EXPECT_LT(max - min, 0.02);
  });
}

TEST(MpiClock, NeverRunsBackwards) {
  run([](Node& node) {
    Seconds last = node.now();
    EXPECT_GE(last, Seconds(0));
    for (int i = 0; i < 100; ++i) {
      if (i % 10 == node.rank()) node.fence([] {});
      node.compute({}, ComputeKind::vector, [] {});
      EXPECT_GE(node.now(), last);
      last = node.now();
    }
  });
}

TEST(MpiClock, WaitIsTheTimeForOthers) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  const auto report = run([](Node& node) {
    std::vector<float> x(100000);
    node.comm().barrier();
    if (node.rank() == 0) {
      node.compute({}, ComputeKind::step, [] { std::this_thread::sleep_for(100ms); });
    }
    node.comm().all_reduce(std::span(x));
  });
  if (!is_root()) return;
  EXPECT_GE(report.workers[0].ledger.compute, 100ms);
  EXPECT_GE(report.workers[1].ledger.wait, 90ms);
  EXPECT_LT(report.workers[1].ledger.communicate, 90ms);
}

// --- control messages ----------------------------------------------------------------------------

// Kept for the whole program: handlers are never removed.
struct Inbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::vector<int>> got{
      std::vector<std::vector<int>>(static_cast<std::size_t>(size()))};
  std::size_t bytes = 0;
};

TEST(MpiControl, MessagesArriveInOrderAndWaitForTheirHandler) {
  auto* inbox = new Inbox;
  constexpr int kMessages = 100;
  for (int i = 0; i < kMessages; ++i) {
    for (int to = 0; to < size(); ++to) {
      std::vector<int> content(i % 10 == 0 ? 50000 : 1, i);
      mpi_control().send(to, 7, std::as_bytes(std::span(content)));
    }
  }
  mpi_control().on_message(7, [inbox](int from, std::span<const std::byte> bytes) {
    int i = 0;
    std::memcpy(&i, bytes.data(), sizeof i);
    const std::lock_guard guard(inbox->mutex);
    inbox->got[static_cast<std::size_t>(from)].push_back(i);
    inbox->changed.notify_all();
  });
  std::unique_lock lock(inbox->mutex);
  ASSERT_TRUE(inbox->changed.wait_for(lock, 60s, [&] {
    return std::ranges::all_of(inbox->got, [](const auto& got) { return got.size() >= kMessages; });
  }));
  std::vector<int> expected(kMessages);
  std::iota(expected.begin(), expected.end(), 0);
  for (const auto& got : inbox->got) EXPECT_EQ(got, expected);
}

// --- order under stress --------------------------------------------------------------------------

void random_run(std::uint64_t seed) {
  run([seed](Node& node) { conformance::call_at_random(node, seed, 10); });
}

TEST(MpiStress, TwoHundredRandomRunsEnd) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) random_run(seed);
}

}  // namespace
}  // namespace hetsgd::mpi

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  hetsgd::mpi_rank();
  // A check that fails inside of a worker must not leave the other ranks waiting.
  const int failed = RUN_ALL_TESTS();
  return hetsgd::leave_mpi(failed);
}
