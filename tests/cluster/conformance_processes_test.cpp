// Services, background tasks, monitors and pauses: the same on every cluster.

#include "cluster/conformance.hpp"

namespace hetsgd::conformance {
namespace {

class ProcessesOn : public OnEverySize {};
HETSGD_ON_EVERY_SIZE(ProcessesOn);

// --- services ----------------------------------------------------------------------------------

TEST_P(ProcessesOn, ServiceAnswersEachCallerWithItsPayload) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    auto scale = serve<Scale>(endpoint, "scale");
    for (int i = 0; i < 50; ++i) {
      const std::size_t n = i % 5 == 0 ? 3000 : static_cast<std::size_t>(i % 3);
      const std::vector<float> x(n, static_cast<float>(100 * endpoint.rank() + i));
      std::vector<float> y(n);
      const Answer answer = scale.call({i}, x, y);
      EXPECT_EQ(answer.number, i);
      EXPECT_EQ(answer.from, endpoint.rank());
      EXPECT_EQ(y, std::vector<float>(n, static_cast<float>(i * (100 * endpoint.rank() + i))));
    }
  });
}

// Ask 0 waits until ask 2 has come, which is answered first; ask 1: does ask 0 wait?
class Crossing final : public Service<Ask, Answer> {
 public:
  void handle(int from, const Ask& ask, std::span<const float>, Responder<Answer> reply) override {
    if (ask.number == 0) {
      waiting_[from] = std::make_unique<Responder<Answer>>(std::move(reply));
    } else if (ask.number == 1) {
      reply({waiting_.contains(from) ? 1 : 0, from});
    } else {
      reply({2, from});
      (*waiting_[from])({0, from});
      waiting_.erase(from);
    }
  }

 private:
  std::map<int, std::unique_ptr<Responder<Answer>>> waiting_;  // by rank
};

TEST_P(ProcessesOn, TwoProcessesThatShareAClientGetAnswersOfTheirOwn) {
  run_on(cluster(), size(), [&](Endpoint& endpoint) {
    auto client = serve<Crossing>(endpoint, "crossing");
    for (int round = 0; round < 10; ++round) {
      endpoint.background_task("first",
                               [=](Endpoint&) mutable { EXPECT_EQ(client.call({0}).number, 0); });
      while (client.call({1}).number == 0) endpoint.sleep(Seconds(1e-4));
      EXPECT_EQ(client.call({2}).number, 2);
      while (client.call({1}).number == 1) endpoint.sleep(Seconds(1e-4));
    }
  });
}

// Worker 0 is answered when all others have left.
class LastOne final : public Service<Ask, Answer> {
 public:
  explicit LastOne(int workers) : others_(workers - 1) {}
  void handle(int, const Ask&, std::span<const float>, Responder<Answer> reply) override {
    waiting_ = std::make_unique<Responder<Answer>>(std::move(reply));
    answer_if_alone();
  }
  void left(int rank) override {
    if (rank == 0) return;
    --others_;
    sum_ += rank;
    answer_if_alone();
  }

 private:
  void answer_if_alone() {
    if (others_ > 0 || !waiting_) return;
    (*waiting_)({sum_, 0});
    waiting_.reset();
  }
  int others_;
  int sum_ = 0;
  std::unique_ptr<Responder<Answer>> waiting_;
};

TEST_P(ProcessesOn, ServiceLearnsWhoHasLeft) {
  run_on(cluster(), size(), [&](Endpoint& endpoint) {
    // The last rank leaves before the service exists.
    if (endpoint.rank() > 0 && endpoint.rank() == endpoint.size() - 1) return;
    if (endpoint.size() > 1) endpoint.sleep(Seconds(2e-3));
    auto last = serve<LastOne>(endpoint, "last", endpoint.size());
    if (endpoint.rank() == 0) {
      EXPECT_EQ(last.call({}).number, endpoint.size() * (endpoint.size() - 1) / 2);
    }
  });
}

// --- background tasks ----------------------------------------------------------------------------

TEST_P(ProcessesOn, BackgroundTaskAndMonitorPassEveryItemInOrder) {
  std::vector<std::vector<int>> got(static_cast<std::size_t>(size()));
  run_on(cluster(), size(), [&](Endpoint& endpoint) {
    auto channel = std::make_shared<Channel>(endpoint);
    auto& mine = got[static_cast<std::size_t>(endpoint.rank())];
    endpoint.background_task("consumer", [channel, &mine, rank = endpoint.rank()](Endpoint& self) {
      EXPECT_EQ(self.rank(), rank);
      const std::lock_guard lock(*channel->monitor);
      while (true) {
        channel->monitor->wait([&] { return !channel->items.empty() || channel->closed; },
                               "an item");
        if (channel->items.empty()) return;
        mine.push_back(channel->items.front());
        channel->items.pop_front();
        channel->monitor->notify_all();
      }
    });
    for (int i = 0; i < 100; ++i) {
      const std::lock_guard lock(*channel->monitor);
      channel->monitor->wait([&] { return channel->items.size() < 3; }, "room for an item");
      channel->items.push_back(i);
      channel->monitor->notify_all();
    }
    const std::lock_guard lock(*channel->monitor);
    channel->closed = true;
    channel->monitor->notify_all();
  });
  for (int r = 0; r < size(); ++r) {
    if (!is_here(cluster(), r)) continue;
    const auto& mine = got[static_cast<std::size_t>(r)];
    ASSERT_EQ(mine.size(), 100U);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(mine[static_cast<std::size_t>(i)], i);
  }
}

TEST_P(ProcessesOn, ComputeCountsStepsAndTime) {
  const auto report = run_on(cluster(), size(), [](Endpoint& endpoint) {
    double sum = 0;
    const Seconds before = endpoint.now();
    const int steps = 10 + endpoint.rank();
    for (int i = 0; i < steps; ++i) {
      endpoint.compute({.operations = 1e6, .bytes = 0, .launches = 1}, ComputeKind::step, [&] {
        for (int k = 0; k < 1000; ++k) sum += std::sqrt(k);
      });
    }
    endpoint.compute({.operations = 1e6, .bytes = 0, .launches = 1}, ComputeKind::vector,
                     [&] { sum += 1; });
    EXPECT_NEAR(sum, steps * 21065.8 + 1, 1);
    EXPECT_GE(endpoint.now() - before, endpoint.time_breakdown().compute * 0.999);
  });
  if (!is_here(cluster(), 0)) return;
  ASSERT_EQ(report.workers.size(), static_cast<std::size_t>(size()));
  for (int r = 0; r < size(); ++r) {
    const auto& worker = report.workers[static_cast<std::size_t>(r)];
    EXPECT_EQ(worker.rank, r);
    EXPECT_EQ(worker.breakdown.steps, static_cast<std::uint64_t>(10 + r));
    EXPECT_GT(worker.breakdown.compute, Seconds(0));
    EXPECT_LE(worker.breakdown.compute, report.elapsed * 1.001);
  }
}

// Collectives count as a ring, messages by whatever call they are sent where they begin and end,
// and those of a background task as its worker's.
TEST_P(ProcessesOn, BytesCountOnBothSides) {
  if (size() != 2) GTEST_SKIP() << "for two workers";
  constexpr std::size_t kElements = 64000;  // 256,000 bytes: two slices of 128,000
  const auto report = run_on(cluster(), size(), [](Endpoint& endpoint) {
    const bool first = endpoint.rank() == 0;
    std::vector<float> x(kElements), all(2 * kElements);
    endpoint.comm().all_reduce(std::span(x), ReduceOp::sum, Traffic::gradients);
    endpoint.comm().broadcast(std::span(x), 0, Traffic::parameters);
    endpoint.comm().all_gather(x, std::span(all));
    endpoint.comm().reduce_scatter(std::span(x));
    if (first) endpoint.comm().send(1, 0, std::span(x), Traffic::parameters);
    if (!first) endpoint.comm().receive(0, 0, std::span(x));
    const std::vector<float> out(first ? 1000 : 500);
    std::vector<float> in(first ? 500 : 1000);
    endpoint.comm().sendrecv<float>(1 - endpoint.rank(), 0, out, in, Traffic::rows);
    endpoint.background_task("sender", [first](Endpoint& self) {
      std::vector<float> y(100);
      if (first) self.comm().post(1, 7, std::span<const float>(y), Traffic::ids);
      if (!first) self.comm().receive(0, 7, std::span(y));
    });
  });
  if (!is_here(cluster(), 0)) return;
  using Bytes = TrafficBytes;  // parameters, gradients, control, rows, ids
  EXPECT_EQ(report.workers[0].breakdown.bytes_sent, (Bytes{512000, 256000, 384000, 4000, 400}));
  EXPECT_EQ(report.workers[0].breakdown.bytes_received, (Bytes{0, 256000, 384000, 2000, 0}));
  EXPECT_EQ(report.workers[1].breakdown.bytes_sent, (Bytes{0, 256000, 384000, 2000, 0}));
  EXPECT_EQ(report.workers[1].breakdown.bytes_received, (Bytes{512000, 256000, 384000, 4000, 400}));
}

// From its arrival at the all_reduce to that of rank 0, rank 1 waits, but not in the pause. Rank
// 0's arrival bounds the wait from below; only the time after it can be communication.
TEST_P(ProcessesOn, WaitIsTheTimeForOthers) {
  if (size() < 2 || size() != size_to_test(2)) GTEST_SKIP() << "for two workers";
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    std::vector<float> x(100'000);
    endpoint.comm().barrier();
    if (endpoint.rank() == 0) {
      endpoint.compute({.operations = 1e8}, ComputeKind::step,
                       [] { std::this_thread::sleep_for(100ms); });
      EXPECT_GE(endpoint.time_breakdown().compute, 100ms);
      endpoint.while_paused([] { std::this_thread::sleep_for(400ms); });
    }
    const TimeBreakdown before = endpoint.time_breakdown();
    const double come_s = endpoint.now().count();
    endpoint.comm().all_reduce(std::span(x));
    const double gone_s = endpoint.now().count();
    const Seconds wait = endpoint.time_breakdown().wait - before.wait;
    const Seconds communicate = endpoint.time_breakdown().communicate - before.communicate;
    std::vector<double> come(static_cast<std::size_t>(endpoint.size()));
    endpoint.comm().all_gather(std::span<const double>(&come_s, 1), std::span(come));
    const Seconds slack = 1ms;  // of the clocks of two ranks, and between two of its readings
    if (endpoint.rank() != 1) return;
    EXPECT_GE(wait, Seconds(come[0] - come[1]) - slack);
    EXPECT_LE(wait, Seconds(gone_s - come_s) + slack);
    EXPECT_LE(communicate, Seconds(gone_s - std::max(come[0], come[1])) + slack);
  });
}

// --- the pause -----------------------------------------------------------------------------------

// The time by which the host's clock has moved ahead of the training clock since construction.
class OffTheClock {
 public:
  explicit OffTheClock(Endpoint& endpoint) : endpoint_(endpoint) {}
  Seconds so_far() const {
    return std::chrono::steady_clock::now() - host_begin_ - (endpoint_.now() - begin_);
  }

 private:
  Endpoint& endpoint_;
  const std::chrono::steady_clock::time_point host_begin_ = std::chrono::steady_clock::now();
  const Seconds begin_ = endpoint_.now();
};

TEST_P(ProcessesOn, PauseIsOffTheClock) {
  const auto report = run_on(cluster(), size(), [](Endpoint& endpoint) {
    const OffTheClock off_the_clock(endpoint);
    endpoint.comm().barrier();
    if (endpoint.rank() == 0) {
      endpoint.sleep(5ms);
      endpoint.while_paused([&] {
        const Seconds inside = endpoint.now();
        std::this_thread::sleep_for(250ms);  // in sim the sleep below takes no time of the host
        EXPECT_EQ(endpoint.now(), inside);   // the clock stands
      });
    } else {  // a sleep continues after the pause
      const Seconds before = endpoint.now();
      endpoint.sleep(20ms);
      EXPECT_GE(endpoint.now() - before, 20ms - 1ns);
    }
    endpoint.comm().barrier();
    EXPECT_GE(off_the_clock.so_far(), 199ms);
  });
  EXPECT_GE(report.paused, 200ms);
  for (const auto& worker : report.workers)
    EXPECT_LE(worker.breakdown.wait, report.elapsed * 1.001);
}

TEST_P(ProcessesOn, ClockNeverRunsBackwards) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    Seconds last = endpoint.now();
    EXPECT_GE(last, Seconds(0));
    for (int i = 0; i < 100; ++i) {
      if (i % 10 == endpoint.rank())
        endpoint.while_paused([] { std::this_thread::sleep_for(20us); });
      endpoint.compute({}, ComputeKind::vector, [] {});
      EXPECT_GE(endpoint.now(), last);
      last = endpoint.now();
    }
  });
}

TEST_P(ProcessesOn, PausesOfAllWorkersTakeTurns) {
  std::atomic<int> inside = 0, done = 0;
  run_on(cluster(), size(), [&](Endpoint& endpoint) {
    for (int i = 0; i < 10; ++i) {
      endpoint.while_paused([&] {
        EXPECT_EQ(++inside, 1);
        std::this_thread::yield();
        --inside;
        ++done;
      });
    }
  });
  EXPECT_EQ(done, 10 * ranks_here(cluster(), size()));
}

TEST_P(ProcessesOn, PauseTogetherRunsOnceAndOffTheClock) {
  int runs = 0;
  run_on(cluster(), size(), [&](Endpoint& endpoint) {
    const OffTheClock off_the_clock(endpoint);
    for (int i = 0; i < 5; ++i) {
      endpoint.while_paused_together([&] {
        EXPECT_EQ(endpoint.rank(), 0);
        ++runs;
        std::this_thread::sleep_for(40ms);
      });
      endpoint.comm().barrier();
    }
    // In sim the others begin when rank 0 is in its first pause already.
    if (endpoint.rank() == 0) {
      EXPECT_GE(off_the_clock.so_far(), 199ms);
    }
  });
  EXPECT_EQ(runs, is_here(cluster(), 0) ? 5 : 0);
}

TEST_P(ProcessesOn, PauseStopsComputingBackgroundTasks) {
  std::atomic<int> steps = 0;
  run_on(cluster(), size(), [&](Endpoint& endpoint) {
    for (int background_task = 0; background_task < 2; ++background_task) {
      endpoint.background_task("busy", [&](Endpoint& self) {
        for (int i = 0; i < 20; ++i) {
          self.compute({.operations = 1e5, .bytes = 0, .launches = 1}, ComputeKind::step,
                       [&] { ++steps; });
          self.sleep(Seconds(1e-5));
        }
      });
    }
    endpoint.while_paused([&] {
      const int seen = steps;
      std::this_thread::sleep_for(2ms);
      EXPECT_EQ(steps, seen);
    });
  });
  EXPECT_EQ(steps, 40 * ranks_here(cluster(), size()));
}

}  // namespace
}  // namespace hetsgd::conformance
