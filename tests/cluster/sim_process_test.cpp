// Monitors, fences, failures and numbers of processes in virtual time.
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "cluster/sim_support.hpp"

namespace hetsgd::sim {
namespace {

// --- monitors ------------------------------------------------------------------------------------

TEST(SimMonitor, LockIsHandedOnInTheOrderOfCalls) {
  std::shared_ptr<Monitor> monitor;
  std::vector<int> order;
  const auto report = run(slow_machine(3), [&](Node& node) {
    if (!monitor) monitor = node.make_monitor();
    node.sleep(Seconds(3 - node.rank()));
    const std::lock_guard lock(*monitor);
    order.push_back(node.rank());
    node.sleep(10s);
  });
  EXPECT_EQ(order, (std::vector<int>{2, 1, 0}));
  EXPECT_EQ(report.elapsed.count(), 31.0);
  EXPECT_EQ(ledger(report, 0).wait.count(), 31.0);
}

TEST(SimMonitor, WaitEndsWhenReadyAndNotBefore) {
  run(slow_machine(1), [](Node& node) {
    struct Shared {
      std::unique_ptr<Monitor> monitor;
      int count = 0;
    };
    auto shared = std::make_shared<Shared>();
    shared->monitor = node.make_monitor();
    node.companion("counts", [shared](Node& self) {
      for (int i = 0; i < 5; ++i) {
        self.sleep(1s);
        const std::lock_guard lock(*shared->monitor);
        ++shared->count;
        shared->monitor->notify_all();
      }
    });
    const std::lock_guard lock(*shared->monitor);
    shared->monitor->wait([&] { return shared->count == 3; }, "three");
    EXPECT_EQ(now(node), 3.0);
    EXPECT_EQ(node.ledger().wait.count(), 3.0);
  });
}

TEST(SimMonitor, MisuseIsACheckFailure) {
  failure_of<CheckFailure>(slow_machine(1), [](Node& node) { node.make_monitor()->unlock(); });
  failure_of<CheckFailure>(slow_machine(1), [](Node& node) {
    const auto monitor = node.make_monitor();
    monitor->lock();
    monitor->lock();
  });
  failure_of<CheckFailure>(slow_machine(1), [](Node& node) {
    node.make_monitor()->wait([] { return true; }, "without the lock");
  });
}

// --- fences --------------------------------------------------------------------------------------

// A computation that has begun is done when a fence looks, so what a fence sees does not depend on
// the host.
TEST(SimFence, SeesFinishedComputations) {
  for (const int threads : {1, 3}) {
    ClusterOptions options = slow_machine(3);
    options.host_threads = threads;
    int value = 0;
    run(options, [&](Node& node) {
      if (node.rank() > 0) {
        node.sleep(Seconds(node.rank()));
        node.compute(work_of(2), ComputeKind::step, [&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          if (node.rank() == 1) value = 1;
        });
        return;
      }
      node.sleep(Seconds(1.5));
      node.fence([&] { EXPECT_EQ(value, 1); });
      EXPECT_EQ(now(node), 1.5);
    });
  }
}

TEST(SimFence, RunsOnADeepStackAndMustNotBlock) {
  run(slow_machine(1), [](Node& node) {
    int sum = 0;
    node.fence([&] {
      volatile char large[1 << 20];
      large[0] = 3;
      sum += large[0];
    });
    EXPECT_EQ(sum, 3);
  });
  EXPECT_THAT(failure_of<CheckFailure>(slow_machine(1),
                                       [](Node& node) { node.fence([&] { node.sleep(1s); }); }),
              testing::HasSubstr("was called where nothing may block"));
}

TEST(SimFence, TogetherLetsNobodyWait) {
  std::vector<double> seen;
  run(slow_machine(3), [&](Node& node) {
    node.sleep(Seconds(node.rank()));
    node.fence_together([&] { seen.push_back(now(node)); });
    EXPECT_EQ(now(node), node.rank());
  });
  EXPECT_EQ(seen, (std::vector<double>{0.0}));
}

// --- failures ------------------------------------------------------------------------------------

class Silent final : public Service<int, int> {
  void handle(int, const int&, std::span<const float>, Responder<int> reply) override {
    kept_.push_back(std::move(reply));
  }
  std::vector<Responder<int>> kept_;
};

TEST(SimFailure, DeadlockNamesEveryProcessInOrder) {
  const auto text = failure_of<Error>(slow_machine(5), [](Node& node) {
    float x = 0;
    if (node.rank() == 0) return;
    node.sleep(Seconds(0.5 * node.rank()));
    if (node.rank() == 1) {
      node.companion("comm", [](Node& self) {
        const auto monitor = self.make_monitor();
        const std::lock_guard lock(*monitor);
        monitor->wait([] { return false; }, "a gradient in the inbox");
      });
      node.comm().receive(3, 7, std::span(&x, 1));
    }
    if (node.rank() == 4) serve<Silent>(node, "scheduler").call(0);
    node.comm().all_reduce(std::span(&x, 1));
  });
  EXPECT_EQ(text,
            "deadlock: no process can go on\n"
            "  worker 1: receives from 3, tag 7 (since 0.500 s)\n"
            "  companion \"comm\" of worker 1: waits: a gradient in the inbox (since 0.500 s)\n"
            "  worker 2: waits in all_reduce (2 of 5 arrived) (since 1.000 s)\n"
            "  worker 3: waits in all_reduce (2 of 5 arrived) (since 1.500 s)\n"
            "  worker 4: waits for service \"scheduler\" (since 2.000 s)");
}

TEST(SimFailure, FirstExceptionEndsTheRunWithComputationsUnderWay) {
  std::atomic<int> alive = 0, ended = 0;
  struct Counted {
    std::atomic<int>& count;
    explicit Counted(std::atomic<int>& c) : count(c) { ++count; }
    ~Counted() { --count; }
  };
  for (const int threads : {1, 3}) {
    ClusterOptions options = slow_machine(20);
    options.host_threads = threads;
    EXPECT_EQ(failure_of<Error>(options,
                                [&](Node& node) {
                                  const Counted counted(alive);
                                  node.companion("idle", [&](Node& self) {
                                    const Counted other(alive);
                                    self.sleep(100s);
                                    ++ended;
                                  });
                                  if (node.rank() == 7) {
                                    node.sleep(1s);
                                    throw data_error("first");
                                  }
                                  node.compute(work_of(10), ComputeKind::step, [] {
                                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                  });
                                  ++ended;
                                  throw data_error("later");
                                }),
              "first");
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(ended, 0);
  }
}

TEST(SimFailure, CallsInDestructorsReturnWhileTheRunIsTornDown) {
  struct Farewell {
    Node& node;
    Monitor& monitor;
    int& said;
    ~Farewell() {
      const std::lock_guard lock(monitor);
      monitor.notify_all();
      const int x = 0;
      node.comm().send<int>(0, 0, {&x, 1});
      node.comm().barrier();
      node.compute({}, ComputeKind::vector, [] {});
      ++said;
    }
  };
  int said = 0;
  std::shared_ptr<Monitor> monitor;
  failure_of<Error>(slow_machine(3), [&](Node& node) {
    if (!monitor) monitor = node.make_monitor();
    node.sleep(Seconds(node.rank()));
    if (node.rank() == 2) throw runtime_failure("end");
    const Farewell farewell{node, *monitor, said};
    const std::lock_guard lock(*monitor);  // rank 1 waits for it
    node.sleep(100s);
  });
  EXPECT_EQ(said, 2);
}

TEST(SimFailure, AbortIsSeenAtTheNextEvent) {
  const auto cluster = make_sim_cluster(slow_machine(2));
  double last = 0;
  EXPECT_THROW(cluster->run([&](Node& node) {
    for (int i = 0; i < 100; ++i) {
      node.sleep(1s);
      last = now(node);
      if (i == 4) cluster->abort(std::make_exception_ptr(runtime_failure("SIGINT")));
    }
  }),
               Error);
  EXPECT_EQ(last, 5.0);
}

TEST(SimFailure, SpeedsAndScalesMustBePositive) {
  ClusterOptions options = slow_machine(2);
  options.speed = {1, 0};
  EXPECT_THROW(make_sim_cluster(options), Error);
  options = slow_machine(2);
  options.payload_scale = -1;
  EXPECT_THROW(make_sim_cluster(options), Error);
}

// --- scale ---------------------------------------------------------------------------------------

#if defined(__SANITIZE_THREAD__)
constexpr int kManyWorkers = 500;
#else
constexpr int kManyWorkers = 10'000;
#endif

TEST(SimScale, ManyWorkersSynchroniseAndPassMessages) {
  const auto report = run(slow_machine(kManyWorkers), [](Node& node) {
    std::int64_t x = node.rank();
    node.comm().all_reduce(std::span(&x, 1));
    EXPECT_EQ(x, std::int64_t{kManyWorkers} * (kManyWorkers - 1) / 2);
    const int to = (node.rank() + 1) % kManyWorkers,
              from = (node.rank() + kManyWorkers - 1) % kManyWorkers;
    std::int64_t mine = node.rank(), received = -1;
    node.comm().send<std::int64_t>(to, 0, {&mine, 1});
    node.comm().receive<std::int64_t>(from, 0, {&received, 1});
    EXPECT_EQ(received, from);
  });
  EXPECT_GE(report.events, static_cast<std::uint64_t>(5 * kManyWorkers));
}

TEST(SimScale, CompanionsMayComeAndGo) {
  int sum = 0;
  run(slow_machine(1), [&](Node& node) {
    for (int i = 0; i < 20'000; ++i) {
      node.companion("short", [&sum](Node& self) {
        self.sleep(Seconds(0.5));
        ++sum;
      });
      node.sleep(1s);
    }
  });
  EXPECT_EQ(sum, 20'000);
}

}  // namespace
}  // namespace hetsgd::sim
