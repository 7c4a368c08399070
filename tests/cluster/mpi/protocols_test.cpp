// The protocols between the ranks of the mpi cluster, each alone, in orders of messages that a run
// seldom has (clock_pause_test.cpp has that of the clock's pause). What they do in a run, the
// conformance suite and mpi_errors_test.cpp show.

#include <deque>

#include "cluster/mpi/message_network.hpp"
#include "cluster/mpi/protocol/agreement.hpp"
#include "cluster/mpi/protocol/deadlock_vote.hpp"
#include "cluster/mpi/protocol/first_error.hpp"
#include "cluster/mpi/protocol/group_numbers.hpp"
#include "cluster/mpi/protocol/heartbeats.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {
namespace {

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
}

// Every rank's FirstError, and with what each has failed.
struct Errors {
  explicit Errors(Network& network) {
    for (int rank = 0; rank < network.size(); ++rank) {
      seen.emplace_back();
      each.push_back(std::make_unique<FirstError>(
          network[rank],
          [&mine = seen.back()](std::exception_ptr e) { mine.push_back(text_of(e)); }));
    }
  }
  FirstError& operator[](int rank) { return *each[static_cast<std::size_t>(rank)]; }
  std::deque<std::vector<std::string>> seen;  // by rank
  std::vector<std::unique_ptr<FirstError>> each;
};

std::exception_ptr error(const char* text) {
  return std::make_exception_ptr(runtime_failure("{}", text));
}

// --- first error

TEST(FirstError, WhatReachesRank0FirstIsThatOfAll) {
  Network network(3);
  Errors errors(network);
  errors[2].fail(error("late disk"));
  errors[1].fail(error("no memory"));
  network.deliver();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(errors.seen[static_cast<std::size_t>(rank)],
              std::vector<std::string>{"rank 2: late disk"});
    EXPECT_EQ(errors[rank].end_epoch()->text, "rank 2: late disk");
    EXPECT_FALSE(errors[rank].end_epoch().has_value());  // it was none of the next run's
  }
}

TEST(FirstError, AfterTheEndOfARunIsNone) {
  Network network(2);
  Errors errors(network);
  errors[1].fail(error("too late"));
  for (int rank = 0; rank < 2; ++rank) errors[rank].over(1);
  network.deliver();
  EXPECT_TRUE(errors.seen[0].empty());
  EXPECT_FALSE(errors[0].end_epoch().has_value());
}

TEST(FirstError, BetweenRunsIsTheNextOnes) {
  Network network(2);
  Errors errors(network);
  for (int rank = 0; rank < 2; ++rank) errors[rank].end_epoch();
  errors[1].fail(error("early"));
  network.deliver();
  EXPECT_EQ(errors[0].end_epoch()->text, "rank 1: early");
}

// --- agreement

TEST(Agreement, WhoIsLostIsNotWaitedFor) {
  Network network(2);
  Errors errors(network);
  Agreement mine(network[0], errors[0]), other(network[1], errors[1]);
  network.run_all([&](int rank) {
    if (rank == 1) return errors[0].lose_a_rank({.text = "rank 1 is lost"});
    EXPECT_EQ(mine.agree({}, {}).failure.text, "rank 1 is lost");
  });
}

// --- heartbeats

TEST(Heartbeats, OtherRanksListenToRank0Alone) {
  Network network(3);
  Errors errors(network);
  const std::vector<ProcessPlace> places(3);
  Heartbeats watch(network[1], errors[1], places,
                   [](int rank) { return Seconds(rank == 0 ? 1.0 : 1000.0); });
  watch.set_timeout(Seconds(2));
  watch.look();
  EXPECT_FALSE(errors[1].lost());
}

// --- deadlocks

TEST(DeadlockVote, IsOneWhenAllRanksSaySo) {
  Network network(2);
  Errors errors(network);
  DeadlockVote first(network[0], errors[0]), second(network[1], errors[1]);
  const auto blocked = [](std::vector<BlockedProcess>& waiting) {
    waiting.push_back({"worker", "receives", Seconds(1)});
    return std::optional(Seconds(3));
  };
  first.look(blocked, Seconds(2));
  network.deliver();
  EXPECT_TRUE(errors.seen[0].empty());
  second.look(blocked, Seconds(2));
  network.deliver();
  for (const auto& seen : errors.seen) {
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen[0],
              "deadlock: no rank can go on\n  rank 0: worker receives (since 1.000 s);\n"
              "  rank 1: worker receives (since 1.000 s);");
  }
}

TEST(DeadlockVote, CountsNobodyWhoHasNotWaitedLongEnough) {
  Network network(1);
  Errors errors(network);
  DeadlockVote vote(network[0], errors[0]);
  vote.look([](auto&) { return std::optional(Seconds(1)); }, Seconds(2));
  EXPECT_EQ(network.deliver(), 0);
}

// --- group numbers

TEST(GroupNumbers, AreNeverTheSame) {
  Network network(2);
  GroupNumbers first(network[0]), second(network[1]);
  EXPECT_FALSE(second.take().has_value());
  first.ask();
  second.ask();
  second.ask();
  network.deliver();
  EXPECT_THAT((std::array{*first.take(), *second.take(), *second.take()}),
              testing::UnorderedElementsAre(1, 2, 3));
  EXPECT_FALSE(second.take().has_value());
}

}  // namespace
}  // namespace hetsgd::mpi
