// Algorithms that break the rules of Worker: each is stopped, and the text names the broken rule.

#include "cluster/trace/trace.hpp"
#include "core/error.hpp"
#include "support/run.hpp"

namespace hetsgd::test {
namespace {

enum class Misuse { leaves_early, leaves_at_once, runs_twice, is_idle };

template <Misuse misuse>
class Misused final : public Algorithm {
 public:
  void worker(Worker& self) const override {
    const std::uint64_t b = self.plan().batch_size;
    Replica replica = self.replica();
    if (misuse == Misuse::leaves_at_once) return;
    for (int i = 0; self.running(); ++i) {
      if (misuse == Misuse::is_idle) continue;
      if (misuse == Misuse::leaves_early && i == 3) return;
      if (misuse == Misuse::runs_twice && self.rank() == 1 && !self.running()) return;
      self.learn(replica, self.batches().next(b), self.learning_rate(b));
      self.evaluate_here(replica.w);
    }
  }
};

template <Misuse misuse>
std::string failure_of(const std::string& cluster) {
  try {
    run_algorithm(
        std::make_shared<Misused<misuse>>(),
        tiny("ssgd", fmt::format("--workers 2 --cluster {} --max-samples 100000", cluster)), {},
        "misused");
  } catch (const CheckFailure& error) {
    return error.what();
  }
  return "no failure";
}

struct Nothing {};
class Answering final : public Service<Nothing, Nothing> {
 public:
  void handle(int, const Nothing&, std::span<const float>, Responder<Nothing> reply) override {
    reply({}, {}, Traffic::control);
  }
};

// A port that another process of the worker has opened: with a trace two threads would write to one
// line.
class SharesAPort final : public Algorithm {
 public:
  void worker(Worker& self) const override {
    auto client = self.serve<Answering>("answers");
    self.background_task("asks", [client](Worker&) mutable { client.call({}); });
    end_run(self);
  }
};

TEST(Misuse, APortBelongsToTheProcessThatHasOpenedIt) {
  Trace trace;
  EXPECT_THROW(run_algorithm(std::make_shared<SharesAPort>(),
                             tiny("ssgd", "--cluster threads --epochs 1"), {.trace = &trace}),
               CheckFailure);
}

// The slowest worker of each iteration is a backup worker: its gradient is in no update.
class Spare final : public Algorithm {
 public:
  void worker(Worker& self) const override {
    const std::uint64_t b = self.plan().batch_size;
    Replica replica = self.replica();
    while (self.running()) {
      const double lr = self.learning_rate(b);
      const Batch& batch = self.batches().next(b);
      self.gradient(replica, batch);
      if (self.rank() == 0) self.discard(batch);
      double used = self.rank() == 0 ? 0 : 1;
      self.scale(used, replica.gradient.flat.span());
      self.all_reduce_gradient(replica);
      self.apply(replica, lr);
      self.evaluate_here(replica.w);
    }
  }
};

TEST(Discarded, SamplesDoNotCount) {
  for (const char* cluster : {"sim", "threads"}) {
    const Record record = run_algorithm(
        std::make_shared<Spare>(),
        tiny("ssgd", fmt::format("--workers 3 --cluster {} --max-samples 640 --evaluate-every 128",
                                 cluster)));
    EXPECT_EQ(record.curve.back().samples_count, 640U);
    EXPECT_EQ(record.workers[0].samples, 0U);
    EXPECT_EQ(record.workers[1].samples + record.workers[2].samples, 640U);
    EXPECT_EQ(record.curve.size(), 6U);
  }
}

TEST(Misuse, IsNamed) {
  for (const char* cluster : {"sim", "threads"}) {
    SCOPED_TRACE(cluster);
    EXPECT_THAT(failure_of<Misuse::leaves_early>(cluster),
                testing::ContainsRegex("misused: worker [01] has left while running\\(\\) was "
                                       "true, after 4 calls of it"));
    EXPECT_THAT(failure_of<Misuse::leaves_at_once>(cluster),
                testing::HasSubstr("after 0 calls of it"));
    EXPECT_THAT(failure_of<Misuse::runs_twice>(cluster),
                testing::HasSubstr("all workers of a synchronous algorithm make the same calls"));
    EXPECT_THAT(
        failure_of<Misuse::is_idle>(cluster),
        testing::HasSubstr("calls running() for the 1000000th time without doing anything"));
  }
}

}  // namespace
}  // namespace hetsgd::test
