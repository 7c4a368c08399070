#include "data/summary.hpp"

#include <gmock/gmock.h>

#include <functional>
#include <limits>

#include "data_test_util.hpp"

namespace hetsgd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Summary, CountsAndMeasures) {
  const LoadedData loaded = parse("3 5 4\n0,3 0:1 4:-0.5\n 2:8 4:2 1:1\n1\n");
  const DatasetSummary s = summarise(*loaded.data, loaded.report);
  EXPECT_EQ(s.rows, 3U);
  EXPECT_EQ(s.feature_count, 5U);
  EXPECT_EQ(s.label_count, 4U);
  EXPECT_EQ(s.features.total, 5U);
  EXPECT_DOUBLE_EQ(s.features.mean, 5.0 / 3);
  EXPECT_EQ(s.features.min, 0U);
  EXPECT_EQ(s.features.max, 3U);
  EXPECT_EQ(s.labels.total, 3U);
  EXPECT_EQ(s.labels.max, 2U);
  EXPECT_DOUBLE_EQ(s.density, 5.0 / 15);
  EXPECT_EQ(s.value_min, -0.5);
  EXPECT_EQ(s.value_max, 8.0);
  EXPECT_EQ(s.features_seen, 4U);
  EXPECT_EQ(s.labels_seen, 3U);
  EXPECT_EQ(s.rows_without_labels, 1U);
  EXPECT_EQ(s.rows_without_features, 1U);
  EXPECT_EQ(s.memory_bytes, 2 * 4 * 8 + 2 * 5 * 4 + 3 * 4);
  EXPECT_NE(s.content_hash, 0U);
}

// Each breaks one promise and must be found as just that.
TEST(Verify, FindsEveryBrokenPromise) {
  // "3 5 4", "0,3 0:1 4:-0.5", " 1:1 2:8 4:2", "1".
  DatasetBuilder good;
  good.feature_count = 5;
  good.label_count = 4;
  good.sparse = {{0, 2, 5, 5}, {0, 4, 1, 2, 4}, {1, -0.5F, 1, 8, 2}};
  good.targets = {{0, 2, 2, 3}, {0, 3, 1}, {}};
  const auto findings = [&](const std::function<void(DatasetBuilder&)>& damage) {
    DatasetBuilder data = good;
    damage(data);
    return verify(std::move(data).build());
  };
  EXPECT_THAT(findings([](DatasetBuilder&) {}), IsEmpty());
  EXPECT_THAT(findings([](DatasetBuilder& d) {
                d.sparse.begin[1] = 4;
                d.sparse.begin[2] = 3;
              }),
              ElementsAre("the rows' features do not tile the 5 entries"));
  EXPECT_THAT(findings([](DatasetBuilder& d) { d.sparse.begin.back() = 99; }),
              ElementsAre("the rows' features do not tile the 5 entries"));
  EXPECT_THAT(findings([](DatasetBuilder& d) { d.targets.begin[0] = 1; }),
              ElementsAre("the rows' labels do not tile the 3 entries"));
  EXPECT_THAT(findings([](DatasetBuilder& d) { d.sparse.value.pop_back(); }),
              ElementsAre("4 feature values for 5 feature indices"));
  EXPECT_THAT(findings([](DatasetBuilder& d) { d.targets.begin.push_back(3); }),
              ElementsAre("3 rows of features, 4 rows of labels"));
  EXPECT_THAT(findings([](DatasetBuilder& d) { d.sparse.index[1] = 0; }),
              ElementsAre("row 1: feature index 0 after 0: must ascend without repetition"));
  EXPECT_THAT(findings([](DatasetBuilder& d) { d.sparse.index[4] = 5; }),
              ElementsAre("row 2: feature index 5 is out of range: there are 5 columns"));
  EXPECT_THAT(findings([](DatasetBuilder& d) { d.targets.index[2] = 4; }),
              ElementsAre("row 3: label index 4 is out of range: there are 4 columns"));
  EXPECT_THAT(
      findings([](DatasetBuilder& d) { std::swap(d.targets.index[0], d.targets.index[1]); }),
      ElementsAre("row 1: label index 0 after 3: must ascend without repetition"));
  EXPECT_THAT(findings([](DatasetBuilder& d) {
                d.sparse.value[2] = std::numeric_limits<float>::quiet_NaN();
              }),
              ElementsAre("entry 3: the feature value nan is not finite"));
  EXPECT_THAT(findings([](DatasetBuilder& d) { d.task = Task::binary; }),
              ElementsAre("binary data have 1 label column, not 4"));
  EXPECT_THAT(findings([](DatasetBuilder& d) { d.task = Task::multiclass; }),
              ElementsAre("multi-class data have at most one label per row"));
  EXPECT_THAT(verify(Dataset{}), ElementsAre("there is no row", "there is no feature column",
                                             "there is no label column"));
}

TEST(Verify, KnowsEveryGroup) {
  DatasetBuilder good;
  good.task = Task::binary;
  good.label_count = 1;
  good.dense = {2, {1, 2, 3, 4}};
  good.fields = {{0, 3, 5}, {0, 3, 2, 4}};
  good.images = {1, 2, 1, {0, 9, 255, 1}, {0.5F}, {0.1F}};
  good.targets = {{0, 0, 1}, {0}, {}};
  const auto findings = [&](const std::function<void(DatasetBuilder&)>& damage) {
    DatasetBuilder data = good;
    damage(data);
    return verify(std::move(data).build());
  };
  EXPECT_THAT(findings([](DatasetBuilder&) {}), IsEmpty());
  EXPECT_THAT(findings([](DatasetBuilder& d) { d.dense.value.pop_back(); }),
              ElementsAre("3 dense values, expected 4: 2 in each row"));
  EXPECT_THAT(findings([](DatasetBuilder& d) { d.images.width = 3; }),
              ElementsAre("4 pixels, expected 12: 6 in each row"));
  EXPECT_THAT(findings([](DatasetBuilder& d) { d.images.mean.clear(); }),
              ElementsAre("0 means and 1 deviations of channels, expected 1"));
  EXPECT_THAT(findings([](DatasetBuilder& d) { d.images.deviation = {0}; }),
              ElementsAre("a channel's deviation is not positive"));
  EXPECT_THAT(findings([](DatasetBuilder& d) { d.fields.category[3] = 2; }),
              ElementsAre("row 2: category 2 of field 2, expected 3 to below 5"));
  EXPECT_THAT(findings([](DatasetBuilder& d) { d.fields.first[1] = 6; }),
              testing::Contains("the fields' categories do not ascend"));
  EXPECT_THAT(findings([](DatasetBuilder& d) { d.feature_count = 7; }),
              ElementsAre("0 rows of features, 2 rows of labels"));
}

}  // namespace
}  // namespace hetsgd
