// Replicas keep their state to themselves. Replicas that learn at once learn as they do alone.
// Samples come in the order that BatchSource promises.

#include <mutex>

#include "graph/networks.hpp"
#include "model/network/graph_model.hpp"
#include "support/run.hpp"

namespace hetsgd::test {
namespace {

class OneFunction final : public Algorithm {
 public:
  explicit OneFunction(std::function<void(Worker&)> fn) : fn_(std::move(fn)) {}
  void worker(Worker& self) const override {
    fn_(self);
    end_run(self);
  }

 private:
  std::function<void(Worker&)> fn_;
};

// The life of every worker of a simulated run is fn.
void run_workers(const Settings& more, std::function<void(Worker&)> fn) {
  TrainOptions options;
  OptionSet set;
  options.declare(set);
  for (const auto& [key, text] :
       with("--train generate:tiny --cache false --hidden 8 --order sequential --max-samples 1000",
            more)) {
    set.set(key, {text}, OptionSource::flag, "--" + key);
  }
  AlgorithmInfo info;
  info.name = "one-function";
  Training training({options, set, std::make_shared<OneFunction>(std::move(fn)), info});
  training.load();
  run_loaded(training);
}

std::vector<float> weights(Worker& self, const Replica& replica) {
  const auto w = self.on_host(replica.w);
  return {w.begin(), w.end()};
}

std::vector<Batch> three_batches(Worker& self) {
  std::vector<Batch> batches;
  for (int i = 0; i < 3; ++i) batches.push_back(self.batches().next(16));
  return batches;
}

TEST(Replica, TwoOfOneWorkerShareNothing) {
  for (const char* optimizer : {"sgd", "momentum", "adam"}) {
    run_workers({{"optimizer", optimizer}}, [&](Worker& self) {
      const std::vector<Batch> batches = three_batches(self);
      Replica alone = self.replica(), one = self.replica(), other = self.replica();
      for (const Batch& batch : batches) self.learn(alone, batch, 0.1);
      for (const Batch& batch : batches) {
        self.learn(one, batch, 0.1);
        self.learn(other, batches.front(), 0.5);
      }
      EXPECT_EQ(weights(self, one), weights(self, alone)) << optimizer;
      EXPECT_NE(weights(self, other), weights(self, alone)) << optimizer;
    });
  }
}

TEST(Replica, SeveralAtOnceLearnAsEachAlone) {
  for (const char* optimizer : {"sgd", "momentum"}) {
    run_workers({{"optimizer", optimizer}}, [&](Worker& self) {
      const std::vector<Batch> batches = three_batches(self);
      std::vector<Replica> together(3), alone(3);
      double sum = 0, mean = 0;
      for (int round = 0; round < 2; ++round) {
        sum = 0;
        for (std::size_t j = 0; j < 3; ++j) {
          if (round == 0) together[j] = self.replica();
          if (round == 0) alone[j] = self.replica();
          sum += self.learn(alone[j], batches[j], 0.1);
        }
        mean = self.learn(together, batches, 0.1);
      }
      EXPECT_DOUBLE_EQ(mean, sum / 3);
      for (std::size_t j = 0; j < 3; ++j) {
        EXPECT_EQ(weights(self, together[j]), weights(self, alone[j])) << optimizer;
      }
      EXPECT_EQ(self.samples(), 2U * 2 * 3 * 16);
      EXPECT_EQ(self.updates(), 2U * 2 * 3);
    });
  }
}

TEST(Replica, ARehearsalCountsForNothing) {
  run_workers("--optimizer momentum", [](Worker& self) {
    const Batch batch = self.batches().next(16);
    Replica rehearsed = self.replica(), fresh = self.replica();
    const auto start = weights(self, rehearsed);
    EXPECT_GT(self.rehearse(rehearsed, batch, 0.1), Seconds(0));
    EXPECT_NE(weights(self, rehearsed), start);
    EXPECT_EQ(self.samples(), 0U);
    EXPECT_EQ(self.updates(), 0U);
    self.copy(fresh.w, rehearsed.w);
    for (int i = 0; i < 2; ++i) {
      self.learn(rehearsed, batch, 0.1);
      self.learn(fresh, batch, 0.1);
    }
    EXPECT_EQ(weights(self, rehearsed), weights(self, fresh));
  });
}

TEST(Replica, AnInterruptedGradientCountsForNothing) {
  run_workers({}, [](Worker& self) {
    const Batch batch = self.batches().next(16);
    Replica replica = self.replica();
    const auto token = self.make_cancellation_token();
    token->cancel();
    EXPECT_FALSE(self.gradient_cancellable(*token, replica, batch));
    EXPECT_EQ(self.samples(), 0U);
    token->reset();
    EXPECT_TRUE(self.gradient_cancellable(*token, replica, batch));
    EXPECT_EQ(self.samples(), 16U);
    const Gradient unhindered = std::move(replica.gradient);
    replica.gradient = {};
    self.gradient(replica, batch);
    EXPECT_TRUE(std::ranges::equal(replica.gradient.flat.span(), unhindered.flat.span()));
  });
}

// After a sum over workers the gradient has rows that the next batch does not touch.
TEST(Replica, ASummedGradientLeavesNoTrace) {
  run_workers("--workers 2 --optimizer momentum", [](Worker& self) {
    const std::vector<Batch> batches = three_batches(self);
    Replica summed = self.replica(), fresh = self.replica();
    self.gradient(summed, batches[0]);
    self.all_reduce_gradient(summed);
    self.gradient(summed, batches[1]);
    self.gradient(fresh, batches[1]);
    EXPECT_TRUE(std::ranges::equal(summed.gradient.flat.span(), fresh.gradient.flat.span()));
  });
}

// --no-decay-all: an update without a gradient shrinks the weights of a network, and leaves biases,
// and scales and shifts of bn, as they are.
TEST(Replica, WeightDecayLeavesVectorsAlone) {
  const Graph graph = find_graph("--model", "resnet-32?size=16");
  const auto model = make_graph_model<float>(graph, data_shape(graph), {.decay_all = false});
  const auto device = make_cpu_device<float>(1);
  const auto optimizer = make_optimizer({.weight_decay = 0.5}, *device, model->parameters(),
                                        tensors_of(model->layout()));
  std::vector<float> w(model->parameters(), 1), g(w.size(), 0);
  optimizer->update(*device, 0.1, g, w);
  for (const ParameterBlock& block : model->layout().blocks) {
    EXPECT_FLOAT_EQ(w[block.offset], block.name.ends_with(".weight") ? 0.95F : 1) << block.name;
  }
}

std::vector<Index> rows(const Batch& batch) { return {batch.rows().begin(), batch.rows().end()}; }

TEST(BatchSource, WorkersInterleaveThePoolByRank) {
  std::mutex mutex;
  std::vector<std::vector<Index>> taken(2);
  run_workers("--workers 2", [&](Worker& self) {
    for (int i = 0; i < 2; ++i) {
      const auto next = rows(self.batches().next(3));
      const std::lock_guard lock(mutex);
      std::vector<Index>& mine = taken[static_cast<std::size_t>(self.rank())];
      mine.insert(mine.end(), next.begin(), next.end());
    }
  });
  EXPECT_THAT(taken[0], testing::ElementsAre(0, 1, 2, 6, 7, 8));
  EXPECT_THAT(taken[1], testing::ElementsAre(3, 4, 5, 9, 10, 11));
}

TEST(BatchSource, LearnersInterleaveThePoolInTheOrderOfTheirShare) {
  run_workers({}, [](Worker& self) {
    const LearnerShare share{.mine = 2, .before = 1, .all = 4};
    for (Index first : {2U, 10U}) {
      const auto batches = self.batches().next(2, share);
      EXPECT_THAT(rows(batches[0]), testing::ElementsAre(first, first + 1));
      EXPECT_THAT(rows(batches[1]), testing::ElementsAre(first + 2, first + 3));
    }
  });
}

TEST(BatchSource, ForetellsWhatDependsOnThisWorkerAlone) {
  run_workers({}, [](Worker& self) {
    BatchSource& batches = self.batches();
    EXPECT_EQ(batches.upcoming(), nullptr);
    batches.next(4);
    const auto upcoming = rows(*batches.upcoming());
    EXPECT_THAT(upcoming, testing::ElementsAre(4, 5, 6, 7));
    EXPECT_EQ(rows(batches.next(4)), upcoming);
    batches.upcoming();
    EXPECT_THAT(rows(batches.next(2)), testing::ElementsAre(8, 9));  // not as it was last time
    EXPECT_THAT(rows(batches.at({100, 2})), testing::ElementsAre(100, 101));
    EXPECT_EQ(batches.upcoming(), nullptr);  // somebody else deals
  });
}

TEST(BatchSource, ForetellsTheBatchOfEachLearner) {
  run_workers({}, [](Worker& self) {
    BatchSource& batches = self.batches();
    const LearnerShare two{.mine = 2, .before = 1, .all = 4},
        three{.mine = 3, .before = 0, .all = 3};
    batches.next(2, two);
    EXPECT_THAT(rows(*batches.upcoming(1)), testing::ElementsAre(12, 13));
    EXPECT_THAT(rows(*batches.upcoming(0)), testing::ElementsAre(10, 11));
    EXPECT_EQ(batches.upcoming(2), nullptr);  // there are two
    const auto next = batches.next(2, two);
    EXPECT_THAT(rows(next[0]), testing::ElementsAre(10, 11));
    EXPECT_THAT(rows(next[1]), testing::ElementsAre(12, 13));
    batches.upcoming(0);
    batches.upcoming(1);
    const auto others = batches.next(2, three);  // not as it was last time
    for (Index j = 0; j < 3; ++j) {
      EXPECT_THAT(rows(others[j]), testing::ElementsAre(16 + 2 * j, 17 + 2 * j));
    }
  });
}

}  // namespace
}  // namespace hetsgd::test
