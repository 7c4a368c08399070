// Failures of runs that need several ranks: every rank throws the same error, no rank hangs, and
// the next run works as any other. ../conformance_errors_test.cpp tests failures that are the same
// on every cluster.
#include <array>
#include <chrono>
#include <csignal>
#include <thread>

#include "cluster/conformance.hpp"

namespace hetsgd::mpi {
namespace {

using conformance::options_for;
using testing::HasSubstr;

ProcessGroup& ranks() { return processes_of("mpi"); }
int size() { return ranks().size(); }
int last() { return size() - 1; }
std::string of_rank(int rank, const std::string& text) {
  return conformance::of_rank("mpi", rank, text);
}

template <class ErrorType>
std::string failure(const std::function<void(Endpoint&)>& worker) {
  return conformance::failure_of<ErrorType>("mpi", size(), worker);
}

TEST(MpiErrors, ExchangesThatDiffer) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  const auto text = failure<CheckFailure>([](Endpoint& endpoint) {
    if (endpoint.rank() > 1) return endpoint.comm().barrier();
    const std::vector<float> out(1000);
    std::vector<float> in(endpoint.rank() == 0 ? 1000 : 999);
    endpoint.comm().sendrecv<float>(1 - endpoint.rank(), 4, out, in);
  });
  EXPECT_THAT(text, HasSubstr("bytes with tag 4 with rank"));
}

TEST(MpiErrors, OfTheOneOutsideOfAnExchange) {
  if (size() < 3) GTEST_SKIP() << "needs three ranks";
  const auto text = failure<Error>([](Endpoint& endpoint) {
    if (endpoint.rank() == last()) throw runtime_failure("no partner");
    std::vector<float> x(300000), y(300000);
    while (true) endpoint.comm().sendrecv<float>(last(), 1, x, y);
  });
  EXPECT_EQ(text, of_rank(last(), "no partner"));
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

TEST(MpiErrors, CollectivesThatDifferNameBothRanks) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  for (const std::size_t n : {std::size_t{10}, std::size_t{100000}}) {
    const auto lengths = failure<CheckFailure>([n](Endpoint& endpoint) {
      std::vector<float> x(endpoint.rank() == last() ? 2 * n : n);
      endpoint.comm().all_reduce(std::span(x));
    });
    EXPECT_THAT(lengths, HasSubstr(fmt::format("rank {} calls all_reduce (sum) of {} float32",
                                               last(), 2 * n)));
    EXPECT_THAT(lengths, HasSubstr(fmt::format("calls all_reduce (sum) of {} float32", n)));
  }
  const auto kinds = failure<CheckFailure>([](Endpoint& endpoint) {
    float x = 0;
    if (endpoint.rank() == 0) return endpoint.comm().barrier();
    endpoint.comm().broadcast(std::span(&x, 1), 1);
    while (true) endpoint.comm().barrier();
  });
  EXPECT_THAT(kinds, HasSubstr("rank 0 calls barrier"));
  EXPECT_THAT(kinds, HasSubstr("calls broadcast from 1 of 4 bytes"));
}

TEST(MpiErrors, MessagesOfTheWrongSize) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  for (const auto& [sent, expected] : {std::pair<std::size_t, std::size_t>{4, 5},
                                       {5, 4},
                                       {4, 500000},
                                       {500000, 4},
                                       {500000, 400000}}) {
    const auto text = failure<CheckFailure>([&, s = sent, e = expected](Endpoint& endpoint) {
      std::vector<std::byte> x(endpoint.rank() == 0 ? s : e);
      if (endpoint.rank() == 0) endpoint.comm().send(1, 0, std::span<const std::byte>(x));
      if (endpoint.rank() == 1) endpoint.comm().receive(0, 0, std::span(x));
      endpoint.comm().barrier();
    });
    EXPECT_THAT(text, HasSubstr(fmt::format("receives {} bytes with tag 0 from rank 0, which sent "
                                            "{} bytes",
                                            expected, sent)));
  }
}

// No rank sends: none can see the deadlock alone.
TEST(MpiErrors, ADeadlockAcrossRanksNamesWhoWaitsForWhat) {
  auto options = options_for(size());
  options.peer_timeout = Seconds(1);
  const auto begin = std::chrono::steady_clock::now();
  try {
    make_cluster("mpi", options)->run([](Endpoint& endpoint) {
      if (endpoint.rank() == 0) endpoint.sleep(Seconds(1.5));  // long, but no wait
      float x = 0;
      endpoint.comm().receive((endpoint.rank() + 1) % endpoint.size(), 9, std::span(&x, 1));
    });
    ADD_FAILURE() << "the run did not fail";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::runtime);
    EXPECT_THAT(error.what(), HasSubstr("deadlock: no rank can go on"));
    for (int r = 0; r < size(); ++r) {
      EXPECT_THAT(error.what(), HasSubstr(fmt::format("rank {}: worker {} receives", r, r)));
    }
    EXPECT_THAT(error.hint(), HasSubstr("--peer-timeout"));
  }
  const Seconds taken = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(taken, Seconds(2.5));
  EXPECT_LT(taken, Seconds(10));
}

TEST(MpiAgreement, IsWhatRank0Says) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(ranks().agree([i] { return i + 100.0 * ranks().rank(); }), i);
  }
}

TEST(MpiAgreement, IsOfAnyPlainType) {
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
    try {
      ranks().agree(fails);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      EXPECT_EQ(error.hint(), "mend it");
      const auto text = fmt::format("part {} is broken", lowest);
      EXPECT_EQ(error.what(), lowest == 0 ? text : of_rank(lowest, text));
    }
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
  try {
    ranks().compare({{"--seed", ranks().rank() == last() ? "2" : "1"}});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr("the ranks differ: --seed is 1 on rank"));
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("2 on rank {}", last())));
  }
}

// The last test of its program: rank 1 never continues, so that MPI can only be aborted. It is not
// dead, which the launcher would see.
TEST(MpiLost, RankIsNamedWithinTheTimeout) {
  ASSERT_GE(size(), 2);
  auto options = options_for(size());
  options.peer_timeout = Seconds(2);
  const auto begin = std::chrono::steady_clock::now();
  try {
    make_cluster("mpi", options)->run([](Endpoint& endpoint) {
      endpoint.comm().barrier();
      if (endpoint.rank() == 1) std::raise(SIGSTOP);
      endpoint.comm().barrier();
    });
    ADD_FAILURE() << "the run did not fail";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr(fmt::format("rank 1 ({}) has sent no heartbeat", ranks().place().host)));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
    // The launcher shows this line; its exit code is that of the aborted rank.
    if (ranks().rank() == 0 && !HasFailure()) fmt::print("rank 1 was missed\n");
  }
}

}  // namespace
}  // namespace hetsgd::mpi
