#include "data/generate.hpp"

#include "data/summary.hpp"
#include "data/zipf.hpp"
#include "data_test_util.hpp"

namespace hetsgd {
namespace {

// Every slot of an alias table is hit equally often, so its probabilities can be added up exactly.
TEST(Zipf, HasTheLawsProbabilities) {
  for (const double exponent : {0.0, 0.5, 1.0, 2.5}) {
    for (const std::uint32_t n : {1U, 2U, 7U, 64U, 1000U}) {
      std::vector<Index> values(n);
      for (Index r = 0; r < n; ++r) values[r] = 3 * r + 1;
      const ZipfSampler law(values, exponent);
      std::map<Index, double> share;
      constexpr int kSteps = 1 << 12;  // of the second word
      for (std::uint32_t slot = 0; slot < n; ++slot) {
        const auto where = static_cast<std::uint32_t>(((2 * std::uint64_t{slot} + 1) << 31) / n);
        for (int step = 0; step < kSteps; ++step) {
          share[law(where, static_cast<std::uint32_t>((2 * step + 1)) << 19)] += 1.0 / kSteps / n;
        }
      }
      double total = 0;
      for (std::uint32_t r = 0; r < n; ++r) total += std::pow(r + 1, -exponent);
      for (std::uint32_t r = 0; r < n; ++r) {
        // A value's share is collected from several slots, each known to one step.
        EXPECT_NEAR(share[values[r]], std::pow(r + 1, -exponent) / total, 1.0 / kSteps)
            << n << " " << r;
      }
    }
  }
}

TEST(GeneratorSpec, ReadsPresetsAndSettings) {
  const GeneratorOptions amazon = parse_generator_spec("generate:amazon670k");
  EXPECT_EQ(amazon.rows_train, 490449U);
  EXPECT_EQ(amazon.rows_test, 153025U);
  EXPECT_EQ(amazon.features, 135909U);
  EXPECT_EQ(amazon.labels, 670091U);
  EXPECT_EQ(amazon.nonzeros_per_sample, 76);
  EXPECT_EQ(amazon.labels_per_sample, 5);
  const GeneratorOptions delicious =
      parse_generator_spec("generate:delicious200k?scale=0.1&seed=7");
  EXPECT_EQ(delicious.rows_train, 19661U);
  EXPECT_EQ(delicious.rows_test, 10010U);
  EXPECT_EQ(delicious.features, 78259U);
  EXPECT_EQ(delicious.labels, 20544U);
  EXPECT_EQ(delicious.nonzeros_per_sample, 302);
  EXPECT_EQ(delicious.labels_per_sample, 75);
  EXPECT_EQ(delicious.seed, 7U);
  EXPECT_EQ(delicious.name, "delicious200k?scale=0.1&seed=7");
  // Settings win over the scale, in any order.
  const GeneratorOptions own =
      parse_generator_spec("generate:tiny?labels=9&scale=2&noise=0&nonzeros=3.5");
  EXPECT_EQ(own.labels, 9U);
  EXPECT_EQ(own.rows_train, 4000U);
  EXPECT_EQ(own.noise, 0);
  EXPECT_EQ(own.nonzeros_per_sample, 3.5);
}

TEST(GeneratorSpec, SmallScalesKeepEntriesThatFit) {
  const GeneratorOptions options = generator_preset("delicious200k", 1e-4);
  EXPECT_LE(options.nonzeros_per_sample, options.features / 4.0);
  EXPECT_LE(options.labels_per_sample, options.labels / 4.0);
  EXPECT_THAT(verify(*generate(options).train), IsEmpty());
}

// 4e9 rows of 100 features, 8 bytes each: 3.2 TB.
TEST(Generate, TooManyRowsForTheMachineAreAnErrorBeforeTheyAreMade) {
  const GeneratorOptions huge =
      parse_generator_spec("generate:tiny?rows_train=4000000000&nonzeros=100");
  EXPECT_THAT(error_of([&] { generate_part(huge, DataPart::train); }),
              AllOf(HasSubstr("the rows"), HasSubstr("a smaller scale")));
}

TEST(GeneratorSpec, SaysWhatIsWrong) {
  const auto message = [](const char* spec) {
    return error_of([&] { generate(parse_generator_spec(spec)); }, ExitCode::usage);
  };
  EXPECT_EQ(message("generate:huge"),
            "generator: found \"huge\", expected amazon670k, delicious200k or tiny");
  EXPECT_THAT(
      message("generate:tiny?row_train=3"),
      HasSubstr("generate:tiny?row_train=3: found key \"row_train\", expected scale, seed, "));
  EXPECT_THAT(message("generate:tiny?row_train=3"), HasSubstr("did you mean \"rows_train\"?"));
  EXPECT_EQ(
      message("generate:tiny?seed"),
      "generate:tiny?seed: found \"seed\", expected key=value pairs such as scale=0.1&seed=1");
  EXPECT_EQ(message("generate:tiny?noise=2"),
            "generate:tiny?noise=2: noise: found \"2\", expected a number from 0 to 1");
  EXPECT_THAT(message("generate:tiny?scale=nan"),
              HasSubstr("generate:tiny?scale=nan: scale: found \"nan\", expected a number"));
  EXPECT_THAT(message("generate:tiny?labels=-1"),
              HasSubstr("generate:tiny?labels=-1: labels: found \"-1\", expected "));
  EXPECT_THAT(message("generate:tiny?seed=1x"),
              HasSubstr("generate:tiny?seed=1x: seed: found \"1x\", expected "));
  EXPECT_EQ(message("generate:tiny?seed=1&seed=2"),
            "generate:tiny?seed=1&seed=2: found \"seed\" twice, expected it once");
}

TEST(Generate, AnyNumberOfThreadsGivesTheSameBytes) {
  const GeneratorOptions options = generator_preset("amazon670k", 0.01);
  const DatasetPair one = generate(options, 1);
  for (const int threads : {2, 5}) {
    const DatasetPair many = generate(options, threads);
    expect_same_data(*one.train, *many.train);
    expect_same_data(*one.test, *many.test);
    EXPECT_EQ(one.train->content_hash, many.train->content_hash);
  }
  expect_same_data(*one.test, *generate_part(options, DataPart::test, 1));
}

// Parts are different rows, too, and of one model: its labels can be learnt.
TEST(Generate, TheSeedChangesEverything) {
  const DatasetPair first = generate(parse_generator_spec("generate:tiny"));
  const DatasetPair second = generate(parse_generator_spec("generate:tiny?seed=2"));
  for (const DatasetPtr& other : {second.train, first.test}) {
    EXPECT_FALSE(std::ranges::equal(first.train->sparse.index, other->sparse.index));
    EXPECT_FALSE(std::ranges::equal(first.train->targets.index, other->targets.index));
    EXPECT_NE(first.train->content_hash, other->content_hash);
  }
}

TEST(Generate, HasThePromisedShape) {
  for (const char* preset : {"amazon670k", "delicious200k"}) {
    const GeneratorOptions options = generator_preset(preset, 0.02);
    const DatasetPair pair = generate(options);
    EXPECT_THAT(verify(*pair.train), IsEmpty());
    EXPECT_THAT(verify(*pair.test), IsEmpty());
    const DatasetSummary s = summarise(*pair.train, {});
    EXPECT_EQ(s.rows, options.rows_train);
    EXPECT_NEAR(s.features.mean, options.nonzeros_per_sample, 0.05 * options.nonzeros_per_sample);
    EXPECT_NEAR(s.labels.mean, options.labels_per_sample, 0.05 * options.labels_per_sample);
    EXPECT_GT(s.features.max,
              3 * static_cast<std::uint64_t>(s.features.mean));  // batches differ in work
    EXPECT_GT(s.value_min, 0);
    for (std::uint64_t row = 0; row < 50; ++row) {
      double squares = 0;
      for (const float value : pair.train->values(row)) squares += double{value} * value;
      EXPECT_NEAR(std::sqrt(squares), std::sqrt(options.nonzeros_per_sample), 0.01);
    }
  }
}

TEST(Generate, FeaturesFollowAZipfLaw) {
  GeneratorOptions options = generator_preset("tiny");
  options.rows_train = 20000;
  options.features = 20000;
  options.noise =
      1;  // no signatures: the law alone, thinned at its head by drawing without repetition
  const DatasetPtr data = generate_part(options, DataPart::train);
  std::vector<double> counts(options.features, 0);
  for (const Index f : data->sparse.index) ++counts[f];
  std::sort(counts.rbegin(), counts.rend());
  // Slope of log count over log rank between ranks 20 and 500.
  const double slope = std::log(counts[499] / counts[19]) / std::log(500.0 / 20.0);
  EXPECT_NEAR(slope, -1.0, 0.1);
}

// The rows of a label's topic share features: a nearest-centroid classifier beats the commonest
// label by far, and fails where all is noise.
double centroid_precision(double noise) {
  GeneratorOptions options = generator_preset("tiny");
  options.noise = noise;
  const DatasetPair pair = generate(options);
  std::vector<std::vector<double>> centroid(options.labels,
                                            std::vector<double>(options.features, 0));
  for (std::uint64_t row = 0; row < pair.train->rows(); ++row) {
    const auto features = pair.train->features(row);
    const auto values = pair.train->values(row);
    for (const Index label : pair.train->labels(row)) {
      for (std::size_t k = 0; k < features.size(); ++k)
        centroid[label][features[k]] += double{values[k]};
    }
  }
  for (auto& c : centroid) {
    double squares = 1e-9;
    for (const double x : c) squares += x * x;
    for (double& x : c) x /= std::sqrt(squares);
  }
  double hits = 0;
  for (std::uint64_t row = 0; row < pair.test->rows(); ++row) {
    Index best = 0;
    double best_score = -1;
    for (Index label = 0; label < options.labels; ++label) {
      double score = 0;
      const auto features = pair.test->features(row);
      for (std::size_t k = 0; k < features.size(); ++k) {
        score += centroid[label][features[k]] * double{pair.test->values(row)[k]};
      }
      if (score > best_score) {
        best_score = score;
        best = label;
      }
    }
    const auto labels = pair.test->labels(row);
    hits += std::find(labels.begin(), labels.end(), best) != labels.end();
  }
  return hits / static_cast<double>(pair.test->rows());
}

TEST(Generate, TheLabelsCanBeLearntButNotPerfectly) {
  const double learnt = centroid_precision(0.2);
  EXPECT_GT(learnt, 0.5);
  EXPECT_LT(learnt, 0.95);
  EXPECT_LT(centroid_precision(1.0), 0.2);
}

}  // namespace
}  // namespace hetsgd
