// While a GPU works on a batch its worker gathers the next one. To see it, the data change behind
// the worker's back: a batch that was on the GPU already is as it was.
#include <gtest/gtest.h>

#include "support/gpu.hpp"
#include "support/run.hpp"
#include "training/run_data.hpp"

namespace hetsgd::test {
namespace {

// Three rounds on one worker; `between` after the first. Leaves the losses in their order.
class ThreeRounds final : public Algorithm {
 public:
  using Round = std::function<std::vector<double>(Worker&)>;
  ThreeRounds(std::function<Round(Worker&)> start, std::function<void()> between)
      : start_(std::move(start)), between_(std::move(between)) {}

  void worker(Worker& self) const override {
    const Round round = start_(self);
    for (int i = 0; i < 3; ++i) {
      for (const double loss : round(self)) losses.push_back(loss);
      if (i == 0) between_();
    }
  }

  mutable std::vector<double> losses;

 private:
  std::function<Round(Worker&)> start_;
  std::function<void()> between_;
};

// The losses of three rounds, with the features' values zeroed after the first or not.
std::vector<double> losses_of(const std::function<ThreeRounds::Round(Worker&)>& start, bool zeroed,
                              const char* partition = "shared") {
  TrainOptions options;
  OptionSet set;
  options.declare(set);
  for (const auto& [key, text] :
       std::vector<std::pair<std::string, std::string>>{{"train", "generate:tiny"},
                                                        {"cache", "false"},
                                                        {"hidden", "8"},
                                                        {"cluster", "threads"},
                                                        {"devices", "cuda:0"},
                                                        {"max_samples", "1000"},
                                                        {"partition", partition}}) {
    set.set(key, {text}, OptionSource::flag, "--" + key);
  }
  RunData data = load_run_data(options);
  const auto changing = std::make_shared<Dataset>(*data.train.data);
  data.train.data = changing;
  const auto algorithm = std::make_shared<ThreeRounds>(start, [&] {
    if (zeroed) std::fill(changing->feature_value.begin(), changing->feature_value.end(), 0.0F);
  });
  AlgorithmInfo info;
  info.name = "three-rounds";
  Training training(options, set, algorithm, info);
  training.load(data);
  training.run({});
  if (training.failure()) std::rethrow_exception(training.failure());
  return algorithm->losses;
}

TEST(CudaAhead, TheNextBatchIsOnTheGpuBeforeItsStep) {
  const auto steps = [](Worker& self) -> ThreeRounds::Round {
    const auto w = std::make_shared<Buffer>(self.initial_parameters());
    return [w](Worker& worker) { return std::vector{worker.step(worker.next_batch(16), 0.1, *w)}; };
  };
  for (const char* partition : {"shared", "iid"}) {
    const auto plain = losses_of(steps, false, partition),
               zeroed = losses_of(steps, true, partition);
    ASSERT_EQ(plain.size(), 3U);
    EXPECT_EQ(zeroed[0], plain[0]);
    EXPECT_EQ(zeroed[1], plain[1]) << partition;  // was there before the data changed
    EXPECT_NE(zeroed[2], plain[2]) << partition;
  }
}

TEST(CudaAhead, SoIsThatOfTheNextLearner) {
  const auto steps = [](Worker& self) -> ThreeRounds::Round {
    const auto learners = std::make_shared<std::vector<Learner>>();
    for (int j = 0; j < 2; ++j) learners->push_back(self.make_learner());
    return [learners](Worker& worker) {
      const auto batches = worker.next_batches(16, {.mine = 2, .before = 0, .all = 2});
      worker.step(batches, 0.1, *learners);
      std::vector<double> norms;  // of the learners: the step has no losses to give
      for (Learner& learner : *learners) norms.push_back(worker.squared_norm(learner.w));
      return norms;
    };
  };
  const auto plain = losses_of(steps, false), zeroed = losses_of(steps, true);
  ASSERT_EQ(plain.size(), 6U);
  EXPECT_EQ(zeroed[2], plain[2]);  // the first learner's second batch
  EXPECT_NE(zeroed[3], plain[3]);
}

// Whose batches somebody else decides on finds them as they are when they are asked for.
TEST(CudaAhead, NotWhatIsDispatched) {
  const auto steps = [](Worker& self) -> ThreeRounds::Round {
    const auto w = std::make_shared<Buffer>(self.initial_parameters());
    const auto next = std::make_shared<std::uint64_t>(0);
    return [w, next](Worker& worker) {
      const Batch& batch = worker.batch_at({*next, 16});
      *next += 16;
      return std::vector{worker.step(batch, 0.1, *w)};
    };
  };
  const auto plain = losses_of(steps, false), zeroed = losses_of(steps, true);
  EXPECT_EQ(zeroed[0], plain[0]);
  EXPECT_NE(zeroed[1], plain[1]);
}

}  // namespace
}  // namespace hetsgd::test

int main(int argc, char** argv) { return hetsgd::test::run_gpu_tests(argc, argv); }
