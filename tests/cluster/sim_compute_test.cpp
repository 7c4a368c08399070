// Computation and the time breakdown in virtual time.
#include <utility>

#include "cluster/sim_support.hpp"

namespace hetsgd::sim {
namespace {

// --- compute -------------------------------------------------------------------------------------

TEST(SimCompute, TakesTheProfilesTimeDividedBySpeed) {
  ClusterOptions options = slow_machine(3);
  options.speed = {1, 0.5};  // the last value repeats
  const auto report = run(options, [](Endpoint& endpoint) {
    endpoint.compute({.operations = 16, .bytes = 32, .launches = 2}, ComputeKind::step, nothing);
    EXPECT_EQ(now(endpoint), endpoint.rank() == 0 ? 5.0 : 10.0);
  });
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(breakdown(report, r).steps, 1U);
    EXPECT_EQ(breakdown(report, r).compute.count(), r == 0 ? 5.0 : 10.0);
    EXPECT_EQ(breakdown(report, r).delay_requested.count(), r == 0 ? 0.0 : 5.0);
    EXPECT_EQ(breakdown(report, r).delay_achieved.count(), r == 0 ? 0.0 : 5.0);
  }
  EXPECT_EQ(report.workers[0].device, "slow");
  EXPECT_EQ(report.workers[2].device, "slow x 0.5");
}

// Steps, their parts and stages have products; vector operations and services are FP32.
TEST(SimCompute, StepsTakeTheRateOfTheirPrecision) {
  for (const auto& [precision, operations_s] :
       {std::pair{Precision::fp32, 2.0}, {Precision::bf16, 0.5}}) {
    ClusterOptions options = slow_machine(1);
    options.precision = precision;
    options.profiles[0].bf16_operations_per_s = 32;
    run(options, [&, product_s = operations_s](Endpoint& endpoint) {
      for (const auto& [kind, taken_s] : {std::pair{ComputeKind::step, product_s},
                                          {ComputeKind::part, product_s},
                                          {ComputeKind::stage, product_s},
                                          {ComputeKind::vector, 2.0}}) {
        const Seconds start = endpoint.now();
        endpoint.compute({.operations = 16, .bytes = 32, .launches = 2}, kind, nothing);
        EXPECT_EQ((endpoint.now() - start).count(), 3 + taken_s);
      }
    });
  }
}

TEST(SimCompute, HasNoGpuWhateverTheProfilesName) {
  ClusterOptions options = slow_machine(1);
  options.profiles[0].name = "cuda:0";
  const auto cluster = make_cluster("sim", options);
  EXPECT_EQ(cluster->device_name(0), "cuda:0");
  EXPECT_EQ(cluster->gpu(0), -1);
}

TEST(SimCompute, VectorsAreScaledButNotSlowedByStragglers) {
  ClusterOptions options = slow_machine(1);
  options.work_scale = 4;
  options.scenario =
      std::make_shared<Scenario>(std::vector<std::string>{"kind=constant,worker=0,factor=3"}, 1, 1);
  const auto report = run(options, [](Endpoint& endpoint) {
    const Work work{.operations = 16, .bytes = 32, .launches = 2};
    endpoint.compute(work, ComputeKind::vector, nothing);
    EXPECT_EQ(now(endpoint), 8 + 8 + 1.0);
    endpoint.compute(work, ComputeKind::step, nothing);
    EXPECT_EQ(now(endpoint), 17 + 3 * 5.0);
  });
  EXPECT_EQ(breakdown(report, 0).steps, 1U);
  EXPECT_EQ(breakdown(report, 0).delay_requested.count(), 10.0);
  EXPECT_EQ(breakdown(report, 0).delay_achieved.count(), 10.0);
}

TEST(SimCompute, ScenarioSeesRankIterationAndStart) {
  ClusterOptions options = slow_machine(2);
  options.scenario =
      std::make_shared<Scenario>(std::vector<std::string>{"kind=uniform,min=0ms,max=500ms"}, 2, 7);
  run(options, [&](Endpoint& endpoint) {
    for (std::uint64_t i = 0; i < 5; ++i) {
      const Seconds start = endpoint.now();
      const Seconds expected = options.scenario->stretched(endpoint.rank(), i, start, Seconds(1));
      endpoint.compute(work_of(1), ComputeKind::step, nothing);
      EXPECT_EQ(endpoint.now(), start + expected);
    }
  });
}

TEST(SimCompute, RunsItsFunctionOnceOnADeepStack) {
  std::atomic<int> runs = 0;
  for (const int threads : {1, 2, 4}) {
    ClusterOptions options = slow_machine(8);
    options.host_threads = threads;
    run(options, [&](Endpoint& endpoint) {
      for (int i = 0; i < 20; ++i) {
        endpoint.compute(work_of(1), ComputeKind::step, [&] {
          volatile char large[1 << 20];  // more than a fiber has
          large[0] = 1;
          runs += large[0];
        });
      }
    });
  }
  EXPECT_EQ(runs, 3 * 8 * 20);
}

TEST(SimCompute, ExceptionComesOutAtItsEnd) {
  run(slow_machine(1), [](Endpoint& endpoint) {
    try {
      endpoint.compute(work_of(2), ComputeKind::step, [] { throw runtime_failure("inside"); });
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "inside");
      endpoint.sleep(1s);  // a process may block while it handles an exception
    }
    EXPECT_EQ(now(endpoint), 3.0);
  });
}

TEST(SimCompute, DevicesComputeAndSurviveTheRun) {
  const auto cluster = make_cluster("sim", slow_machine(3));
  std::vector<Device*> devices(3);
  for (int repetition = 0; repetition < 2; ++repetition) {
    cluster->run([&](Endpoint& endpoint) {
      auto& mine = devices[static_cast<std::size_t>(endpoint.rank())];
      if (repetition == 1) {
        EXPECT_EQ(mine, &endpoint.device());
      }
      mine = &endpoint.device();
      Buffer x(endpoint.device(), 100);
      endpoint.compute({}, ComputeKind::vector,
                       [&] { endpoint.device().fill(100, 2.0F, x.data()); });
      double norm = 0;
      endpoint.compute({}, ComputeKind::vector,
                       [&] { norm = endpoint.device().squared_norm(100, x.data()); });
      EXPECT_EQ(norm, 400.0);
      endpoint.background_task("other",
                               [&mine](Endpoint& self) { EXPECT_NE(&self.device(), mine); });
    });
  }
}

// The token is cancelled at the very moment at which the computation ends. The event that cancels
// it is handled first, since it was scheduled first.
TEST(SimCompute, AComputationThatEndsAsItsTokenIsRaisedIsComplete) {
  run(slow_machine(1), [](Endpoint& endpoint) {
    const auto token = endpoint.make_cancellation_token();
    endpoint.background_task("canceller", [&token](Endpoint& self) {
      self.sleep(Seconds(3));
      token->cancel();
    });
    endpoint.sleep(Seconds(1));
    EXPECT_TRUE(endpoint.compute_cancellable(*token, work_of(2), ComputeKind::step, [] {}));
    EXPECT_EQ(now(endpoint), 3.0);
    EXPECT_FALSE(endpoint.compute_cancellable(*token, work_of(2), ComputeKind::step, [] {}));
    EXPECT_EQ(now(endpoint), 3.0);
  });
}

// --- a device of several processes ---------------------------------------------------------------

// Runs `work` on the only worker, beside a background task that computes vectors, one after the
// other, from the given times on. Returns the times at which each ended; `work` appends its own.
std::vector<double> beside_vectors(const std::vector<std::pair<double, double>>& start_and_length,
                                   const std::function<void(Endpoint&, std::vector<double>&)>& work,
                                   const std::vector<std::string>& scenario = {}) {
  ClusterOptions options = slow_machine(1);
  options.scenario = std::make_shared<Scenario>(scenario, 1, 1);
  auto ends = std::make_shared<std::vector<double>>();
  run(options, [&](Endpoint& endpoint) {
    endpoint.background_task("vectors", [=](Endpoint& self) {
      for (const auto& [start, length] : start_and_length) {
        if (start > now(self)) self.sleep(Seconds(start) - self.now());
        self.compute(work_of(length), ComputeKind::vector, nothing);
        ends->push_back(now(self));
      }
    });
    work(endpoint, *ends);
  });
  return *ends;
}

//   vectors   ..|3s3s3s|1s|....
//   step      ==|......|..|========    10 s of its own from 0 to 14
TEST(SimDevice, VectorsGoFirstAndTheStepTakesLonger) {
  const auto ends = beside_vectors({{2, 3}, {2, 1}}, [](Endpoint& endpoint, auto& all) {
    endpoint.compute(work_of(10), ComputeKind::step, nothing);
    all.push_back(now(endpoint));
    EXPECT_EQ(endpoint.time_breakdown().compute.count(), 10.0);
    EXPECT_EQ(endpoint.time_breakdown().wait.count(), 4.0);
  });
  EXPECT_EQ(ends, (std::vector<double>{5, 6, 14}));
}

TEST(SimDevice, VectorsQueueAndAStepThatBeginsBehindThemWaits) {
  const auto ends = beside_vectors({{1, 2}, {8, 1}}, [](Endpoint& endpoint, auto& all) {
    endpoint.compute(work_of(4), ComputeKind::vector, nothing);  // 0 .. 4: the other begins at 4
    all.push_back(now(endpoint));
    endpoint.compute(work_of(3), ComputeKind::step, nothing);  // 6 .. 8 and 9 .. 10
    all.push_back(now(endpoint));
  });
  EXPECT_EQ(ends, (std::vector<double>{4, 6, 9, 10}));
}

// The device rests in an injected delay (from 1 to 3 here), but not in a step that is slowed.
TEST(SimDevice, RestsInExtraDelaysAlone) {
  const auto step = [](Endpoint& endpoint, std::vector<double>& all) {
    endpoint.compute(work_of(1), ComputeKind::step, nothing);
    all.push_back(now(endpoint));
  };
  const std::vector<std::string> delay{"kind=uniform,min=2s,max=2s"},
      slow{"kind=constant,factor=3"};
  EXPECT_EQ(beside_vectors({{1.5, 1}}, step, delay), (std::vector<double>{2.5, 3}));
  EXPECT_EQ(beside_vectors({{0.5, 1}}, step, delay), (std::vector<double>{1.5, 4}));
  EXPECT_EQ(beside_vectors({{1.5, 1}}, step, slow), (std::vector<double>{2.5, 4}));
}

TEST(SimDevice, HoldsUpWhatCanBeCancelled) {
  for (const bool cut : {false, true}) {
    const auto ends = beside_vectors({{2, 3}}, [cut](Endpoint& endpoint, auto& all) {
      std::shared_ptr<CancellationToken> token = endpoint.make_cancellation_token();
      endpoint.background_task("cancels", [=](Endpoint& self) {
        self.sleep(Seconds(cut ? 12 : 20));
        token->cancel();
      });
      EXPECT_EQ(endpoint.compute_cancellable(*token, work_of(10), ComputeKind::step, nothing),
                !cut);
      all.push_back(now(endpoint));
      endpoint.compute(work_of(10), ComputeKind::step, nothing);  // nothing is left of the first
      all.push_back(now(endpoint));
    });
    const double end = cut ? 12 : 13;
    EXPECT_EQ(ends, (std::vector<double>{5, end, end + 10}));
  }
}

TEST(SimDevice, IsFreeWhileAVectorIsCopiedToTheHost) {
  ClusterOptions options = slow_machine(1);
  options.profiles[0].host_link_bytes_per_s = 1;
  run(options, [](Endpoint& endpoint) {
    endpoint.background_task("copies", [](Endpoint& self) {
      self.compute({.launches = 0, .host_link_bytes = 3}, ComputeKind::vector, nothing);
      EXPECT_EQ(now(self), 5.0);  // behind the first vector operation, beside the step
    });
    endpoint.compute(work_of(2), ComputeKind::vector, nothing);
    endpoint.compute(work_of(10), ComputeKind::step, nothing);
    EXPECT_EQ(now(endpoint), 12.0);
  });
}

// Other workers have devices of their own.
TEST(SimDevice, BelongsToOneWorker) {
  run(slow_machine(2), [](Endpoint& endpoint) {
    if (endpoint.rank() == 0) {
      endpoint.background_task("vectors", [](Endpoint& self) {
        self.compute(work_of(3), ComputeKind::vector, nothing);
      });
    }
    endpoint.compute(work_of(10), ComputeKind::step, nothing);
    EXPECT_EQ(now(endpoint), endpoint.rank() == 0 ? 13.0 : 10.0);
  });
}

TEST(SimTimeBreakdown, TimesAddUpToTheRun) {
  const auto report = run(slow_machine(3), [](Endpoint& endpoint) {
    auto service = serve<Echo>(endpoint, "echo");
    std::vector<float> v(100);
    for (int i = 0; i < 10; ++i) {
      endpoint.compute(work_of(1 + endpoint.rank()), ComputeKind::step, nothing);
      endpoint.comm().all_reduce(std::span(v));
      endpoint.compute(work_of(0.5), ComputeKind::vector, nothing);
      const int to = (endpoint.rank() + 1) % 3, from = (endpoint.rank() + 2) % 3;
      endpoint.comm().send(to, i, v);
      endpoint.comm().receive<float>(from, i, v);
      service.call({i});
      endpoint.sleep(Seconds(0.25));
    }
    endpoint.comm().barrier();
  });
  for (int r = 0; r < 3; ++r) {
    const TimeBreakdown& l = breakdown(report, r);
    EXPECT_NEAR((l.compute + l.communicate + l.wait).count(), report.elapsed.count(), 1e-9);
    EXPECT_DOUBLE_EQ(l.compute.count(), 10 * (1.5 + r));
  }
}

}  // namespace
}  // namespace hetsgd::sim
