// Every model with every algorithm.

#include "support/dataset.hpp"
#include "support/effort.hpp"
#include "support/failure.hpp"
#include "support/run.hpp"

namespace hetsgd::test {
namespace {

// Models of sparse features and of clicks; networks of images, of sequences and of tokens.
class EveryModel : public ::testing::TestWithParam<std::string> {};

constexpr const char* kImageNetwork = "images";
constexpr const char* kClipNetwork = "sequences";
constexpr const char* kTextNetwork = "text";
constexpr const char* kMaskedNetwork = "masked_text";

INSTANTIATE_TEST_SUITE_P(
    Models, EveryModel, ::testing::ValuesIn([] {
      std::vector<std::string> names = {kImageNetwork, kClipNetwork, kTextNetwork, kMaskedNetwork};
      for (const auto& model : models()) {
        if (model.info.reads_images || model.info.reads_tokens) continue;
        names.push_back(model.info.name);
      }
      return names;
    }()),
    [](const auto& each) { return each.param; });

bool is_text(const std::string& model) { return model == kTextNetwork || model == kMaskedNetwork; }

bool is_built_network(const std::string& model) {
  return model == kImageNetwork || model == kClipNetwork || is_text(model);
}

// Rows of three fields with 12 categories each, two of which decide about the click, and two dense
// columns, of which one does.
LoadedData clicks(std::size_t rows, std::uint64_t seed) {
  DatasetBuilder data = dataset_of(Task::binary, 1);
  data.name = "clicks";
  data.dense.columns = 2;
  data.fields.first = {0, 12, 24, 36};
  RandomStream random(seed, Purpose::test);
  for (std::size_t r = 0; r < rows; ++r) {
    Index chosen[3];
    for (Index f = 0; f < 3; ++f) {
      chosen[f] = static_cast<Index>(random.below(12));
      data.fields.category.push_back(12 * f + chosen[f]);
    }
    const double x = random.uniform(-1, 1);
    data.dense.value.push_back(static_cast<float>(x));
    data.dense.value.push_back(static_cast<float>(random.uniform(-1, 1)));
    const double score = x + (chosen[0] < 4 ? 2 : -1) + (chosen[1] % 2 == 0 ? 1 : -1);
    if (score + random.uniform(-1, 1) > 0) data.targets.index.push_back(0);
    end_row(data);
  }
  return {std::move(data).share(), {}};
}

bool reads_fields(const std::string& model) {
  return !is_built_network(model) && find_model(model).info.reads_fields;
}

// On data that the model reads.
Record run_model(const Settings& settings, const std::string& model) {
  if (is_built_network(model)) return run_training(settings);
  if (!reads_fields(model)) return run_with(settings, {{"model", model}});
  const Configuration configuration(with("--hidden 16", with(settings, {{"model", model}})));
  Training training(configuration.spec());
  training.load(RunData{clicks(1000, 1), clicks(300, 2), {}, 0});
  return run_loaded(training);
}

// A network of 4 and 16 filters: under sanitizers lenet-5 takes ten times as long. ThreadSanitizer
// sees a few batches of it, with which nothing has learnt yet.
Settings digits() {
  const std::string data =
      fmt::format("generate:images?size=12&channels=1&rows_train={}&rows_test={}",
                  effort(400, 400, 64), effort(100, 100, 10));
  return fmt::format(
      "--model @digits_network --train {0} --test {0} --batch-size {1} --mega-batch 8 "
      "--learning-rate 0.05 --max-samples {2}",
      data, effort(16, 16, 4), effort(1200, 1200, 64));
}

Settings clips(const std::string& cluster) {
  const std::string data =
      "generate:video?clips=240&clips_test=60&classes=3&size=4&median=8&shortest=2&longest=40&"
      "noise="
      "0.3";
  return fmt::format(
      "--model lstm-video?size=4&units=8&dense=6&classes=3&dropout=0.1 --train {0} --test {0} "
      "--batch-size 8 --mega-batch 8 --learning-rate 0.3 --max-samples 1200 --order bucketed "
      "--lengths {1}",
      data, cluster == "sim" ? "padded" : "packed");
}

// Rows of unequal lengths.
Settings text(const std::string& model, const std::string& cluster) {
  const std::string data =
      "generate:language?vocabulary=8&steps=16&lengths=lognormal&median=8&sigma=0.5&rows_train=300&"
      "rows_test=60";
  return fmt::format(
      "--model {0}-micro?layers=1&width=16&block=16 --train {1} --test {1} --batch-size 8 "
      "--mega-batch 8 --learning-rate 0.3 --max-samples 960 --lengths {2}",
      model == kTextNetwork ? "gpt" : "bert", data, cluster == "sim" ? "padded" : "packed");
}

// Settings from which `model` learns with this algorithm.
Settings of_model(const std::string& model, const std::string& algorithm,
                  const std::string& cluster) {
  if (model == kImageNetwork) return digits();
  // Momentum over merges makes a step of 0.3 the edge of divergence. With random delays one run of
  // adaptive in twelve ended above its initial loss; at 0.1 all ended below a fifth of it.
  const bool merges = algorithm == "adaptive" || algorithm == "elastic";
  if (model == kClipNetwork || is_text(model)) {
    return with(is_text(model) ? text(model, cluster) : clips(cluster),
                merges ? Settings("--learning-rate 0.1") : Settings{});
  }
  return {{"model", model},
          {"train", "generate:tiny"},
          {"test", "generate:tiny"},
          {"batch_size", "16"},
          {"mega_batch", "12"},
          {"optimizer", "sgd"},  // slide's own is adam
          // Cross layers make high powers of their inputs.
          {"learning_rate", reads_fields(model) ? "0.05" : "0.3"},
          {"max_samples", "1920"},
          {"evaluate_samples", "200"}};
}

const std::set<std::string> kOneOfEachKind = {"ssgd", "asgd", "hogwild", "sma", "rna", "sven"};

TEST_P(EveryModel, LearnsWithEveryAlgorithm) {
  const std::string& model = GetParam();
  for (const RegisteredAlgorithm& algorithm : algorithms()) {
    const AlgorithmInfo& info = algorithm.info;
    if (!info.one_hidden_layer_only.empty() && model != "mlp") continue;
    const bool sharded = !info.sharded_tables_only.empty();
    if (sharded && !reads_fields(model)) continue;
    // Other tests race every method with one model, so here one method of each kind suffices.
    if (kSanitizer == Sanitizer::thread && !kOneOfEachKind.contains(info.name)) continue;
    for (const std::string& cluster : learning_clusters()) {
      // Other tests have those of sparse features.
      if (cluster == "threads" && !reads_fields(model) && !is_built_network(model)) continue;
      SCOPED_TRACE(info.name + " on " + cluster);
      Settings settings = with(of_model(model, info.name, cluster),
                               "--algorithm {} --cluster {} --cache false --workers {}", info.name,
                               cluster, info.max_workers > 1 ? "3" : "1");
      // In real time the number of updates of each replica depends on the host, and each perturbed
      // merge scales the model. On so small a task this may undo the learning.
      if (info.name == "adaptive" && (cluster == "threads" || is_built_network(model))) {
        settings.push_back({"delta", "0"});
      }
      if (sharded) settings.push_back({"tables", "sharded"});
      const Record record = run_model(settings, model);
      if (model == kImageNetwork && kSanitizer == Sanitizer::thread) continue;
      EXPECT_LT(record.curve.back().test_loss(), record.curve.front().test_loss());
    }
  }
}

// With tables, each row rule; the state lies with replicas and servers.
TEST_P(EveryModel, LearnsByEveryRowRule) {
  if (!reads_fields(GetParam())) GTEST_SKIP() << "it has no table";
  if (kSanitizer == Sanitizer::thread) GTEST_SKIP() << "its workers are simulated";
  for (const std::string optimizer : {"sgd", "adagrad", "adam"}) {
    for (const std::string rule : {"same", "sgd", "adagrad", "adam"}) {
      for (const std::string algorithm : {"sgd", "ssgd", "asgd"}) {
        SCOPED_TRACE(algorithm + " with " + optimizer + ", table " + rule);
        const std::string rate = optimizer == "sgd" ? "0.05" : "0.01";
        const Record record = run_model(
            fmt::format("--algorithm {} --train clicks --test clicks --workers {} --batch-size 16 "
                        "--learning-rate {} --optimizer {} --table-optimizer {} "
                        "--table-learning-rate {} --max-samples 1920",
                        algorithm, algorithm == "sgd" ? "1" : "3", rate, optimizer, rule,
                        rule == "sgd" ? "0.1" : "0.02"),
            GetParam());
        EXPECT_LT(record.curve.back().test_loss(), record.curve.front().test_loss());
      }
    }
  }
}

// Click-through data have these metrics, and targets know them.
TEST(ClickMetrics, StandInTheCurve) {
  const Record record = run_model(
      "--algorithm sgd --train clicks --test clicks --batch-size 16 --learning-rate 0.3 --target "
      "auc>=0.8 --target test_loss<=0.6 --max-samples 4000",
      "deepfm");
  std::vector<std::string> keys;
  for (const MetricValue& each : record.curve.back().metrics) keys.push_back(each.metric->key());
  EXPECT_EQ(keys, (std::vector<std::string>{"auc", "accuracy", "calibration", "test_loss"}));
  EXPECT_GT(*metric_of(record.curve.back(), "auc"), 0.8);
  EXPECT_NEAR(*metric_of(record.curve.back(), "calibration"), 1, 0.2);
  EXPECT_EQ(record.targets.size(), 2U);
}

TEST(ClickModels, AndOthersRefuseDataThatTheyDoNotRead) {
  const Settings settings = {{"train", "generate:tiny"},
                             {"test", "generate:tiny"},
                             {"cache", "false"},
                             {"max_samples", "16"}};
  for (const auto& [model, option, value, what] :
       {std::tuple("deepfm", "charge", "amazon670k", "--charge"),
        {"dcn", "optimizer", "momentum", "--optimizer"},
        {"mlp", "table_optimizer", "adam", "without an embedding table"}}) {
    EXPECT_NE(usage_error_of([&] {
                run_model(with(settings, {{option, value}}), model);
              }).find(what),
              std::string::npos)
        << model;
  }
  const Configuration sparse(with(settings, {{"model", "wide_deep"}}));
  EXPECT_THROW(Training(sparse.spec()).load(), Error);
  const Configuration fields(settings);
  EXPECT_THROW(Training(fields.spec()).load(RunData{clicks(20, 1), clicks(20, 1), {}, 0}), Error);
}

// The clock charges the model of the full size.
TEST_P(EveryModel, TakesTheChargeOfAFullSizeModel) {
  if (reads_fields(GetParam()) || is_built_network(GetParam())) {
    GTEST_SKIP() << "the presets are of sparse features";
  }
  const Settings settings = fmt::format(
      "--model {} --train generate:tiny --test generate:tiny --cache false --batch-size 16 "
      "--max-samples 320 --evaluate-samples 100",
      GetParam());
  const Record plain = run_training(settings);
  const Record charged = run_with(settings, "--charge amazon670k");
  EXPECT_GT(charged.elapsed, 10 * plain.elapsed);
  EXPECT_EQ(charged.curve.back().test_loss(), plain.curve.back().test_loss());
  EXPECT_EQ(charged.charge["features"], 135'909);
}

}  // namespace
}  // namespace hetsgd::test
