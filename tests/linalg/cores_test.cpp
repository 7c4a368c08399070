// How the threads of a device wait for each other.
#include "linalg/cores/cores.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

namespace hetsgd::cpu {
namespace {

TEST(Cores, EveryPartRunsOnceAndIsSeenByTheCaller) {
  for (const int count : {1, 2, 3}) {
    const Cores cores(count);
    std::vector<std::size_t> runs(static_cast<std::size_t>(count), 0);
    for (std::size_t round = 1; round <= 2000; ++round) {
      cores.run(cores.count(), [&](std::size_t part) { ++runs[part]; });
      ASSERT_EQ(runs, std::vector<std::size_t>(cores.count(), round));
    }
  }
}

TEST(SpinningWait, ReturnsTheNewValue) {
  for (const bool spin : {false, true}) {
    SpinningWait wait;
    std::atomic<std::uint32_t> value{3};
    EXPECT_EQ(wait(value, 2, spin), 3U);
    std::thread other([&] {
      value.store(4);
      value.notify_all();
    });
    EXPECT_EQ(wait(value, 3, spin), 4U);
    other.join();
  }
}

// Spins that were in vain make the next ones shorter, down to a bound; one that was not, longer.
TEST(SpinningWait, SpinsLessWhereItHadToSleep) {
  SpinningWait wait;
  std::atomic<std::uint32_t> value{0};
  for (std::uint32_t i = 0; i < 1000 && wait.budget_ns() > SpinningWait::kShortestNs; ++i) {
    std::thread late([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      value.store(i + 1);
      value.notify_all();
    });
    wait(value, i, true);
    late.join();
  }
  EXPECT_EQ(wait.budget_ns(), SpinningWait::kShortestNs);
  wait(value, value + 1, true);
  EXPECT_EQ(wait.budget_ns(), 2 * SpinningWait::kShortestNs);
  for (int i = 0; i < 20; ++i) wait(value, value + 1, true);
  EXPECT_EQ(wait.budget_ns(), SpinningWait::kLongestNs);
}

TEST(Cores, NobodySpinsWhereThreadsOutnumberCores) {
  const auto machine = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_FALSE(Cores(1).may_spin());
  EXPECT_FALSE(Cores(machine + 1).may_spin());
  const Cores two(2);
  const bool alone = two.may_spin();  // not on a machine with one core
  {
    const Cores others(std::max(2, machine));
    EXPECT_FALSE(two.may_spin());
    EXPECT_FALSE(others.may_spin());
  }
  EXPECT_EQ(two.may_spin(), alone);
}

// A device whose threads sleep, because other devices have the cores, hands over larger parts only.
// One with more threads than the machine has cores is what a user asked for, and does not count.
TEST(Cores, PartsAreLargerWhereOtherDevicesHaveTheCores) {
  const auto machine = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  const Cores two(2);
  const auto parts_of = [&](std::size_t n) {
    std::atomic<int> parts{0};
    two.split(n, 1, 10, [&](Range) { ++parts; });
    return parts.load();
  };
  EXPECT_EQ(parts_of(19), 1);
  EXPECT_EQ(parts_of(20), 2);
  const bool alone = two.may_spin();
  {
    const Cores others(std::max(2, machine));
    const std::size_t cost = two.hand_over_cost();
    EXPECT_EQ(cost > 1, alone);
    EXPECT_EQ(parts_of(20 * cost - 1), 1);
    EXPECT_EQ(parts_of(20 * cost), 2);
  }
  EXPECT_EQ(two.hand_over_cost(), 1U);
  EXPECT_EQ(Cores(machine + 1).hand_over_cost(), 1U);
}

}  // namespace
}  // namespace hetsgd::cpu
