// Computations that are cut short, and the clock of services: the same on every cluster.
#include <cmath>
#include <memory>

#include "cluster/conformance.hpp"

namespace hetsgd::conformance {
namespace {

class InterruptsOn : public OnEveryCluster {};
HETSGD_ON_EVERY_CLUSTER(InterruptsOn);

// A worker whose every step is delayed by 200 ms, with another process that raises the interrupt
// after `after`.
void compute_against(const std::string& cluster, Seconds after,
                     const std::function<void(Node&, Interrupt&)>& worker) {
  ClusterOptions options = options_for(1);
  options.scenario = std::make_shared<const Scenario>(
      std::vector<std::string>{"kind=uniform,min=200ms,max=200ms"}, 1, 1);
  make_cluster(cluster, options)->run([&](Node& node) {
    const auto interrupt = std::shared_ptr<Interrupt>(node.make_interrupt());
    node.companion("raiser", [interrupt, after](Node& companion) {
      companion.sleep(after);
      interrupt->raise();
    });
    worker(node, *interrupt);
  });
}

TEST_P(InterruptsOn, ComputationEndsWhenRaised) {
  compute_against(GetParam(), Seconds(0.05), [&](Node& node, Interrupt& interrupt) {
    EXPECT_FALSE(node.compute_unless(interrupt, {}, ComputeKind::step, [] {}));
    const double expected = 0.05, slack = GetParam() == "sim" ? 1e-12 : 0.1;
    EXPECT_GE(node.now().count(), expected - 1e-12);
    EXPECT_LE(node.now().count(), expected + slack);
    EXPECT_NEAR(node.ledger().compute.count(), node.now().count(), 0.01);
    EXPECT_NEAR(node.ledger().delay_requested.count(), node.ledger().delay_achieved.count(), 1e-3);
    EXPECT_EQ(node.ledger().steps, 1U);
  });
}

TEST_P(InterruptsOn, ComputationCompletesBefore) {
  compute_against(GetParam(), Seconds(0.5), [&](Node& node, Interrupt& interrupt) {
    int runs = 0;
    EXPECT_TRUE(node.compute_unless(interrupt, {}, ComputeKind::step, [&] { ++runs; }));
    EXPECT_EQ(runs, 1);
    EXPECT_GE(node.now().count(), 0.2 - 1e-9);
    EXPECT_LE(node.now().count(), 0.45);
  });
}

TEST_P(InterruptsOn, NothingStartsWhileRaisedAndAllDoesOnceLowered) {
  compute_against(GetParam(), Seconds(0), [&](Node& node, Interrupt& interrupt) {
    node.sleep(Seconds(0.02));
    interrupt.raise();
    int runs = 0;
    const auto count = [&] { ++runs; };
    EXPECT_FALSE(node.compute_unless(interrupt, {}, ComputeKind::step, count));
    EXPECT_EQ(runs, 0);
    EXPECT_EQ(node.ledger().steps, 0U);
    interrupt.lower();
    EXPECT_TRUE(node.compute_unless(interrupt, {}, ComputeKind::vector, count));
    EXPECT_EQ(runs, 1);
  });
}

TEST_P(InterruptsOn, ErrorsComeOut) {
  compute_against(GetParam(), Seconds(0.5), [&](Node& node, Interrupt& interrupt) {
    EXPECT_THROW(node.compute_unless(interrupt, {}, ComputeKind::vector,
                                     [] { throw std::runtime_error("kernel"); }),
                 std::runtime_error);
  });
}

TEST_P(InterruptsOn, AnotherComputationMayFollowACutOne) {
  compute_against(GetParam(), Seconds(0.05), [&](Node& node, Interrupt& interrupt) {
    EXPECT_FALSE(node.compute_unless(interrupt, {}, ComputeKind::step, [] {}));
    interrupt.lower();
    const Seconds start = node.now();
    EXPECT_TRUE(node.compute_unless(interrupt, {}, ComputeKind::step, [] {}));
    EXPECT_GE((node.now() - start).count(), 0.2 - 1e-3);
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
  run_on(GetParam(), 2, [](Node& node) {
    auto watch = serve<Watch>(node, "watch");
    for (int i = 0; i < 5; ++i) {
      const Seconds asked = node.now();
      const When when = watch.call({i});
      EXPECT_GE(when.now_s, asked.count());
      EXPECT_LE(when.now_s, node.now().count());
      node.sleep(Seconds(1e-3));
    }
  });
}

}  // namespace
}  // namespace hetsgd::conformance
