// The shared cores of a host in virtual time, by closed forms.

#include "cluster/sim_support.hpp"

namespace hetsgd::sim {
namespace {

// `slow_machine` without latencies, on a host with so many cores.
ClusterOptions on_cores(int cores, int workers) {
  ClusterOptions options = slow_machine(workers);
  options.host_cores = cores;
  options.network.latency = options.network.server_latency = Seconds(0);
  return options;
}

void compute(Endpoint& endpoint, double seconds) {
  endpoint.compute(work_of(seconds), ComputeKind::step, nothing);
}

// When workers end that compute for so long.
std::vector<double> ends_of(const ClusterOptions& options, const std::vector<double>& seconds) {
  std::vector<double> end(seconds.size());
  run(options, [&](Endpoint& endpoint) {
    const auto rank = static_cast<std::size_t>(endpoint.rank());
    compute(endpoint, seconds[rank]);
    end[rank] = now(endpoint);
  });
  return end;
}

TEST(SimHostCores, ComputationsOnOneCoreTakeTheirSum) {
  // Both have had 1 s when the shorter one ends.
  EXPECT_EQ(ends_of(on_cores(1, 2), {1, 3}), (std::vector<double>{2, 4}));
}

TEST(SimHostCores, AsManyComputationsAsCoresRunAlone) {
  EXPECT_EQ(ends_of(on_cores(2, 2), {1, 3}), (std::vector<double>{1, 3}));
}

TEST(SimHostCores, TwiceAsManyWorkersAsCoresTakeTwiceAsLong) {
  EXPECT_EQ(ends_of(on_cores(4, 8), std::vector<double>(8, 1.5)), std::vector<double>(8, 3));
}

TEST(SimHostCores, ABackgroundTaskTakesNothingOfAFreeCore) {
  for (const int cores : {1, 2}) {
    double main_end = 0, background_end = 0;
    run(on_cores(cores, 1), [&](Endpoint& endpoint) {
      endpoint.background_task("task", [&](Endpoint& self) {
        self.compute(work_of(1), ComputeKind::vector, nothing);
        background_end = now(self);
      });
      compute(endpoint, 2);
      main_end = now(endpoint);
    });
    EXPECT_EQ(background_end, cores == 1 ? 2 : 1);
    EXPECT_EQ(main_end, cores == 1 ? 3 : 2);
  }
}

// The delay of a straggler grows with the time that its computation took, as it does on a real
// cluster, and leaves its core to others.
TEST(SimHostCores, SleepingTakesNoCore) {
  ClusterOptions options = on_cores(1, 2);
  options.scenario =
      std::make_shared<Scenario>(std::vector<std::string>{"kind=constant,worker=0,factor=3"}, 2, 1);
  const auto report = run(options, [](Endpoint& endpoint) {
    compute(endpoint, 1);
    EXPECT_EQ(now(endpoint), endpoint.rank() == 0 ? 6 : 2);
    if (endpoint.rank() == 0) return;
    compute(endpoint, 1);
    EXPECT_EQ(now(endpoint), 3);
  });
  EXPECT_EQ(breakdown(report, 0).delay_achieved.count(), 4);
  EXPECT_EQ(breakdown(report, 0).compute.count(), 6);
}

TEST(SimHostCores, ASpeedBelowOneIsASleep) {
  ClusterOptions options = on_cores(1, 2);
  options.speed = {0.5, 2};
  EXPECT_EQ(ends_of(options, {1, 1}), (std::vector<double>{3, 1}));
}

TEST(SimHostCores, WhatIsCutShortLeavesItsCore) {
  run(on_cores(1, 2), [&](Endpoint& endpoint) {
    if (endpoint.rank() == 1) {
      compute(endpoint, 2);
      EXPECT_EQ(now(endpoint), 3);
      return;
    }
    const std::shared_ptr<CancellationToken> token = endpoint.make_cancellation_token();
    endpoint.background_task("canceller", [token](Endpoint& self) {
      self.sleep(Seconds(2));
      token->cancel();
    });
    EXPECT_FALSE(endpoint.compute_cancellable(*token, work_of(8), ComputeKind::step, nothing));
    EXPECT_EQ(now(endpoint), 2);
    token->reset();
    endpoint.sleep(Seconds(2));
    EXPECT_TRUE(endpoint.compute_cancellable(*token, work_of(1), ComputeKind::step, nothing));
    EXPECT_EQ(now(endpoint), 5);
  });
}

TEST(SimHostCores, AServiceComputesOnThem) {
  class Worker final : public Service<Number, Number> {
   public:
    void handle(int, const Number& number, std::span<const float>,
                Responder<Number> reply) override {
      reply(number);
    }
    Work work(const Number&, std::size_t) const override { return work_of(1); }
  };
  ClusterOptions options = on_cores(1, 2);
  options.network.server_bytes_per_s = options.network.bytes_per_s = kUnlimitedPerSecond;
  run(options, [&](Endpoint& endpoint) {
    auto service = serve<Worker>(endpoint, "service");
    endpoint.rank() == 0 ? compute(endpoint, 1) : void(service.call({}));
    EXPECT_NEAR(now(endpoint), 2, 1e-12);
  });
}

// Each rank copies for as long as the bytes pass.
TEST(SimHostCores, CopiesOfACollectiveTakeThem) {
  for (const int cores : {1, 2}) {
    run(on_cores(cores, 2), [&](Endpoint& endpoint) {
      all_reduce(endpoint.comm(), 1);
      EXPECT_EQ(now(endpoint), 2.0 / cores);
    });
  }
}

TEST(SimHostCores, TheBytesOfAMessageTakeOne) {
  run(on_cores(1, 2), [&](Endpoint& endpoint) {
    std::vector<float> bytes(16);  // 1 s on the sender's link, and 1 s on the receiver's
    if (endpoint.rank() == 0) {
      endpoint.comm().send(1, 0, bytes);
    } else {
      compute(endpoint, 1);
      EXPECT_EQ(now(endpoint), 2);
      endpoint.comm().receive(0, 0, std::span(bytes));
      EXPECT_EQ(now(endpoint), 2);
    }
  });
}

TEST(SimHostCores, AGpuComputesWithoutThem) {
  ClusterOptions options = on_cores(1, 2);
  options.profiles.push_back(options.profiles[0]);
  options.profiles[1].host_link_bytes_per_s = 1;
  EXPECT_EQ(ends_of(options, {1, 1}), (std::vector<double>{1, 1}));
}

// --- waits ---------------------------------------------------------------------------------------

// When a receiver goes on whose message comes after `wait` seconds.
double received_after(ClusterOptions options, double wait) {
  double end = 0;
  options.network.bytes_per_s = kUnlimitedPerSecond;
  run(options, [&](Endpoint& endpoint) {
    if (endpoint.rank() == 0) {
      endpoint.sleep(Seconds(wait));
      endpoint.comm().send(1, 0, std::span<const float>());
    } else {
      endpoint.comm().receive(0, 0, std::span<float>());
      end = now(endpoint);
    }
  });
  return end;
}

TEST(SimHostCores, ASleepingThreadIsWokenLate) {
  ClusterOptions options = on_cores(2, 2);
  options.network.wake = Seconds(0.5);
  EXPECT_EQ(received_after(options, 0.5), 0.5);  // it spins for so long
  EXPECT_EQ(received_after(options, 0.75), 1.25);
}

TEST(SimHostCores, ARankThatPollsFindsItsMessageLate) {
  ClusterOptions options = on_cores(2, 2);
  options.network.poll = Seconds(0.5);
  EXPECT_EQ(received_after(options, 2), 2 + 2.0 / 8 / 2);
  EXPECT_EQ(received_after(options, 8), 8.25);  // the longest sleep
}

TEST(SimHostCores, PollsOfWaitingRanksTakeTime) {
  ClusterOptions options = on_cores(1, 2);
  options.network.poll = Seconds(0.5);
  options.network.poll_core_share = 0.25;
  run(options, [&](Endpoint& endpoint) {
    if (endpoint.rank() == 0) {
      compute(endpoint, 5);
      // One waits, and the control threads of both poll.
      EXPECT_NEAR(now(endpoint), 5 / (1 - 0.25 * (1 + 2 * kControlPolls)), 1e-12);
      endpoint.comm().send(1, 0, std::span<const float>());
    } else {
      endpoint.comm().receive(0, 0, std::span<float>());
    }
  });
}

TEST(SimHostCores, PollsTakeNoMoreThanAFairShare) {
  ClusterOptions options = on_cores(1, 2);
  options.network.poll = Seconds(0.5);
  options.network.poll_core_share = 1;
  const std::vector<double> end = ends_of(options, {1, 1});
  EXPECT_NEAR(end[0], 2.5, 1e-12);  // 1 / (2 + 2 / 4) of a core each
  EXPECT_NEAR(end[1], 2.5, 1e-12);
}

// --- the option's absence, and the host ----------------------------------------------------------

// Times of a program that uses most of the vocabulary.
std::vector<double> times_of(const ClusterOptions& options) {
  std::vector<double> times;
  run(options, [&](Endpoint& endpoint) {
    auto echo = serve<Echo>(endpoint, "echo");
    std::vector<float> x(24, 1), y(24);
    endpoint.background_task("task", [&](Endpoint& self) {
      for (int i = 0; i < 3; ++i) self.compute(work_of(0.3), ComputeKind::vector, nothing);
    });
    for (int i = 0; i < 4; ++i) {
      compute(endpoint, 0.7 + 0.1 * endpoint.rank());
      endpoint.comm().all_reduce(std::span(x));
      echo.call({}, x, y, Traffic::gradients);
      times.push_back(now(endpoint));
    }
  });
  return times;
}

TEST(SimHostCores, WaitsOfTheNetworkCountOnlyWithCores) {
  ClusterOptions options = on_cores(0, 3);
  const std::vector<double> times = times_of(options);
  options.network.wake = Seconds(0.5);
  options.network.poll = Seconds(2);
  options.network.poll_core_share = 0.5;
  EXPECT_EQ(times_of(options), times);
  options.host_cores = 2;
  EXPECT_NE(times_of(options), times);
}

TEST(SimHostCores, TimesDoNotDependOnTheHost) {
  ClusterOptions options = on_cores(2, 5);
  options.network.wake = Seconds(0.01);
  options.host_threads = 1;
  const std::vector<double> times = times_of(options);
  options.host_threads = 3;
  EXPECT_EQ(times_of(options), times);
}

}  // namespace
}  // namespace hetsgd::sim
