// Promises of the mpi cluster beyond the conformance suite. Every rank runs every test.
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "cluster/conformance.hpp"
#include "support/failure.hpp"

namespace hetsgd::mpi {
namespace {

using conformance::options_for;
using conformance::run_on;

ProcessGroup& ranks() { return processes_of("mpi"); }
int size() { return ranks().size(); }

ClusterReport run(const std::function<void(Endpoint&)>& worker) {
  return run_on("mpi", size(), worker);
}

// --- ranks and hosts -----------------------------------------------------------------------------

TEST(MpiRanks, AreThoseOfTheLauncher) {
  EXPECT_TRUE(launched());
  EXPECT_GE(ranks().place().local_rank, 0);
  EXPECT_LT(ranks().place().local_rank, ranks().place().local_size);
  EXPECT_LE(ranks().place().local_size, size());
  EXPECT_FALSE(ranks().place().host.empty());
  EXPECT_FALSE(ranks().library().empty());
}

TEST(MpiRanks, WorkersMustBeAsMany) {
  EXPECT_THAT(test::usage_error_of([] { make_cluster("mpi", options_for(size() + 1)); }),
              testing::HasSubstr(fmt::format("MPI started {} rank", size())));
}

// --- messages ------------------------------------------------------------------------------------

// Two processes of a rank send and receive long messages with one tag at the same time.
TEST(MpiMessages, OfTwoProcessesDoNotMix) {
  run([](Endpoint& endpoint) {
    const int p = endpoint.size(), next = (endpoint.rank() + 1) % p;
    const auto exchange = [p, next](Endpoint& self) {
      constexpr std::size_t kElements = 50000;
      for (int i = 0; i < 20; ++i) {
        const std::vector<int> x(kElements, 1000 * self.rank() + i);
        std::vector<int> y(kElements);
        self.comm().send(next, 3, std::span(x));
        self.comm().receive(kAnySource, 3, std::span(y));
        EXPECT_EQ(y, std::vector<int>(kElements, y[0]));
        EXPECT_EQ(y[0] / 1000, (self.rank() + p - 1) % p);
      }
    };
    endpoint.background_task("too", exchange);
    exchange(endpoint);
  });
}

// A message that a run leaves unreceived is none of the next run's.
TEST(MpiMessages, StayInTheirRun) {
  for (int i = 0; i < 3; ++i) {
    run([i](Endpoint& endpoint) {
      const int next = conformance::next_of(endpoint);
      const std::vector<int> x(30000, i);
      std::vector<int> y(x.size());
      for (int k = 0; k < 2; ++k) endpoint.comm().send(next, 4, std::span(x));
      endpoint.comm().receive(kAnySource, 4, std::span(y));
      EXPECT_EQ(y, x);
    });
  }
}

// --- clocks --------------------------------------------------------------------------------------

// Ranks of one host share a monotonic clock: where each has its zero must stay the same, however
// often the world is stopped.
TEST(MpiClock, RanksAgreeAfterManyPauses) {
  run([](Endpoint& endpoint) {
    for (int i = 0; i < 30; ++i) {
      if (i % endpoint.size() == endpoint.rank()) endpoint.while_paused([] {});
      if (i % 5 == 0) endpoint.while_paused_together([] {});
    }
    endpoint.comm().barrier();
    const auto host_s = [] {
      return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    };
    // The zero lies between what two looks at the host's clock say of it, however long another
    // program has run between them: so the ranks' intervals have an instant in common.
    const double before = host_s(), now = endpoint.now().count(), after = host_s();
    const double from_s = before - now, to_s = after - now;
    const auto p = static_cast<std::size_t>(endpoint.size());
    std::vector<double> from(p), to(p);
    endpoint.comm().all_gather(std::span(&from_s, 1), std::span(from));
    endpoint.comm().all_gather(std::span(&to_s, 1), std::span(to));
    EXPECT_LE(std::ranges::max(from), std::ranges::min(to) + 1e-6);
  });
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
      ranks().control()->send(to, 7, std::as_bytes(std::span(content)));
    }
  }
  ranks().control()->on_message(7, [inbox](int from, std::span<const std::byte> bytes) {
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

}  // namespace
}  // namespace hetsgd::mpi

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  hetsgd::processes_of("mpi");
  // A check that fails inside of a worker must not leave the other ranks waiting.
  const int failed = RUN_ALL_TESTS();
  return hetsgd::processes_of("mpi").leave(failed);
}
