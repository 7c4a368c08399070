// The clock's pause between the ranks of the mpi cluster (cluster/mpi/protocol/clock_pause.hpp).
#include "cluster/mpi/protocol/clock_pause.hpp"

#include <cstdint>

#include "cluster/mpi/message_network.hpp"

namespace hetsgd::mpi {
namespace {

class Clock final : public PausableWorld {
 public:
  void stop() override { stopping = true; }
  std::int64_t stopped_at() override { return stopping ? stops_at : 0; }
  void freeze(std::int64_t at) override { frozen_at = at; }
  void grant() override { ++granted; }
  void resume(std::int64_t at, bool together) override {
    paused_ns += at - frozen_at;
    were_together.push_back(together);
    frozen_at = 0;
    stopping = false;
  }
  bool stopping = false;
  std::int64_t stops_at = 0;  // 0: somebody still runs
  std::int64_t frozen_at = 0;
  std::int64_t paused_ns = 0;
  int granted = 0;
  std::vector<bool> were_together;
};

struct Pauses {
  explicit Pauses(int size) : network(size), clocks(static_cast<std::size_t>(size)) {
    for (int rank = 0; rank < size; ++rank) {
      each.push_back(std::make_unique<ClockPause>(network[rank]));
      each.back()->attach(&clocks[static_cast<std::size_t>(rank)]);
    }
  }
  // Runs until no message is in flight and no process is about to continue.
  void settle() {
    bool busy = true;
    while (busy) {
      for (auto& pause : each) pause->tick();
      busy = network.deliver() > 0;
      for (const auto& pause : each) busy = busy || pause->resumes();
    }
  }
  Network network;
  std::vector<Clock> clocks;
  std::vector<std::unique_ptr<ClockPause>> each;
};

TEST(ClockPause, BeginsWhenTheLastRankHasStopped) {
  Pauses pauses(2);
  pauses.each[1]->set_offset(5);
  pauses.clocks[0].stops_at = 100;
  pauses.each[1]->ask(true);
  pauses.settle();
  EXPECT_TRUE(pauses.clocks[1].stopping);
  EXPECT_TRUE(pauses.each[0]->is_on());
  EXPECT_EQ(pauses.clocks[0].frozen_at, 0);  // rank 1 still runs
  pauses.clocks[1].stops_at = 205;           // 200 of rank 0's clock
  pauses.settle();
  EXPECT_EQ(pauses.clocks[0].frozen_at, 200);
  EXPECT_EQ(pauses.clocks[1].frozen_at, 205);
  EXPECT_EQ(pauses.clocks[0].granted, 0);
  EXPECT_EQ(pauses.clocks[1].granted, 1);
  pauses.each[1]->done();
  pauses.settle();
  EXPECT_EQ(pauses.clocks[0].paused_ns, pauses.clocks[1].paused_ns);
  EXPECT_GT(pauses.clocks[0].paused_ns, 0);
  EXPECT_EQ(pauses.clocks[0].were_together, std::vector{true});
  EXPECT_FALSE(pauses.each[0]->is_on());
}

TEST(ClockPause, AreGrantedOneAfterTheOther) {
  Pauses pauses(3);
  for (Clock& clock : pauses.clocks) clock.stops_at = 100;
  for (int rank = 0; rank < 3; ++rank) pauses.each[static_cast<std::size_t>(rank)]->ask(false);
  int done = 0;
  while (done < 3) {
    pauses.settle();
    int owner = -1;
    for (int rank = 0; rank < 3; ++rank) {
      if (pauses.clocks[static_cast<std::size_t>(rank)].granted == 0) continue;
      EXPECT_EQ(owner, -1) << "two at once";
      owner = rank;
    }
    ASSERT_EQ(owner, done);  // in the order in which they asked
    pauses.clocks[static_cast<std::size_t>(owner)].granted = 0;
    pauses.each[static_cast<std::size_t>(owner)]->done();
    ++done;
  }
  pauses.settle();
  for (const Clock& clock : pauses.clocks) {
    EXPECT_EQ(clock.paused_ns, pauses.clocks[0].paused_ns);
    EXPECT_EQ(clock.were_together.size(), 3U);
  }
}

TEST(ClockPause, ResetForgetsAFailedRun) {
  Pauses pauses(2);
  pauses.each[1]->ask(false);
  pauses.settle();  // nobody stops
  for (auto& pause : pauses.each) pause->reset();
  for (Clock& clock : pauses.clocks) {
    clock = Clock();
    clock.stops_at = 50;
  }
  EXPECT_FALSE(pauses.each[0]->is_on());
  pauses.each[0]->ask(false);
  pauses.settle();
  EXPECT_EQ(pauses.clocks[0].granted, 1);
  EXPECT_EQ(pauses.clocks[1].granted, 0);
}

}  // namespace
}  // namespace hetsgd::mpi
