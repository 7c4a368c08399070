// ssgd with --reduce adasum: identities, hierarchy, partitioned state, records, timeline, and
// learning everywhere. Its losses are checked against tests/reference/numpy_adasum.py, the operator
// and the collective in tests/collective/adasum_test.cpp.

#include "runs.hpp"

namespace hetsgd::test {
namespace {

const Settings kSsgd = tiny_steps("ssgd", "--per-worker-batch split");
const Settings kAdasum = with(kSsgd, "--reduce adasum");

// Every worker's batch is the whole of the data, in an order of its own: equal gradients.
const Settings kEqualGradients =
    "--train generate:tiny?rows_train=64 --batch-size 64 --per-worker-batch full";

std::vector<nlohmann::json> orthogonality(const Record& record) {
  return events_of(record, "orthogonality");
}

// The layers' state lies on another worker, their update is the same; only where a dot product is
// cut for the halving differs.
TEST(AdasumStep, PartitionedStateIsReplicatedState) {
  for (const auto& [workers, node_size] :
       {std::pair{"4", "2"}, {"6", "3"}, {"6", "2"}, {"8", "8"}}) {
    for (const char* optimizer : {"momentum", "adam", "lamb"}) {
      SCOPED_TRACE(fmt::format("{} workers in nodes of {}, {}", workers, node_size, optimizer));
      const Settings replicated = with(kAdasum,
                                       "--workers {} --node-size {} --optimizer {} --learning-rate "
                                       "0.05 --orthogonality-every 10",
                                       workers, node_size, optimizer);
      const Record a = run_training(replicated);
      const Record b = run_with(replicated, "--optimizer-state partitioned");
      expect_close(step_losses(a), step_losses(b), 1e-5);
      expect_close_curves(a, b, 1e-5);
      ASSERT_EQ(orthogonality(a).size(), 10U);
      for (std::size_t i = 0; i < 10; ++i) {
        const auto x = orthogonality(a)[i], y = orthogonality(b)[i];
        EXPECT_EQ(x["tensor"], y["tensor"]);
        for (std::size_t t = 0; t < 4; ++t) {
          EXPECT_NEAR(x["value"][t].get<double>(), y["value"][t].get<double>(), 1e-3);
        }
      }
    }
  }
}

// A linear model is one layer, its weight with its bias. So layers are the model, to the bit, and
// tensors are something else. With two layers both differ from the model.
TEST(AdasumStep, ALayerIsItsWeightAndItsBias) {
  const Settings base = with(kAdasum, "--workers 4 --per-worker-batch full");
  const auto run = [&](const char* model, const char* scope) {
    return run_with(base, "--model {} --adasum-scope {}", model, scope);
  };
  expect_same_bits(run("linear", "layer"), run("linear", "model"));
  EXPECT_NE(step_losses(run("linear", "layer")), step_losses(run("linear", "tensor")));
  EXPECT_NE(step_losses(run("mlp", "layer")), step_losses(run("mlp", "tensor")));
  EXPECT_NE(step_losses(run("mlp", "layer")), step_losses(run("mlp", "model")));
}

TEST(AdasumStep, OrthogonalityIsRecordedWhenAsked) {
  const Settings base = with(kAdasum, "--workers 4 --max-samples 32000");
  const auto events = orthogonality(run_training(base));
  ASSERT_EQ(events.size(), 10U);  // every 100 of 1000 iterations
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["iteration"], 100 * i);
    EXPECT_EQ(events[i]["tensor"].size(), 4U);
    for (const auto& value : events[i]["value"]) {
      EXPECT_GT(value.get<double>(), 0.2);
      EXPECT_LT(value.get<double>(), 1.3);
    }
  }
  EXPECT_TRUE(orthogonality(run_with(base, "--orthogonality-every 0")).empty());
}

TEST(AdasumStep, RefusesWhatMakesNoSense) {
  const Settings four = with(kAdasum, {{"workers", "4"}});
  const Settings partitioned = with(four, {{"optimizer_state", "partitioned"}});
  const Settings nodes = with(partitioned, {{"node_size", "2"}});
  expect_refused(with(four, {{"storage", "central"}}), "--storage");
  expect_refused(with(four, {{"node_size", "3"}}), "--node-size: found 3");
  expect_refused(partitioned, "--optimizer-state");
  expect_refused(with(nodes, {{"adasum_scope", "model"}}), "--adasum-scope");
  expect_refused(with(nodes, {{"clip_norm", "1"}}), "--clip-norm");
  expect_refused(with(nodes, {{"reduce", "mean"}}), "--optimizer-state");
  expect_refused(with(nodes, {{"straggler", "kind=fail,worker=1,at=5ms"}}),
                 "--on-loss: found continue with --node-size 2, expected restart");
}

}  // namespace
}  // namespace hetsgd::test
