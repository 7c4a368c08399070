// The ceiling of generated clicks: the best that a model can learn of them.

#include <optional>

#include "data/clicks.hpp"
#include "data/generate_ctr.hpp"
#include "data/summary.hpp"
#include "data/vocabulary.hpp"
#include "data_test_util.hpp"

namespace hetsgd {
namespace {

// AUC as a double loop over pairs, logloss as the sum of its definition.
TEST(Ceiling, IsThatOfAllPairs) {
  RandomStream random(9, Purpose::test);
  std::vector<double> z;
  std::vector<std::uint8_t> positive;
  for (int i = 0; i < 300; ++i) {
    z.push_back(std::round(4 * random.normal()) / 2);  // with equal ones
    positive.push_back(random.uniform() < sigmoid(z.back()) ? 1 : 0);
  }
  double won = 0, pairs = 0, loss = 0;
  for (std::size_t i = 0; i < z.size(); ++i) {
    loss -= std::log(positive[i] ? sigmoid(z[i]) : 1 - sigmoid(z[i]));
    for (std::size_t j = 0; j < z.size(); ++j) {
      if (!positive[i] || positive[j]) continue;
      ++pairs;
      won += z[i] > z[j] ? 1 : z[i] == z[j] ? .5 : 0;
    }
  }
  const Ceiling found = ceiling_of(z, positive);
  EXPECT_NEAR(found.auc, won / pairs, 1e-12);
  EXPECT_NEAR(found.logloss, loss / 300, 1e-12);
}

// A model that knows all ids knows the true log odds; with fewer ids the ceiling is lower.
TEST(Ceiling, OfAVocabularyIsThatOfItsIds) {
  const ClickGenerator generator(parse_click_spec("generate:ctr-tiny"));
  const auto ceilings_of = [&](DataPart part, std::uint64_t min_frequency,
                               std::optional<std::uint64_t> hash_size = {}) {
    const VocabularyRules rules{min_frequency, hash_size};
    const Vocabulary made = make_vocabulary(generator.part(part, {}), {}, rules, {}, "test");
    return generator.ceilings({made.fields.first, made.fields.category, made.fields.value}, {});
  };
  const ClickCeilings all = ceilings_of(DataPart::test, 1);
  EXPECT_EQ(all.vocabulary->auc, all.all.auc);
  EXPECT_EQ(all.vocabulary->logloss, all.all.logloss);
  double auc = all.all.auc, logloss = all.all.logloss;
  for (const std::uint64_t times : {10, 300, 100'000}) {  // of 20,000 rows: nobody
    const ClickCeilings some = ceilings_of(DataPart::train, times);
    EXPECT_LT(some.vocabulary->auc, auc) << times;
    EXPECT_GT(some.vocabulary->logloss, logloss) << times;
    auc = some.vocabulary->auc;
    logloss = some.vocabulary->logloss;
  }
  EXPECT_FALSE(ceilings_of(DataPart::train, 1, 64).vocabulary);
}

TEST(CtrTiny, IsADataSetThatKeepsItsPromises) {
  const LoadedPair pair = load_pair("generate:ctr-tiny", "generate:ctr-tiny", {});
  for (const LoadedData* loaded : {&pair.train, &pair.test}) {
    const Dataset& data = *loaded->data;
    EXPECT_THAT(verify(data), IsEmpty());
    EXPECT_EQ(data.task, Task::binary);
    EXPECT_EQ(data.dense.columns, 3U);
    EXPECT_EQ(data.fields.count(), 6U);
    EXPECT_EQ(data.sparse.rows(), 0U);
    EXPECT_TRUE(std::ranges::equal(data.fields.first, pair.train.data->fields.first));
    EXPECT_TRUE(std::ranges::equal(data.fields.value, pair.train.data->fields.value));
  }
  EXPECT_EQ(pair.train.data->rows(), 20'000U);
  EXPECT_EQ(pair.test.data->rows(), 5'000U);
  // The test part alone has the training part's vocabulary too.
  LoadOptions alone;
  alone.part = DataPart::test;
  const LoadedData test = load_dataset("generate:ctr-tiny", alone);
  EXPECT_TRUE(std::ranges::equal(test.data->fields.category, pair.test.data->fields.category));
  EXPECT_NE(test.data->content_hash, pair.train.data->content_hash);
}

}  // namespace
}  // namespace hetsgd
