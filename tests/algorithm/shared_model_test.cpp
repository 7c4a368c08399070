// SharedModel: the reads and writes of a step on shared parameters, alone and among others.

#include "algorithm/shared_model.hpp"

#include "algorithm/run.hpp"
#include "core/random.hpp"
#include "linalg/sparse_kernels.hpp"
#include "support/dataset.hpp"

namespace hetsgd::test {
namespace {

constexpr Index kFeatures = 64, kOutputs = 8;
constexpr std::size_t kWorkers = 4, kSteps = 25, kBatch = 6;

// z = x W without a bias, loss (z - 1)^2 / 2 per output: a step reads and moves the rows of its
// batch's features and nothing else.
class RowsOnly final : public BasicModel<float> {
 public:
  RowsOnly()
      : BasicModel<float>(
            {.feature_count = kFeatures, .label_count = kOutputs, .task = Task::multilabel}) {
    add_block({.name = "weight",
               .rows = kFeatures,
               .cols = kOutputs,
               .kind = BlockKind::row_sparse,
               .init_std = 0.1});
  }
  Work gradient_work(const BatchShape&) const override { return {}; }

 protected:
  DeferredSum learn(Context& context, const Batch& batch, const float* w,
                    Sink<float> sink) const override {
    context.stage(batch);
    auto& sparse = kernels<SparseKernels>(context.device());
    const std::size_t n = batch.size() * kOutputs;
    context.output.reset(context.device(), n);
    float* const z = context.output.data();
    sparse.forward(context.features(), kOutputs, w, nullptr, false, z);
    double loss = 0;
    for (std::size_t i = 0; i < n; ++i) {
      z[i] = (z[i] - 1) / static_cast<float>(batch.size());
      loss += z[i] * z[i];
    }
    sparse.update(context.features(), kOutputs, sink.alpha, z, sink.to);
    return loss;
  }
  DeferredSum score(Context&, const Batch&, const float*, float*) const override { return 0.0; }
};

// Rows of worker k have features k, k + P, k + 2 P, ... only.
DatasetPtr rows_of_disjoint_features() {
  DatasetBuilder data = dataset_of(Task::multilabel, kOutputs, kFeatures);
  RandomStream random(7, Purpose::test);
  for (std::size_t row = 0; row < kWorkers * kSteps * kBatch; ++row) {
    for (Index f = static_cast<Index>(row % kWorkers); f < kFeatures; f += kWorkers) {
      if (random.below(3) != 0) continue;
      add(data, f, random.uniform(-1, 2));
    }
    end_row(data, {static_cast<Index>(random.below(kOutputs))});
  }
  return std::move(data).share();
}

Batch batch_of(const Dataset& data, std::size_t worker, std::size_t step) {
  std::vector<Index> rows;
  for (std::size_t i = 0; i < kBatch; ++i) {
    rows.push_back(static_cast<Index>(kWorkers * (step * kBatch + i) + worker));
  }
  return Batch(data, std::move(rows));
}

struct Member {
  explicit Member(const Model& model)
      : device(make_cpu_device<float>(1)),
        context(model.make_context(*device)),
        snapshot(model, *device) {}
  std::unique_ptr<Device> device;
  std::unique_ptr<ModelContext> context;
  SharedSnapshot snapshot;
};

class DisjointFeatures : public testing::Test {
 protected:
  std::vector<float> one_after_the_other() const {
    std::vector<float> w = initial;
    Member alone(model);
    for (std::size_t worker = 0; worker < kWorkers; ++worker) {
      for (std::size_t step = 0; step < kSteps; ++step) {
        model.step(*alone.context, batch_of(*data, worker, step), 0.1F, w.data());
      }
    }
    return w;
  }

  const RowsOnly model;
  const DatasetPtr data = rows_of_disjoint_features();
  const std::vector<float> initial = initial_parameters<float>(model.layout(), 3, 1);
};

// Every other worker pulls and adds, as a GPU does, in calls of any order.
TEST_F(DisjointFeatures, EveryInterleavingOfPullsAndMovesGivesTheSameBits) {
  const std::vector<float> expected = one_after_the_other();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    RandomStream dice(seed, Purpose::test);
    std::vector<float> w = initial;
    std::vector<std::unique_ptr<Member>> members;
    for (std::size_t k = 0; k < kWorkers; ++k) members.push_back(std::make_unique<Member>(model));
    std::vector<std::vector<float>> pulled(kWorkers, initial), replica(kWorkers);
    std::vector<std::size_t> calls(kWorkers);
    for (std::size_t left = 2 * kWorkers * kSteps; left > 0; --left) {
      std::size_t k = dice.below(kWorkers);
      while (calls[k] == 2 * kSteps) k = (k + 1) % kWorkers;
      Member& member = *members[k];
      const Batch batch = batch_of(*data, k, calls[k] / 2);
      const bool begins = calls[k]++ % 2 == 0;
      if (k % 2 == 0 && begins) {
        member.snapshot.read(*member.context, batch, w);
        member.snapshot.step(*member.context, batch, 0.1F);
      } else if (k % 2 == 0) {
        member.snapshot.write(w);
      } else if (begins) {
        racy::pull(w, pulled[k]);
        replica[k] = pulled[k];
        model.step(*member.context, batch, 0.1F, replica[k].data());
      } else {
        racy::add(replica[k], pulled[k], w);
      }
    }
    EXPECT_EQ(w, expected) << "seed " << seed;
  }
}

// All elements are pulled as 1. If only the replica has moved an element, it gets the replica's own
// value, whatever rounding. If others have moved it, too, it gets their value plus the move. If the
// replica has not moved it, it keeps their value.
TEST(PulledReplica, AMoveLandsOnWhatIsThereOrOverwritesIt) {
  const std::vector<float> pulled(40, 1.0F);
  std::vector<float> moved = pulled, w = pulled;
  moved[1] = 0.1F;
  moved[2] = 3;
  w[2] = 5;
  w[3] = 7;
  moved[39] = 2;
  std::vector<float> expected = w;
  expected[1] = 0.1F;
  expected[2] = 7;
  expected[39] = 2;
  std::vector<float> sum = w;
  racy::add(moved, pulled, sum);
  EXPECT_EQ(sum, expected);
  racy::overwrite(moved, w);
  EXPECT_EQ(w, moved);
}

TEST_F(DisjointFeatures, ThreadsThatRaceGiveTheSameBits) {
  std::vector<float> w = initial;
  {
    std::vector<std::jthread> threads;
    for (std::size_t worker = 0; worker < kWorkers; ++worker) {
      threads.emplace_back([&, worker] {
        Member member(model);
        for (std::size_t step = 0; step < kSteps; ++step) {
          racy::step(model, *member.context, batch_of(*data, worker, step), 0.1F, w);
        }
      });
    }
  }
  EXPECT_EQ(w, one_after_the_other());
}

// Two steps read the same w; both land: w + (own_1 - w) + (own_2 - w), rounded once.
TEST_F(DisjointFeatures, AStepLandsOnWhatOthersHaveAddedMeanwhile) {
  std::vector<float> w = initial, first = initial, second = initial;
  const Batch batch = batch_of(*data, 0, 0), other = batch_of(*data, 0, 1);
  Member a(model), b(model);
  a.snapshot.read(*a.context, batch, w);
  b.snapshot.read(*b.context, other, w);
  a.snapshot.step(*a.context, batch, 0.1F);
  b.snapshot.step(*b.context, other, 0.1F);
  a.snapshot.write(w);
  b.snapshot.write(w);
  model.step(*a.context, batch, 0.1F, first.data());
  model.step(*b.context, other, 0.1F, second.data());
  std::size_t moved_twice = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const bool both = first[i] != initial[i] && second[i] != initial[i];
    moved_twice += both ? 1 : 0;
    if (both) {
      EXPECT_EQ(w[i], first[i] + (second[i] - initial[i])) << i;
    } else {
      EXPECT_EQ(w[i], first[i] != initial[i] ? first[i] : second[i]) << i;
    }
  }
  EXPECT_GT(moved_twice, 0U);
}

// (1 + 3) / 2 = 2. Another worker moves the second model by 10 while the mean is on its way: it
// stays, 3 + 10 + (2 - 3) = 12.
TEST(SharedAverage, EveryModelTakesTheMeanAndKeepsWhatOthersAddMeanwhile) {
  std::vector<float> a{1, 1}, b{3, 3};
  SharedAverage average({a, b});
  average.read();
  average.compute();
  b[1] += 10;
  average.write();
  EXPECT_EQ(a, (std::vector<float>{2, 2}));
  EXPECT_EQ(b, (std::vector<float>{2, 12}));

  std::vector<float> c{1, 1}, d{3, 5};
  const std::vector<std::span<float>> both{c, d};
  racy::average(both);
  EXPECT_EQ(c, (std::vector<float>{2, 3}));
  EXPECT_EQ(d, c);
}

TEST(SharedObjects, OneObjectPerNameForAsLongAsSomebodyKeepsIt) {
  SharedObjects objects;
  int made = 0;
  const auto make = [&] { return std::make_shared<int>(++made); };
  auto first = objects.get<int>("a", make);
  EXPECT_EQ(objects.get<int>("a", make), first);
  EXPECT_EQ(*objects.get<int>("b", make), 2);
  EXPECT_ANY_THROW(
      objects.get<double>("a", [] { return std::make_shared<double>(1); }));  // another type
  first.reset();
  EXPECT_EQ(*objects.get<int>("a", make), 3);
}

}  // namespace
}  // namespace hetsgd::test
