// Failures that only runs of several processes have, and agreements between the processes. The
// conformance suite tests the failures that are the same on every cluster.
#include <csignal>

#include "cluster/conformance.hpp"
#include "cluster/mpi/environment.hpp"
#include "support/failure.hpp"

namespace hetsgd::mpi {
namespace {

using conformance::options_for;
using test::Failure;

bool stands_still = false;  // this rank stops before it duplicates a communicator

ProcessGroup& ranks() { return processes_of("mpi"); }
int size() { return ranks().size(); }
int last() { return size() - 1; }
std::string of_rank(int rank, const std::string& text) {
  return conformance::of_rank("mpi", rank, text);
}

// Whichever rank sees a signal first: it is a signal on every rank, not an error of that one.
TEST(MpiErrors, AnInterruptionIsOneOnEveryRank) {
  for (const int signal : {SIGTERM, 0}) {
    const auto made = make_cluster("mpi", options_for(size()));
    try {
      made->run([&](Endpoint& endpoint) {
        endpoint.comm().barrier();
        if (endpoint.rank() == last()) {
          made->abort(std::make_exception_ptr(Interrupted(signal, "from outside")));
        }
        while (true) endpoint.comm().barrier();
      });
      ADD_FAILURE() << "the run did not fail";
    } catch (const Interrupted& interrupted) {
      EXPECT_EQ(interrupted.signal(), signal);
      EXPECT_STREQ(interrupted.what(), "from outside");
    }
  }
}

// No rank sends: none can see the deadlock alone.
TEST(MpiErrors, ADeadlockAcrossRanksNamesWhoWaitsForWhat) {
  auto options = options_for(size());
  options.peer_timeout = Seconds(1);
  const auto begin = std::chrono::steady_clock::now();
  const Failure failure = test::failure_of([&] {
    make_cluster("mpi", options)->run([](Endpoint& endpoint) {
      if (endpoint.rank() == 0) endpoint.sleep(Seconds(1.5));  // long, but no wait
      float x = 0;
      endpoint.comm().receive((endpoint.rank() + 1) % endpoint.size(), 9, std::span(&x, 1));
    });
  });
  EXPECT_EQ(failure.code, ExitCode::runtime);
  EXPECT_THAT(failure.message, HasSubstr("deadlock: no rank can go on"));
  for (int r = 0; r < size(); ++r) {
    EXPECT_THAT(failure.message, HasSubstr(fmt::format("rank {}: worker {} receives", r, r)));
  }
  EXPECT_THAT(failure.hint, HasSubstr("--peer-timeout"));
  const Seconds taken = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(taken, Seconds(2.5));
  EXPECT_LT(taken, Seconds(10));
}

TEST(MpiAgreement, IsWhatRank0Says) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(ranks().agree([i] { return i + 100.0 * ranks().rank(); }), i);
  }
  struct Plan {
    int steps = 0;
    bool warm = false;
    std::array<std::uint64_t, 40> seeds{};
  };
  const Plan plan = ranks().agree([] {
    Plan mine{.steps = 10 + ranks().rank(), .warm = ranks().is_root(), .seeds = {}};
    mine.seeds.back() = (std::uint64_t{1} << 63) + static_cast<std::uint64_t>(ranks().rank());
    return mine;
  });
  EXPECT_EQ(plan.steps, 10);
  EXPECT_TRUE(plan.warm);
  EXPECT_EQ(plan.seeds.back(), std::uint64_t{1} << 63);
  int calls = 0;
  ranks().agree([&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(MpiAgreement, TheErrorOfTheLowestRankIsThatOfAll) {
  for (int lowest = 0; lowest < size(); ++lowest) {
    const auto fails = [lowest]() -> double {
      if (ranks().rank() < lowest) return 0;
      throw with_hint(data_error("part {} is broken", ranks().rank()), "mend it");
    };
    const Failure failure = test::failure_of([&] { ranks().agree(fails); });
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_EQ(failure.hint, "mend it");
    const auto text = fmt::format("part {} is broken", lowest);
    EXPECT_EQ(failure.message, lowest == 0 ? text : of_rank(lowest, text));
  }
}

TEST(MpiAgreement, WhoIsBusyForLongerThanThePeerTimeoutIsAlive) {
  const Seconds timeout{0.45};  // heartbeats are rarer by default
  ranks().compare({});          // so that all come to the roll at once
  ranks().call_the_roll({{"--seed", "1"}}, timeout);
  EXPECT_EQ(ranks().agree([] {
    if (ranks().rank() == last()) std::this_thread::sleep_for(Seconds(1));
    return 7.0;
  }),
            7);
  ranks().call_the_roll({}, kPeerTimeout);
}

TEST(MpiAgreement, RanksThatDifferSayInWhat) {
  ranks().compare({{"--seed", "1"}});
  if (size() == 1) return;
  const std::string text = test::usage_error_of([] {
    ranks().compare({{"--seed", ranks().rank() == last() ? "2" : "1"}});
  });
  EXPECT_THAT(text, HasSubstr("the ranks differ: --seed is 1 on rank"));
  EXPECT_THAT(text, HasSubstr(fmt::format("2 on rank {}", last())));
}

// The last tests of their programs: rank 1 never continues, so that MPI can only be aborted. It is
// not dead, which the launcher would see. CMakeLists.txt has the words that show that they pass.
void expect_rank_1_missed(const std::function<void(Endpoint&)>& worker) {
  ASSERT_GE(size(), 2);
  auto options = options_for(size());
  options.peer_timeout = Seconds(2);
  const auto begin = std::chrono::steady_clock::now();
  const Failure failure = test::failure_of([&] { make_cluster("mpi", options)->run(worker); });
  EXPECT_THAT(failure.message,
              HasSubstr(fmt::format("rank 1 ({}) has sent no heartbeat", ranks().place().host)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  // The launcher shows this line; its exit code is that of the aborted rank.
  if (ranks().rank() == 0 && !testing::Test::HasFailure()) fmt::print("rank 1 was missed\n");
}

TEST(MpiLost, RankIsNamedWithinTheTimeout) {
  expect_rank_1_missed([](Endpoint& endpoint) {
    endpoint.comm().barrier();
    if (endpoint.rank() == 1) std::raise(SIGSTOP);
    endpoint.comm().barrier();
  });
}

// All have come to the run, and then rank 1 does not join the group of its messages.
TEST(MpiLost, RankIsNamedBeforeTheWorkersStart) {
  stands_still = ranks().rank() == 1;
  expect_rank_1_missed([](Endpoint&) {});
}

// Nothing ends the library's own collective but the end of the job, which has a message.
TEST(MpiLost, RankIsNamedWithinTheLibrary) {
  auto options = options_for(size());
  options.peer_timeout = Seconds(2);
  make_cluster("mpi", options)->run([](Endpoint& endpoint) {
    endpoint.comm().barrier();
    if (endpoint.rank() == 1) std::raise(SIGSTOP);
    std::vector<float> x(1000);
    ranks().library_all_reduce(x);
  });
}

}  // namespace
}  // namespace hetsgd::mpi

// In the place of the library's, which has this second name.
extern "C" int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* made, MPI_Request* request) {
  if (hetsgd::mpi::stands_still) std::raise(SIGSTOP);
  return PMPI_Comm_idup(comm, made, request);
}
