// Computations that are cut short, and the clock of services: the same on every cluster.

#include "cluster/conformance.hpp"

namespace hetsgd::conformance {
namespace {

class InterruptsOn : public OnEveryCluster {};
HETSGD_ON_EVERY_CLUSTER(InterruptsOn);

// A worker whose every step is delayed by 200 ms, with another process that cancels the token
// after `after`.
void compute_against(const std::string& cluster, Seconds after,
                     const std::function<void(Endpoint&, CancellationToken&)>& worker) {
  ClusterOptions options = options_for(1);
  options.scenario = std::make_shared<const Scenario>(
      std::vector<std::string>{"kind=uniform,min=200ms,max=200ms"}, 1, 1);
  make_cluster(cluster, options)->run([&](Endpoint& endpoint) {
    const auto token = std::shared_ptr<CancellationToken>(endpoint.make_cancellation_token());
    endpoint.background_task("canceller", [token, after](Endpoint& background_task) {
      background_task.sleep(after);
      token->cancel();
    });
    worker(endpoint, *token);
  });
}

TEST_P(InterruptsOn, ComputationEndsWhenRaised) {
  compute_against(GetParam(), Seconds(0.05), [&](Endpoint& endpoint, CancellationToken& token) {
    Seconds begun{0};  // in real time; a busy host may begin late
    EXPECT_FALSE(endpoint.compute_cancellable(token, {}, ComputeKind::step, [&] {
      if (GetParam() != "sim") begun = endpoint.now();
    }));
    const double expected = 0.05, slack = GetParam() == "sim" ? 1e-12 : 0.1;
    EXPECT_GE(endpoint.now().count(), expected - 1e-12);
    EXPECT_LE(endpoint.now().count(), expected + slack);
    // On a busy host the clock advances between the end of the computation and this line.
    EXPECT_GE(endpoint.time_breakdown().compute.count(), expected - begun.count() - 1e-12);
    EXPECT_LE(endpoint.time_breakdown().compute.count(), endpoint.now().count() + 1e-12);
    EXPECT_NEAR(endpoint.time_breakdown().delay_requested.count(),
                endpoint.time_breakdown().delay_achieved.count(), 1e-3);
    EXPECT_EQ(endpoint.time_breakdown().steps, 1U);
  });
}

TEST_P(InterruptsOn, ComputationCompletesBefore) {
  compute_against(GetParam(), Seconds(0.5), [&](Endpoint& endpoint, CancellationToken& token) {
    int runs = 0;
    EXPECT_TRUE(endpoint.compute_cancellable(token, {}, ComputeKind::step, [&] { ++runs; }));
    EXPECT_EQ(runs, 1);
    EXPECT_GE(endpoint.now().count(), 0.2 - 1e-9);
    EXPECT_LE(endpoint.now().count(), 0.45);
  });
}

TEST_P(InterruptsOn, NothingStartsWhileRaisedAndAllDoesOnceLowered) {
  compute_against(GetParam(), Seconds(0), [&](Endpoint& endpoint, CancellationToken& token) {
    endpoint.sleep(Seconds(0.02));
    token.cancel();
    int runs = 0;
    const auto count = [&] { ++runs; };
    EXPECT_FALSE(endpoint.compute_cancellable(token, {}, ComputeKind::step, count));
    EXPECT_EQ(runs, 0);
    EXPECT_EQ(endpoint.time_breakdown().steps, 0U);
    token.reset();
    EXPECT_TRUE(endpoint.compute_cancellable(token, {}, ComputeKind::vector, count));
    EXPECT_EQ(runs, 1);
  });
}

TEST_P(InterruptsOn, ErrorsComeOut) {
  compute_against(GetParam(), Seconds(0.5), [&](Endpoint& endpoint, CancellationToken& token) {
    EXPECT_THROW(endpoint.compute_cancellable(token, {}, ComputeKind::vector,
                                              [] { throw std::runtime_error("kernel"); }),
                 std::runtime_error);
  });
}

TEST_P(InterruptsOn, AnotherComputationMayFollowACutOne) {
  compute_against(GetParam(), Seconds(0.05), [&](Endpoint& endpoint, CancellationToken& token) {
    EXPECT_FALSE(endpoint.compute_cancellable(token, {}, ComputeKind::step, [] {}));
    token.reset();
    const Seconds start = endpoint.now();
    EXPECT_TRUE(endpoint.compute_cancellable(token, {}, ComputeKind::step, [] {}));
    EXPECT_GE((endpoint.now() - start).count(), 0.2 - 1e-3);
  });
}

// --- the clock of a service

struct When {
  double now_s;
};

class Watch final : public Service<Ask, When> {
 public:
  void handle(int, const Ask&, std::span<const float>, Responder<When> reply) override {
    reply({now().count()});
  }
};

TEST_P(InterruptsOn, ServicesSeeTheTrainingClock) {
  run_on(GetParam(), 2, [](Endpoint& endpoint) {
    auto watch = serve<Watch>(endpoint, "watch");
    for (int i = 0; i < 5; ++i) {
      const Seconds asked = endpoint.now();
      const When when = watch.call({i});
      EXPECT_GE(when.now_s, asked.count());
      EXPECT_LE(when.now_s, endpoint.now().count());
      endpoint.sleep(Seconds(1e-3));
    }
  });
}

}  // namespace
}  // namespace hetsgd::conformance
