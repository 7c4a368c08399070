// While a GPU computes on a batch its worker gathers the next one. To see it, the test changes the
// data behind the worker's back: a batch that is on the GPU already stays as it was.

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
    end_run(self);
  }

  mutable std::vector<double> losses;

 private:
  std::function<Round(Worker&)> start_;
  std::function<void()> between_;
};

// The losses of three rounds, with the features' values zeroed after the first or not.
std::vector<double> losses_of(const std::function<ThreeRounds::Round(Worker&)>& start, bool zeroed,
                              const char* partition = "shared") {
  Configuration run(tiny(
      "sgd",
      fmt::format("--hidden 8 --cluster threads --devices cuda:0 --max-samples 1000 --partition {}",
                  partition)));
  RunData data = load_run_data(run.options);
  Dataset changing = *data.train.data;
  std::vector<float> values(changing.sparse.value.begin(), changing.sparse.value.end());
  changing.sparse.value = values;
  data.train.data = std::make_shared<const Dataset>(changing);
  const auto algorithm = std::make_shared<ThreeRounds>(start, [&] {
    if (zeroed) std::ranges::fill(values, 0.0F);
  });
  AlgorithmInfo info;
  info.name = "three-rounds";
  Training training({run.options, run.spec().set, algorithm, info});
  training.load(data);
  run_loaded(training);
  return algorithm->losses;
}

TEST(CudaAhead, TheNextBatchIsOnTheGpuBeforeItsStep) {
  const auto steps = [](Worker& self) -> ThreeRounds::Round {
    const auto replica = std::make_shared<Replica>(self.replica());
    return [replica](Worker& worker) {
      return std::vector{worker.learn(*replica, worker.batches().next(16), 0.1)};
    };
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

TEST(CudaAhead, SoAreThoseOfAllLearners) {
  const auto steps = [](Worker& self) -> ThreeRounds::Round {
    const auto learners = std::make_shared<std::vector<Replica>>();
    for (int j = 0; j < 2; ++j) learners->push_back(self.replica());
    return [learners](Worker& worker) {
      const auto batches = worker.batches().next(16, {.mine = 2, .before = 0, .all = 2});
      worker.learn(*learners, batches, 0.1);
      std::vector<double> norms;  // learn() returns the mean of the learners' losses
      for (Replica& learner : *learners) norms.push_back(worker.squared_norm(learner.w));
      return norms;
    };
  };
  const auto plain = losses_of(steps, false), zeroed = losses_of(steps, true);
  ASSERT_EQ(plain.size(), 6U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(zeroed[i], plain[i]);  // two rounds of two learners
  EXPECT_NE(zeroed[4], plain[4]);
  EXPECT_NE(zeroed[5], plain[5]);
}

// A worker whose batches others decide on reads each batch when it asks for it.
TEST(CudaAhead, NotWhatIsDispatched) {
  const auto steps = [](Worker& self) -> ThreeRounds::Round {
    const auto replica = std::make_shared<Replica>(self.replica());
    const auto next = std::make_shared<std::uint64_t>(0);
    return [replica, next](Worker& worker) {
      const Batch& batch = worker.batches().at({*next, 16});
      *next += 16;
      return std::vector{worker.learn(*replica, batch, 0.1)};
    };
  };
  const auto plain = losses_of(steps, false), zeroed = losses_of(steps, true);
  EXPECT_EQ(zeroed[0], plain[0]);
  EXPECT_NE(zeroed[1], plain[1]);
}

}  // namespace
}  // namespace hetsgd::test
