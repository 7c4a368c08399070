// ssgd with --reduce adasum: identities, hierarchy, partitioned state, records, timeline, and
// learning everywhere. Its losses are checked against tests/reference/numpy_adasum.py, the operator
// and the collective in tests/collective/adasum_test.cpp.

#include <gmock/gmock.h>

#include "core/error.hpp"
#include "support/compare.hpp"
#include "support/timeline.hpp"

namespace hetsgd::test {
namespace {

const Settings kSsgd = tiny_steps("ssgd", {{"per_worker_batch", "split"}});
const Settings kAdasum = with(kSsgd, {{"reduce", "adasum"}});

// Every worker's batch is the whole of the data, in an order of its own: equal gradients.
const Settings kEqualGradients = {
    {"train", "generate:tiny?rows_train=64"}, {"batch_size", "64"}, {"per_worker_batch", "full"}};

std::vector<nlohmann::json> orthogonality(const Record& record) {
  std::vector<nlohmann::json> found;
  for (const auto& event : record.events) {
    if (event["type"] == "orthogonality") found.push_back(event);
  }
  return found;
}

std::string refusal(const Settings& settings) {
  try {
    run_training(settings);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(error.hint(), "");
    return error.what();
  }
  return "";
}

TEST(AdasumStep, OneWorkerIsSsgd) { expect_same_bits(run_training(kSsgd), run_training(kAdasum)); }

// AS(d, ..., d) = d: P workers with one gradient make one worker's steps. What differs is the order
// in which a batch's samples are summed.
TEST(AdasumStep, EqualGradientsAreOneGradient) {
  const Settings one = with(with(kSsgd, kEqualGradients), {{"max_samples", "1600"}});
  const std::vector<double> expected = step_losses(run_training(one));
  for (const char* workers : {"2", "3", "4"}) {
    for (const char* shape : {"tree", "linear"}) {
      const int p = std::stoi(workers);
      const Record run = run_training(with(one, {{"reduce", "adasum"},
                                                 {"workers", workers},
                                                 {"adasum_shape", shape},
                                                 {"orthogonality_every", "1"},
                                                 {"max_samples", std::to_string(1600 * p)}}));
      std::vector<double> losses = step_losses(run), first;
      for (std::size_t i = 0; i < losses.size(); i += static_cast<std::size_t>(p)) {
        first.push_back(losses[i]);
      }
      expect_close(first, expected, 1e-4);
      for (const auto& event : orthogonality(run)) {
        for (const auto& value : event["value"]) EXPECT_NEAR(value.get<double>(), 1.0 / p, 1e-4);
      }
    }
  }
}

// One node: Adasum of one update is the update, so that only the mean inside is left. What differs
// is w + ((w + d) - w) against w + d.
TEST(AdasumStep, OneNodeIsTheMean) {
  for (const char* batch : {"split", "full"}) {
    const Settings mean =
        with(kSsgd, {{"workers", "4"}, {"optimizer", "momentum"}, {"per_worker_batch", batch}});
    const Record adasum = run_training(with(mean, {{"reduce", "adasum"}, {"node_size", "4"}}));
    expect_close(step_losses(run_training(mean)), step_losses(adasum), 2e-5);
  }
}

// The layers' state lies on another worker, their update is the same; only where a dot product is
// cut for the halving differs.
TEST(AdasumStep, PartitionedStateIsReplicatedState) {
  for (const auto& [workers, node_size] :
       {std::pair{"4", "2"}, {"6", "3"}, {"6", "2"}, {"8", "8"}}) {
    for (const char* optimizer : {"momentum", "adam", "lamb"}) {
      SCOPED_TRACE(fmt::format("{} workers in nodes of {}, {}", workers, node_size, optimizer));
      const Settings replicated = with(kAdasum, {{"workers", workers},
                                                 {"node_size", node_size},
                                                 {"optimizer", optimizer},
                                                 {"learning_rate", "0.05"},
                                                 {"orthogonality_every", "10"}});
      const Record a = run_training(replicated);
      const Record b = run_training(with(replicated, {{"optimizer_state", "partitioned"}}));
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

// A linear model is one layer, its weight with its bias: layers are the model, to the bit, and
// tensors are something else. Of two layers both are.
TEST(AdasumStep, ALayerIsItsWeightAndItsBias) {
  const Settings base = with(kAdasum, {{"workers", "4"}, {"per_worker_batch", "full"}});
  const auto run = [&](const char* model, const char* scope) {
    return run_training(with(base, {{"model", model}, {"adasum_scope", scope}}));
  };
  expect_same_bits(run("linear", "layer"), run("linear", "model"));
  EXPECT_NE(step_losses(run("linear", "layer")), step_losses(run("linear", "tensor")));
  EXPECT_NE(step_losses(run("mlp", "layer")), step_losses(run("mlp", "tensor")));
  EXPECT_NE(step_losses(run("mlp", "layer")), step_losses(run("mlp", "model")));
}

// Layers of a node on several workers stay whole: the same updates again.
TEST(AdasumStep, PartitionedLayersAreReplicatedLayers) {
  const Settings layers = with(kAdasum, {{"workers", "4"},
                                         {"node_size", "2"},
                                         {"adasum_scope", "layer"},
                                         {"optimizer", "momentum"},
                                         {"learning_rate", "0.05"}});
  const Record a = run_training(layers);
  const Record b = run_training(with(layers, {{"optimizer_state", "partitioned"}}));
  expect_close(step_losses(a), step_losses(b), 1e-5);
  expect_close_curves(a, b, 1e-5);
}

TEST(AdasumStep, SameBitsOnThreadsAndSim) {
  for (const char* state : {"replicated", "partitioned"}) {
    const Settings base = with(kAdasum, {{"workers", "6"},
                                         {"node_size", "2"},
                                         {"optimizer", "momentum"},
                                         {"optimizer_state", state},
                                         {"evaluate_every", "576"}});
    expect_same_bits(run_training(with(base, {{"cluster", "sim"}})),
                     run_training(with(base, {{"cluster", "threads"}})));
  }
}

TEST(AdasumStep, OrthogonalityIsRecordedWhenAsked) {
  const Settings base = with(kAdasum, {{"workers", "4"}, {"max_samples", "32000"}});
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
  EXPECT_TRUE(orthogonality(run_training(with(base, {{"orthogonality_every", "0"}}))).empty());
}

TEST(AdasumStep, RefusesWhatMakesNoSense) {
  const Settings four = with(kAdasum, {{"workers", "4"}});
  EXPECT_THAT(refusal(with(four, {{"storage", "central"}})), testing::HasSubstr("--storage"));
  EXPECT_THAT(refusal(with(four, {{"node_size", "3"}})),
              testing::HasSubstr("--node-size: found 3"));
  const Settings partitioned = with(four, {{"optimizer_state", "partitioned"}});
  EXPECT_THAT(refusal(partitioned), testing::HasSubstr("--optimizer-state"));
  const Settings nodes = with(partitioned, {{"node_size", "2"}});
  EXPECT_THAT(refusal(with(nodes, {{"adasum_scope", "model"}})),
              testing::HasSubstr("--adasum-scope"));
  EXPECT_THAT(refusal(with(nodes, {{"clip_norm", "1"}})), testing::HasSubstr("--clip-norm"));
  EXPECT_THAT(refusal(with(nodes, {{"reduce", "mean"}})), testing::HasSubstr("--optimizer-state"));
}

// Worker 1, the straggler, has its gradient after 27 ms, its update after 3 vector operations, at
// 30, and sends it; worker 0 folds it from 40 to 42 and sends half to worker 2, which has it at 52;
// products (1 ms) and their sum (10 ms) are there at 63, the combinations at 64. Worker 0 then has
// worker 2's half and sends the whole to worker 1, its own half to worker 2: both have it at 74 and
// end the iteration at 75, worker 0 at 65.
TEST(AdasumStep, Timeline) {
  const Settings flat = with(timeline_settings("ssgd"), {{"per_worker_batch", "split"},
                                                         {"reduce", "adasum"},
                                                         {"max_samples", "240"},
                                                         {"orthogonality_every", "0"}});
  expect_golden("ssgd_adasum", timeline(run_training(flat)));
}

TEST(AdasumStep, LearnsOnBothClusters) {
  const Settings base = with(kAdasum, {{"max_samples", "24000"}, {"record_steps", "false"}});
  expect_learns_everywhere(base);
  expect_learns_everywhere(with(base, {{"adasum_shape", "linear"}, {"optimizer", "momentum"}}));
}

TEST(AdasumStep, LearnsInNodes) {
  for (const char* cluster : {"sim", "threads"}) {
    for (const char* state : {"replicated", "partitioned"}) {
      const Record run = run_training(with(kAdasum, {{"cluster", cluster},
                                                     {"workers", "8"},
                                                     {"node_size", "4"},
                                                     {"optimizer", "momentum"},
                                                     {"optimizer_state", state},
                                                     {"max_samples", "24000"}}));
      EXPECT_EQ(run.status, Status::completed);
      EXPECT_GT(metric_of(run.curve.back(), "p1").value(), 0.3);
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
