// Algorithms that break the rules of Worker: each is stopped, and the text says which rule it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

// Not registered: other tests run every algorithm that is.
template <Misuse misuse>
std::string failure_of(const std::string& cluster) {
  const Configuration configuration(
      tiny("ssgd", {{"workers", "2"}, {"cluster", cluster}, {"max_samples", "100000"}}));
  RunSpec spec = configuration.spec();
  spec.algorithm = std::make_shared<Misused<misuse>>();
  spec.info.name = "misused";
  Training training(spec);
  training.load();
  try {
    training.run({});
    if (training.failure()) std::rethrow_exception(training.failure());
  } catch (const CheckFailure& error) {
    return error.what();
  }
  return "no failure";
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
