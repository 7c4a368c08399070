// Services, companions, monitors and fences: the same on every cluster.
#include <atomic>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "cluster/conformance.hpp"

namespace hetsgd::conformance {
namespace {

class ProcessesOn : public OnEverySize {};
HETSGD_ON_EVERY_SIZE(ProcessesOn);

// --- services ----------------------------------------------------------------------------------

// Doubles the number and the payload. Counts without a lock: handlers run one at a time.
class Doubler final : public Service<Ask, Answer> {
 public:
  explicit Doubler(int* calls) : calls_(calls) {}
  void handle(int from, const Ask& ask, std::span<const float> payload,
              Responder<Answer> reply) override {
    ++*calls_;
    doubled_.assign(payload.begin(), payload.end());
    for (float& x : doubled_) x *= 2;
    reply({2 * ask.number, from}, doubled_);
  }

 private:
  int* calls_;
  std::vector<float> doubled_;
};

TEST_P(ProcessesOn, ServiceAnswersEachCallerWithItsPayload) {
  int calls = 0;
  run_on(cluster(), size(), [&](Node& node) {
    auto doubler = serve<Doubler>(node, "doubler", &calls);
    for (int i = 0; i < 50; ++i) {
      const std::size_t n = i % 5 == 0 ? 3000 : static_cast<std::size_t>(i % 3);
      const std::vector<float> x(n, static_cast<float>(100 * node.rank() + i));
      std::vector<float> y(n);
      const Answer answer = doubler.call({i}, x, y);
      EXPECT_EQ(answer.number, 2 * i);
      EXPECT_EQ(answer.from, node.rank());
      EXPECT_EQ(y, std::vector<float>(n, static_cast<float>(2 * (100 * node.rank() + i))));
    }
  });
  EXPECT_EQ(calls, is_here(cluster(), 0) ? 50 * size() : 0);
}

TEST_P(ProcessesOn, ServiceDefersItsReplyUntilAllHaveAsked) {
  std::atomic<int> asked = 0;
  run_on(cluster(), size(), [&](Node& node) {
    auto gather = serve<Gather>(node, "gather", node.size());
    for (int round = 1; round <= 20; ++round) {
      ++asked;
      const Answer answer = gather.call({node.rank() + round});
      EXPECT_GE(asked, round * ranks_here(cluster(), node.size()));
      EXPECT_EQ(answer.number, node.size() * (node.size() - 1) / 2 + node.size() * round);
      EXPECT_EQ(answer.from, node.rank());
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
  run_on(cluster(), size(), [&](Node& node) {
    // The last rank leaves before the service exists.
    if (node.rank() > 0 && node.rank() == node.size() - 1) return;
    if (node.size() > 1) node.sleep(Seconds(2e-3));
    auto last = serve<LastOne>(node, "last", node.size());
    if (node.rank() == 0) {
      EXPECT_EQ(last.call({}).number, node.size() * (node.size() - 1) / 2);
    }
  });
}

// --- companions ----------------------------------------------------------------------------------

TEST_P(ProcessesOn, CompanionAndMonitorPassEveryItemInOrder) {
  std::vector<std::vector<int>> got(static_cast<std::size_t>(size()));
  run_on(cluster(), size(), [&](Node& node) {
    auto channel = std::make_shared<Channel>(node);
    auto& mine = got[static_cast<std::size_t>(node.rank())];
    node.companion("consumer", [channel, &mine, rank = node.rank()](Node& self) {
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

// What a companion sends, its worker has sent.
TEST_P(ProcessesOn, CompanionsBytesAreTheirWorkers) {
  if (size() == 1) GTEST_SKIP() << "nobody to send to";
  const ClusterReport report = run_on(cluster(), size(), [](Node& node) {
    const std::shared_ptr<Comm> comm = node.comm().split(0, node.rank());
    node.companion("sender", [comm](Node& self) {
      std::vector<float> x(1000);
      if (self.rank() == 0) comm->send(1, 7, std::span<const float>(x), Traffic::gradients);
      if (self.rank() == 1) comm->receive(0, 7, std::span(x));
    });
  });
  if (!is_here(cluster(), 0)) return;
  const auto gradients = static_cast<std::size_t>(Traffic::gradients);
  EXPECT_EQ(report.workers[0].ledger.bytes_sent[gradients], 4000);
  EXPECT_EQ(report.workers[1].ledger.bytes_received[gradients], 4000);
}

// The companions' collectives on a duplicate of the group, while the workers use the group itself.
TEST_P(ProcessesOn, CompanionsHaveCollectivesOfTheirOwn) {
  run_on(cluster(), size(), [](Node& node) {
    std::shared_ptr<Comm> comm = node.comm().split(0, node.rank());
    node.companion("reduce", [comm](Node& self) {
      for (int i = 0; i < 20; ++i) {
        std::int64_t x = self.rank() + i;
        comm->all_reduce(std::span(&x, 1));
        EXPECT_EQ(x, self.size() * (self.size() - 1) / 2 + self.size() * i);
      }
    });
    for (int i = 0; i < 20; ++i) {
      std::int64_t x = i;
      node.comm().all_reduce(std::span(&x, 1), ReduceOp::max);
      EXPECT_EQ(x, i);
    }
  });
}

TEST_P(ProcessesOn, ComputeCountsStepsAndTime) {
  const auto report = run_on(cluster(), size(), [](Node& node) {
    double sum = 0;
    const Seconds before = node.now();
    for (int i = 0; i < 10; ++i) {
      node.compute({.operations = 1e6, .bytes = 0, .launches = 1}, ComputeKind::step, [&] {
        for (int k = 0; k < 1000; ++k) sum += std::sqrt(k);
      });
    }
    node.compute({.operations = 1e6, .bytes = 0, .launches = 1}, ComputeKind::vector,
                 [&] { sum += 1; });
    EXPECT_NEAR(sum, 10 * 21065.8 + 1, 1);
    EXPECT_GE(node.now() - before, node.ledger().compute * 0.999);
  });
  if (!is_here(cluster(), 0)) return;
  ASSERT_EQ(report.workers.size(), static_cast<std::size_t>(size()));
  for (int r = 0; r < size(); ++r) {
    const auto& worker = report.workers[static_cast<std::size_t>(r)];
    EXPECT_EQ(worker.rank, r);
    EXPECT_EQ(worker.ledger.steps, 10U);
    EXPECT_GT(worker.ledger.compute, Seconds(0));
    EXPECT_LE(worker.ledger.compute, report.elapsed * 1.001);
  }
}

// --- the fence -----------------------------------------------------------------------------------

TEST_P(ProcessesOn, FenceIsOffTheClock) {
  const auto report = run_on(cluster(), size(), [](Node& node) {
    node.comm().barrier();
    const Seconds before = node.now();
    if (node.rank() == 0) {
      node.fence([&] {
        const Seconds inside = node.now();
        std::this_thread::sleep_for(200ms);
        EXPECT_EQ(node.now(), inside);  // the clock stands
      });
    }
    node.comm().barrier();
    EXPECT_LT(node.now() - before, 150ms);
  });
  EXPECT_GE(report.fenced, 200ms);
  for (const auto& worker : report.workers) EXPECT_LT(worker.ledger.wait, 150ms);
}

TEST_P(ProcessesOn, FencesOfAllWorkersTakeTurns) {
  std::atomic<int> inside = 0, done = 0;
  run_on(cluster(), size(), [&](Node& node) {
    for (int i = 0; i < 10; ++i) {
      node.fence([&] {
        EXPECT_EQ(++inside, 1);
        std::this_thread::yield();
        --inside;
        ++done;
      });
    }
  });
  EXPECT_EQ(done, 10 * ranks_here(cluster(), size()));
}

TEST_P(ProcessesOn, FenceTogetherRunsOnceAndOffTheClock) {
  int runs = 0;
  run_on(cluster(), size(), [&](Node& node) {
    const Seconds before = node.now();
    for (int i = 0; i < 5; ++i) {
      node.fence_together([&] {
        EXPECT_EQ(node.rank(), 0);
        ++runs;
        std::this_thread::sleep_for(40ms);
      });
      node.comm().barrier();
    }
    EXPECT_LT(node.now() - before, 150ms);
  });
  EXPECT_EQ(runs, is_here(cluster(), 0) ? 5 : 0);
}

TEST_P(ProcessesOn, FenceStopsComputingCompanions) {
  std::atomic<int> steps = 0;
  run_on(cluster(), size(), [&](Node& node) {
    for (int companion = 0; companion < 2; ++companion) {
      node.companion("busy", [&](Node& self) {
        for (int i = 0; i < 20; ++i) {
          self.compute({.operations = 1e5, .bytes = 0, .launches = 1}, ComputeKind::step,
                       [&] { ++steps; });
          self.sleep(Seconds(1e-5));
        }
      });
    }
    node.fence([&] {
      const int seen = steps;
      std::this_thread::sleep_for(2ms);
      EXPECT_EQ(steps, seen);
    });
  });
  EXPECT_EQ(steps, 40 * ranks_here(cluster(), size()));
}

}  // namespace
}  // namespace hetsgd::conformance
