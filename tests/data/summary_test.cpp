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
  const Dataset good = *parse("3 5 4\n0,3 0:1 4:-0.5\n 2:8 4:2 1:1\n1\n").data;
  EXPECT_THAT(verify(good), IsEmpty());
  const auto findings = [&](const std::function<void(Dataset&)>& damage) {
    Dataset data = good;
    damage(data);
    return verify(data);
  };
  EXPECT_THAT(findings([](Dataset& d) {
                d.feature_begin[1] = 4;
                d.feature_begin[2] = 3;
              }),
              ElementsAre("the rows' features do not tile the 5 entries"));
  EXPECT_THAT(findings([](Dataset& d) { d.feature_begin.back() = 99; }),
              ElementsAre("the rows' features do not tile the 5 entries"));
  EXPECT_THAT(findings([](Dataset& d) { d.label_begin[0] = 1; }),
              ElementsAre("the rows' labels do not tile the 3 entries"));
  EXPECT_THAT(findings([](Dataset& d) { d.feature_value.pop_back(); }),
              ElementsAre("4 feature values for 5 feature indices"));
  EXPECT_THAT(findings([](Dataset& d) { d.label_begin.push_back(3); }),
              ElementsAre("3 rows of features, 4 rows of labels"));
  EXPECT_THAT(findings([](Dataset& d) { d.feature_index[1] = 0; }),
              ElementsAre("row 1: feature index 0 after 0: must ascend without repetition"));
  EXPECT_THAT(findings([](Dataset& d) { d.feature_index[4] = 5; }),
              ElementsAre("row 2: feature index 5 is out of range: there are 5 columns"));
  EXPECT_THAT(findings([](Dataset& d) { d.label_index[2] = 4; }),
              ElementsAre("row 3: label index 4 is out of range: there are 4 columns"));
  EXPECT_THAT(findings([](Dataset& d) { std::swap(d.label_index[0], d.label_index[1]); }),
              ElementsAre("row 1: label index 0 after 3: must ascend without repetition"));
  EXPECT_THAT(
      findings([](Dataset& d) { d.feature_value[2] = std::numeric_limits<float>::quiet_NaN(); }),
      ElementsAre("entry 3: the feature value nan is not finite"));
  EXPECT_THAT(findings([](Dataset& d) { d.task = Task::binary; }),
              ElementsAre("binary data have 1 label column, not 4"));
  EXPECT_THAT(findings([](Dataset& d) { d.task = Task::multiclass; }),
              ElementsAre("multi-class data have at most one label per row"));
  EXPECT_THAT(verify(Dataset{}), ElementsAre("there is no row", "there is no feature column",
                                             "there is no label column"));
}

}  // namespace
}  // namespace hetsgd
