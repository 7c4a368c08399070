// Services in virtual time: links, queues, service times, deferral.
#include "cluster/sim_support.hpp"

namespace hetsgd::sim {
namespace {

// Requests and replies of 4 bytes: 1/16 s on a worker's link, 1/8 s on the services' link.
struct Ask {
  std::int32_t operations = 0;  // service time: an eighth of a second each
};
struct Answer {
  std::int32_t number = 0;
};
constexpr double kLatency = 0.125, kOnServerLink = 0.125;
constexpr double kThere = kLatency + kOnServerLink;  // of an empty request, and the same back

// Answers with the number of requests so far. Keeps the order and times of what it handles.
class Counter final : public Service<Ask, Answer> {
 public:
  struct Log {
    std::vector<int> order;
    std::vector<int> left;
  };
  explicit Counter(Log* log) : log_(log) {}
  void handle(int from, const Ask&, std::span<const float>, Responder<Answer> reply) override {
    log_->order.push_back(from);
    reply({static_cast<std::int32_t>(log_->order.size())});
  }
  Work work(const Ask& ask, std::size_t payload_count) const override {
    return {static_cast<double>(ask.operations), 4.0 * static_cast<double>(payload_count), 0};
  }
  void left(int rank) override { log_->left.push_back(rank); }

 private:
  Log* log_;
};

TEST(SimService, CallTakesBothWaysAndTheServiceTime) {
  Counter::Log log;
  const auto report = run(slow_machine(1), [&](Endpoint& endpoint) {
    auto counter = serve<Counter>(endpoint, "counter", &log);
    EXPECT_EQ(counter.call({.operations = 16}).number, 1);
    EXPECT_EQ(now(endpoint), 2 * kThere + 2.0);
  });
  EXPECT_EQ(breakdown(report, 0).communicate.count(), 2 * kThere);
  EXPECT_EQ(breakdown(report, 0).wait.count(), 2.0);
  EXPECT_EQ(breakdown(report, 0).bytes_sent[kControl], 4U);
  EXPECT_EQ(breakdown(report, 0).bytes_received[kControl], 4U);
  EXPECT_EQ(log.left, (std::vector<int>{0}));
}

TEST(SimService, AFactoryThatFailedLeavesNothingBehind) {
  Counter::Log log;
  run(slow_machine(1), [&](Endpoint& endpoint) {
    const auto fails = []() -> std::unique_ptr<ServiceHandler> { throw usage_error("not now"); };
    EXPECT_THROW(endpoint.open_service("counter", {fails}), Error);
    EXPECT_EQ(serve<Counter>(endpoint, "counter", &log).call({}).number, 1);
  });
}

// Sends the payload back, for a launch and 16 bytes per number.
class CostlyEcho final : public Service<Ask, Answer> {
 public:
  void handle(int, const Ask&, std::span<const float> payload, Responder<Answer> reply) override {
    reply({}, payload, Traffic::parameters);
  }
  Work work(const Ask&, std::size_t payload_count) const override {
    return {0, 16.0 * static_cast<double>(payload_count), 1};
  }
};

TEST(SimService, PayloadsAndTheirWorkAreChargedAtFullSize) {
  ClusterOptions options = slow_machine(1);
  options.payload_scale = 2;
  options.work_scale = 3;
  const auto report = run(options, [&](Endpoint& endpoint) {
    auto echo = serve<CostlyEcho>(endpoint, "echo");
    const std::vector<float> x{1, 2, 3};
    std::vector<float> y(3);
    echo.call({}, x, y, Traffic::gradients);
    EXPECT_EQ(y, x);
    const double on_link = (4 + 24) / 32.0;
    const double service = 0.5 + 3 * 48 / 16.0;  // one launch; three times the bytes
    EXPECT_EQ(now(endpoint), 2 * (kLatency + on_link) + service);
  });
  EXPECT_EQ(breakdown(report, 0).bytes_sent, (TrafficBytes{0, 24, 4}));
  EXPECT_EQ(breakdown(report, 0).bytes_received, (TrafficBytes{24, 0, 4}));
}

// The host has a profile of its own, and no worker's speed; computations keep the workers'.
TEST(SimService, ServicesComputeOnTheHost) {
  ClusterOptions options = slow_machine(1);
  options.server_profile = options.profiles[0];
  options.server_profile->operations_per_s = 2;
  options.speed = {0.5};
  Counter::Log log;
  run(options, [&](Endpoint& endpoint) {
    auto counter = serve<Counter>(endpoint, "counter", &log);
    counter.call({.operations = 16});
    EXPECT_EQ(now(endpoint), 2 * kThere + 8.0);
    endpoint.compute(work_of(1), ComputeKind::vector, nothing);
    EXPECT_EQ(now(endpoint), 2 * kThere + 10.0);
  });
}

// Both ends of the services' link and the server serialise. The lowest rank wins ties, in any order
// of calls.
TEST(SimService, SimultaneousRequestsAreServedByRank) {
  Counter::Log log;
  std::vector<int> called;
  std::vector<double> done(4);
  run(slow_machine(4), [&](Endpoint& endpoint) {
    auto counter = serve<Counter>(endpoint, "counter", &log);
    const Seconds first(1.0 - 0.25 * endpoint.rank());
    endpoint.sleep(first);
    endpoint.sleep(Seconds(2) - first);
    called.push_back(endpoint.rank());
    EXPECT_EQ(counter.call({.operations = 8}).number, endpoint.rank() + 1);
    done[static_cast<std::size_t>(endpoint.rank())] = now(endpoint);
  });
  EXPECT_EQ(called, (std::vector<int>{3, 2, 1, 0}));
  EXPECT_EQ(log.order, (std::vector<int>{0, 1, 2, 3}));
  // The service time of 1 s is the bottleneck.
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(done[static_cast<std::size_t>(r)], 2 + 2 * kThere + 1.0 * (r + 1));
  }
}

TEST(SimService, ItsLinkSerialisesRequestsAndReplies) {
  std::vector<double> done(3);
  ClusterOptions options = slow_machine(3);
  options.profiles[0].launch_overhead_s = 0;
  options.profiles[0].bytes_per_s = 1e30;
  run(options, [&](Endpoint& endpoint) {
    auto echo = serve<CostlyEcho>(endpoint, "echo");
    std::vector<float> x(15);  // 64 bytes with the struct: 2 s each way
    echo.call({}, x, x);
    done[static_cast<std::size_t>(endpoint.rank())] = now(endpoint);
  });
  // Requests arrive at 2.125, 4.125, 6.125; each reply takes 2.125 more and finds the other
  // direction free.
  for (int r = 0; r < 3; ++r) EXPECT_NEAR(done[static_cast<std::size_t>(r)], 4.25 + 2 * r, 1e-12);
}

// Replies to all when the last has asked.
class AllAtOnce final : public Service<Ask, Answer> {
 public:
  explicit AllAtOnce(std::size_t workers) : workers_(workers) {}
  void handle(int, const Ask&, std::span<const float>, Responder<Answer> reply) override {
    waiting_.push_back(std::move(reply));
    if (waiting_.size() < workers_) return;
    for (auto& one : waiting_) one({7});
    waiting_.clear();
  }
  Work work(const Ask&, std::size_t) const override { return {}; }

 private:
  std::size_t workers_;
  std::vector<Responder<Answer>> waiting_;
};

TEST(SimService, DeferralIsWaiting) {
  const auto report = run(slow_machine(2), [](Endpoint& endpoint) {
    auto all = serve<AllAtOnce>(endpoint, "all", 2U);
    endpoint.sleep(Seconds(4.0 * endpoint.rank()));
    all.call({});
    // Both are answered at 4 + kThere; the services' link sends rank 0's reply first.
    EXPECT_EQ(now(endpoint), 4 + 2 * kThere + endpoint.rank() * kOnServerLink);
  });
  EXPECT_EQ(breakdown(report, 0).wait.count(), 4.0);
  EXPECT_EQ(breakdown(report, 0).communicate.count(), 2 * kThere);
  EXPECT_EQ(breakdown(report, 1).wait.count(), 4.0);  // asleep
  EXPECT_EQ(breakdown(report, 1).communicate.count(), 2 * kThere + kOnServerLink);
}

TEST(SimService, RequestIsWhatItWasWhenTheCallWasMade) {
  run(slow_machine(1), [](Endpoint& endpoint) {
    std::vector<float> x{1, 2, 3}, y(3);
    endpoint.background_task("overwrites", [&](Endpoint& self) {
      self.sleep(Seconds(0.01));
      x.assign(3, -1.0F);
    });
    serve<Echo>(endpoint, "echo").call({}, x, y);
    EXPECT_EQ(y, (std::vector<float>{1, 2, 3}));
  });
}

TEST(SimService, TwoServicesWorkSideBySideBehindOneLink) {
  Counter::Log log_a, log_b;
  run(slow_machine(2), [&](Endpoint& endpoint) {
    auto counter = serve<Counter>(endpoint, endpoint.rank() == 0 ? "a" : "b",
                                  endpoint.rank() == 0 ? &log_a : &log_b);
    EXPECT_EQ(counter.call({.operations = 80}).number, 1);
    // 10 s each at the same time; the second request came through the link an eighth later.
    EXPECT_EQ(now(endpoint), 10 + 2 * kThere + endpoint.rank() * kOnServerLink);
  });
}

class Blocks final : public Service<Ask, Answer> {
 public:
  explicit Blocks(Endpoint* endpoint) : endpoint_(endpoint) {}
  void handle(int, const Ask&, std::span<const float>, Responder<Answer> reply) override {
    endpoint_->comm().barrier();
    reply({});
  }

 private:
  Endpoint* endpoint_;
};

TEST(SimService, HandlersMustNotBlock) {
  EXPECT_EQ(failure_of<CheckFailure>(
                slow_machine(1),
                [](Endpoint& endpoint) { serve<Blocks>(endpoint, "blocks", &endpoint).call({}); }),
            "barrier was called where nothing may block: in a service's handler, in a pause, or "
            "outside of the "
            "run");
}

}  // namespace
}  // namespace hetsgd::sim
