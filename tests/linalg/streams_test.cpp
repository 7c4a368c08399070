// Streams of a CPU device: the cores that run each stream, and results equal to those of one after
// another.
#include "linalg/streams.hpp"

#include <gmock/gmock.h>

#include <latch>

#include "linalg/softmax_problem.hpp"

namespace hetsgd::test {
namespace {

const auto no_finish = [](std::size_t) {};

TEST(Streams, ShareTheCoresEqually) {
  const auto count_and_name = [](int cores, std::size_t tasks) {
    const auto device = make_cpu_device<float>(cores);
    const auto streams = device->streams(tasks);
    return std::pair(streams->count(), streams->device(streams->count() - 1).name());
  };
  EXPECT_EQ(count_and_name(1, 3), std::pair(std::size_t{1}, std::string("cpu:1")));
  EXPECT_EQ(count_and_name(4, 2), std::pair(std::size_t{2}, std::string("cpu:2")));
  EXPECT_EQ(count_and_name(4, 3), std::pair(std::size_t{3}, std::string("cpu:1")));  // one rests
  EXPECT_EQ(count_and_name(4, 9), std::pair(std::size_t{4}, std::string("cpu:1")));
  EXPECT_EQ(count_and_name(4, 1), std::pair(std::size_t{1}, std::string("cpu:4")));
}

TEST(Streams, EachRunsItsTasksInOrder) {
  for (const int cores : {1, 2, 5}) {
    const auto device = make_cpu_device<float>(cores);
    for (const std::size_t tasks : {1U, 2U, 5U, 8U}) {
      const auto streams = device->streams(tasks);
      std::vector<std::vector<std::size_t>> calls(streams->count());
      std::vector<std::vector<std::size_t>> expected(streams->count());
      for (std::size_t j = 0; j < tasks; ++j) {
        auto& of_stream = expected[j % streams->count()];
        of_stream.insert(of_stream.end(), {j, 100 + j});
      }
      for (int repeat = 0; repeat < 3; ++repeat) {
        for (auto& each : calls) each.clear();
        streams->run(
            tasks, [&](std::size_t j) { calls[j % calls.size()].push_back(j); },
            [&](std::size_t j) { calls[j % calls.size()].push_back(100 + j); });
        EXPECT_EQ(calls, expected);
      }
    }
  }
}

// Each task waits for the others to have begun: one after the other they would never end.
TEST(Streams, RunAtTheSameTime) {
  const auto device = make_cpu_device<float>(3);
  const auto streams = device->streams(3);
  std::latch all(3);
  streams->run(
      3, [&](std::size_t) { all.arrive_and_wait(); }, no_finish);
  EXPECT_TRUE(all.try_wait());
}

TEST(Streams, HaveTheBitsOfOneAfterAnotherOnAsManyCores) {
  for (const auto& [cores, tasks] :
       std::vector<std::pair<int, std::size_t>>{{1, 2}, {2, 2}, {2, 3}, {4, 2}, {5, 2}, {6, 2}}) {
    const auto whole = make_cpu_device<float>(cores);
    const auto streams = whole->streams(tasks);
    const auto share = make_cpu_device<float>(cores / static_cast<int>(streams->count()));
    std::vector<Results> expected(tasks), results(tasks);
    for (std::size_t j = 0; j < tasks; ++j) expected[j] = results_of_task(*share, 10 * j);
    const auto before = results_of_task(*whole, 1);
    for (int repeat = 0; repeat < 5; ++repeat) {
      streams->run(
          tasks,
          [&](std::size_t j) {
            results[j] = results_of_task(streams->device(j % streams->count()), 10 * j);
          },
          no_finish);
      EXPECT_EQ(results, expected) << cores << " cores, " << tasks << " tasks";
      EXPECT_EQ(results_of_task(*whole, 1), before);  // in turns with the whole device
    }
  }
}

TEST(Streams, TheFirstErrorComesOutWhenAllAreThrough) {
  const auto device = make_cpu_device<float>(4);
  const auto streams = device->streams(2);
  std::vector<std::size_t> ended;
  const auto task = [&](std::size_t j) {
    if (j == 0) throw usage_error("of task {}", j);
    results_of_task(streams->device(1), j);
    ended.push_back(j);
  };
  EXPECT_THROW(streams->run(2, task, no_finish), Error);
  EXPECT_THAT(ended, testing::ElementsAre(1));
  streams->run(2, no_finish, [&](std::size_t j) { results_of_task(streams->device(j), j); });
}

}  // namespace
}  // namespace hetsgd::test
