// How runs on the mpi cluster fail: every rank throws the same error, nobody hangs, and the next
// run is a run like any other.
#include <atomic>
#include <csignal>
#include <memory>
#include <thread>

#include "cluster/conformance.hpp"

namespace hetsgd::mpi {
namespace {

using conformance::Answer;
using conformance::Ask;
using conformance::Channel;
using conformance::Gather;
using conformance::options_for;
using testing::HasSubstr;

int size() { return mpi_rank().size; }
int last() { return size() - 1; }
// An error of one rank as all see it; alone it says nothing of ranks.
std::string of_rank(int rank, const std::string& text) {
  return size() == 1 ? text : fmt::format("rank {}: {}", rank, text);
}

template <class ErrorType>
std::string failure(const std::function<void(Node&)>& worker) {
  return conformance::failure_of<ErrorType>("mpi", size(), worker);
}

// Counts objects that worker frames own: unwinding must destroy all.
struct Counted {
  explicit Counted(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  std::atomic<int>& count_;
};

TEST(MpiErrors, AreThrownByEveryRank) {
  for (const auto& wait : std::vector<std::function<void(Node&)>>{
           [](Node& node) { node.comm().barrier(); },
           [](Node& node) {
             std::vector<float> x(300000);
             node.comm().all_reduce(std::span(x));
           },
           [](Node& node) {
             std::vector<float> x(300000);
             node.comm().receive(kAnySource, 1, std::span(x));
           },
           [](Node& node) { node.sleep(Seconds(100)); },
           [](Node& node) { serve<Gather>(node, "gather", 100).call({1}); },
           [](Node& node) { node.fence_together([] {}); },
       }) {
    std::atomic<int> alive = 0;
    try {
      conformance::run_on("mpi", size(), [&](Node& node) {
        const Counted counted(alive);
        node.comm().barrier();
        if (node.rank() == last()) throw data_error("train.txt:7:3: broken");
        wait(node);
      });
      ADD_FAILURE() << "the run did not fail";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      EXPECT_EQ(error.what(), of_rank(last(), "train.txt:7:3: broken"));
    }
    EXPECT_EQ(alive, 0);
  }
}

TEST(MpiErrors, ExchangesThatDiffer) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  const auto text = failure<CheckFailure>([](Node& node) {
    if (node.rank() > 1) return node.comm().barrier();
    const std::vector<float> out(1000);
    std::vector<float> in(node.rank() == 0 ? 1000 : 999);
    node.comm().exchange<float>(1 - node.rank(), 4, out, in);
  });
  EXPECT_THAT(text, HasSubstr("bytes with tag 4 with rank"));
}

TEST(MpiErrors, OfTheOneOutsideOfAnExchange) {
  if (size() < 3) GTEST_SKIP() << "needs three ranks";
  const auto text = failure<Error>([](Node& node) {
    if (node.rank() == last()) throw runtime_failure("no partner");
    std::vector<float> x(300000), y(300000);
    while (true) node.comm().exchange<float>(last(), 1, x, y);
  });
  EXPECT_EQ(text, of_rank(last(), "no partner"));
}

TEST(MpiErrors, InsideOfAFence) {
  for (const bool together : {false, true}) {
    const int failing = together ? 0 : last();
    const auto text = failure<Error>([&](Node& node) {
      const auto fail = [] { throw runtime_failure("the disk is full"); };
      if (together) {
        node.fence_together(fail);
      } else if (node.rank() == failing) {
        node.fence(fail);
      }
      while (true) node.comm().barrier();
    });
    EXPECT_EQ(text, of_rank(failing, "the disk is full"));
  }
}

TEST(MpiErrors, OfACompanion) {
  const auto text = failure<Error>([&](Node& node) {
    auto channel = std::make_shared<Channel>(node);
    if (node.rank() == last()) {
      node.companion("failing", [](Node& self) {
        self.sleep(Seconds(1e-3));
        throw runtime_failure("the companion gives up");
      });
    }
    const std::lock_guard lock(*channel->monitor);
    if (node.rank() == last()) {
      channel->monitor->wait([] { return false; }, "something that never comes");
    }
    node.comm().barrier();
  });
  EXPECT_EQ(text, of_rank(last(), "the companion gives up"));
}

class Failing final : public Service<Ask, Answer> {
  void handle(int, const Ask&, std::span<const float>, Responder<Answer>) override {
    throw runtime_failure("the server gives up");
  }
};
class Forgetful final : public Service<Ask, Answer> {
  void handle(int, const Ask&, std::span<const float>, Responder<Answer>) override {}
};

TEST(MpiErrors, OfServices) {
  EXPECT_EQ(failure<Error>([](Node& node) { serve<Failing>(node, "failing").call({}); }),
            of_rank(0, "the server gives up"));
  EXPECT_THAT(
      failure<CheckFailure>([](Node& node) { serve<Forgetful>(node, "forgetful").call({}); }),
      HasSubstr("service \"forgetful\" dropped a request of rank"));
  EXPECT_THAT(failure<CheckFailure>([](Node& node) {
                std::vector<float> three(3);
                serve<Gather>(node, "gather", 1).call({1}, {}, three);
              }),
              HasSubstr("answers rank"));
}

TEST(MpiErrors, AbortFromOutside) {
  const auto made = make_cluster("mpi", options_for(size()));
  std::atomic<bool> started = false;
  std::thread outside;
  if (mpi_rank().rank == last()) {
    outside = std::thread([&] {
      while (!started) std::this_thread::yield();
      made->abort(std::make_exception_ptr(Error(ExitCode::time_limit, "interrupted")));
    });
  }
  try {
    made->run([&](Node& node) {
      started = true;
      while (true) node.comm().barrier();
    });
    ADD_FAILURE() << "the run did not fail";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::time_limit);
    EXPECT_EQ(error.what(), of_rank(last(), "interrupted"));
  }
  if (outside.joinable()) outside.join();
}

// Whichever rank sees a signal first: it is a signal on every rank, not an error of that one.
TEST(MpiErrors, AnInterruptionIsOneOnEveryRank) {
  for (const int signal : {SIGTERM, 0}) {
    const auto made = make_cluster("mpi", options_for(size()));
    try {
      made->run([&](Node& node) {
        node.comm().barrier();
        if (node.rank() == last()) {
          made->abort(std::make_exception_ptr(Interrupted(signal, "from outside")));
        }
        while (true) node.comm().barrier();
      });
      ADD_FAILURE() << "the run did not fail";
    } catch (const Interrupted& interrupted) {
      EXPECT_EQ(interrupted.signal(), signal);
      EXPECT_STREQ(interrupted.what(), "from outside");
    }
  }
}

TEST(MpiErrors, AbortBeforeTheRun) {
  const auto made = make_cluster("mpi", options_for(size()));
  if (mpi_rank().rank == last()) {
    made->abort(std::make_exception_ptr(data_error("no such file")));
  }
  try {
    made->run([](Node& node) {
      while (true) node.comm().barrier();
    });
    ADD_FAILURE() << "the run did not fail";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), of_rank(last(), "no such file"));
  }
}

TEST(MpiErrors, CollectivesThatDifferNameBothRanks) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  for (const std::size_t n : {std::size_t{10}, std::size_t{100000}}) {
    const auto lengths = failure<CheckFailure>([n](Node& node) {
      std::vector<float> x(node.rank() == last() ? 2 * n : n);
      node.comm().all_reduce(std::span(x));
    });
    EXPECT_THAT(lengths, HasSubstr(fmt::format("rank {} calls all_reduce (sum) of {} float32",
                                               last(), 2 * n)));
    EXPECT_THAT(lengths, HasSubstr(fmt::format("calls all_reduce (sum) of {} float32", n)));
  }
  const auto kinds = failure<CheckFailure>([](Node& node) {
    float x = 0;
    if (node.rank() == 0) return node.comm().barrier();
    node.comm().broadcast(std::span(&x, 1), 1);
    while (true) node.comm().barrier();
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
    const auto text = failure<CheckFailure>([&, s = sent, e = expected](Node& node) {
      std::vector<std::byte> x(node.rank() == 0 ? s : e);
      if (node.rank() == 0) node.comm().send(1, 0, std::span<const std::byte>(x));
      if (node.rank() == 1) node.comm().receive(0, 0, std::span(x));
      node.comm().barrier();
    });
    EXPECT_THAT(text, HasSubstr(fmt::format("receives {} bytes with tag 0 from rank 0, which sent "
                                            "{} bytes",
                                            expected, sent)));
  }
}

// Nobody sends: no rank can see that alone.
TEST(MpiErrors, ADeadlockAcrossRanksNamesWhoWaitsForWhat) {
  auto options = options_for(size());
  options.peer_timeout = Seconds(1);
  const auto begin = std::chrono::steady_clock::now();
  try {
    make_cluster("mpi", options)->run([](Node& node) {
      if (node.rank() == 0) node.sleep(Seconds(1.5));  // long, but no wait
      float x = 0;
      node.comm().receive((node.rank() + 1) % node.size(), 9, std::span(&x, 1));
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
    EXPECT_EQ(mpi_agree([i] { return i + 100.0 * mpi_rank().rank; }, Seconds(60)), i);
  }
}

TEST(MpiAgreement, TheErrorOfTheLowestRankIsThatOfAll) {
  for (int lowest = 0; lowest < size(); ++lowest) {
    const auto fails = [lowest]() -> double {
      if (mpi_rank().rank < lowest) return 0;
      throw with_hint(data_error("part {} is broken", mpi_rank().rank), "mend it");
    };
    try {
      mpi_agree(fails, Seconds(60));
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
  const Seconds timeout{0.45};  // signs of life are rarer by default
  mpi_call_the_roll({{"--seed", "1"}}, Seconds(60), timeout);
  EXPECT_EQ(mpi_agree(
                [] {
                  if (mpi_rank().rank == last()) std::this_thread::sleep_for(Seconds(1));
                  return 7.0;
                },
                timeout),
            7);
}

TEST(MpiAgreement, RanksThatDifferSayInWhat) {
  mpi_compare({{"--seed", "1"}}, Seconds(60));
  if (size() == 1) return;
  try {
    mpi_compare({{"--seed", mpi_rank().rank == last() ? "2" : "1"}}, Seconds(60));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr("the ranks are not alike: --seed is 1 on rank"));
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("2 on rank {}", last())));
  }
}

TEST(MpiErrors, MisuseInsideOfAFence) {
  EXPECT_THAT(failure<CheckFailure>([](Node& node) {
                if (node.rank() == last()) node.fence([&] { node.comm().barrier(); });
                while (true) node.comm().barrier();
              }),
              HasSubstr("uses the cluster inside of a fence"));
}

// Failures at random places end the run, and nobody touches memory of who has gone.
TEST(MpiErrors, AtRandomPlacesEndTheRun) {
  for (int seed = 0; seed < 40; ++seed) {
    const int failing = seed % size(), when = seed % 7;
    EXPECT_EQ(failure<Error>([&](Node& node) {
                auto gather = serve<Gather>(node, "gather", node.size());
                std::vector<float> x(20000, 1.0F), y(x.size());
                const int next = (node.rank() + 1) % node.size();
                const int previous = (node.rank() + node.size() - 1) % node.size();
                for (int i = 0;; ++i) {
                  if (node.rank() == failing && i == when / 2) {
                    if (when % 2 == 1) node.sleep(Seconds(1e-3));
                    throw runtime_failure("enough");
                  }
                  node.comm().all_reduce(std::span(x), ReduceOp::max);
                  gather.call({i}, x);
                  node.comm().send(next, i, std::span<const float>(x));
                  node.comm().receive(previous, i, std::span(y));
                  node.comm().broadcast(std::span(y), i % node.size());
                }
              }),
              of_rank(failing, "enough"));
  }
}

// The last test of its program: rank 1 never goes on, so that MPI can only be aborted. It is not
// dead, which the launcher would see.
TEST(MpiLost, RankIsNamedWithinTheTimeout) {
  ASSERT_GE(size(), 2);
  auto options = options_for(size());
  options.peer_timeout = Seconds(2);
  const auto begin = std::chrono::steady_clock::now();
  try {
    make_cluster("mpi", options)->run([](Node& node) {
      node.comm().barrier();
      if (node.rank() == 1) std::raise(SIGSTOP);
      node.comm().barrier();
    });
    ADD_FAILURE() << "the run did not fail";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr(fmt::format("rank 1 ({}) has given no sign of life", mpi_rank().host)));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
    // What the launcher shows; its exit code is the aborted one's.
    if (mpi_rank().rank == 0 && !HasFailure()) fmt::print("rank 1 was missed\n");
  }
}

}  // namespace
}  // namespace hetsgd::mpi
