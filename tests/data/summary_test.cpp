#include "data/summary.hpp"

#include <initializer_list>

#include "data_test_util.hpp"

namespace hetsgd {
namespace {

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

struct Broken {
  void (*damage)(DatasetBuilder&);
  const char* finding;
};

// Each breaks one promise and must be found as just that.
void expect_found(const DatasetBuilder& good, std::initializer_list<Broken> cases) {
  EXPECT_THAT(verify(DatasetBuilder(good).build()), IsEmpty());
  for (const auto& [damage, finding] : cases) {
    DatasetBuilder data = good;
    damage(data);
    EXPECT_THAT(verify(std::move(data).build()), ElementsAre(finding));
  }
}

TEST(Verify, FindsEveryBrokenPromise) {
  // "3 5 4", "0,3 0:1 4:-0.5", " 1:1 2:8 4:2", "1".
  DatasetBuilder good = test::dataset_of(Task::multilabel, 4, 5);
  good.sparse = {{0, 2, 5, 5}, {0, 4, 1, 2, 4}, {1, -0.5F, 1, 8, 2}};
  good.targets = {{0, 2, 2, 3}, {0, 3, 1}, {}};
  using Data = DatasetBuilder;
  expect_found(
      good,
      {{[](Data& d) {
          d.sparse.begin = {0, 4, 3, 5};
        },
        "the rows' features do not cover the 5 entries"},
       {[](Data& d) { d.sparse.begin.back() = 99; },
        "the rows' features do not cover the 5 entries"},
       {[](Data& d) { d.targets.begin[0] = 1; }, "the rows' labels do not cover the 3 entries"},
       {[](Data& d) { d.sparse.value.pop_back(); }, "found 4 feature values for 5 feature indices"},
       {[](Data& d) { d.targets.begin.push_back(3); },
        "found 3 rows of features and 4 rows of labels"},
       {[](Data& d) { d.sparse.index[1] = 0; },
        "row 1: found feature index 0 after 0, expected ascending indices"},
       {[](Data& d) { d.sparse.index[4] = 5; },
        "row 2: feature index 5 is out of range: there are 5 columns"},
       {[](Data& d) { d.targets.index[2] = 4; },
        "row 3: label index 4 is out of range: there are 4 columns"},
       {[](Data& d) { std::swap(d.targets.index[0], d.targets.index[1]); },
        "row 1: found label index 0 after 3, expected ascending indices"},
       {[](Data& d) { d.sparse.value[2] = std::numeric_limits<float>::quiet_NaN(); },
        "entry 3: the value nan is not finite"},
       {[](Data& d) { d.task = Task::binary; }, "binary data have 1 label column, not 4"},
       {[](Data& d) { d.task = Task::multiclass; },
        "multi-class data have at most one label per row"}});
  EXPECT_THAT(verify(Dataset{}), ElementsAre("there is no row", "there is no feature column",
                                             "there is no label column"));
  // Click data and images.
  good = {};
  good.task = Task::binary;
  good.label_count = 1;
  good.dense = {2, {1, 2, 3, 4}};
  good.fields = {{0, 3, 5}, {0, 3, 2, 4}};
  good.images = {1, 2, 1, {0, 9, 255, 1}, {0.5F}, {0.1F}};
  good.targets = {{0, 0, 1}, {0}, {}};
  expect_found(
      good,
      {{[](Data& d) { d.dense.value.pop_back(); },
        "found 3 dense values, expected 4 (2 in each row)"},
       {[](Data& d) { d.images.width = 3; }, "found 4 pixels, expected 12 (6 in each row)"},
       {[](Data& d) { d.images.mean.clear(); },
        "found 0 means and 1 deviations of channels, expected 1"},
       {[](Data& d) { d.images.deviation = {0}; }, "a channel's deviation is not positive"},
       {[](Data& d) { d.fields.category[3] = 2; },
        "row 2: found category 2 of field 2, expected 3 to below 5"},
       {[](Data& d) { d.feature_count = 7; }, "found 0 rows of features and 2 rows of labels"}});
  good.fields.first[1] = 6;
  EXPECT_THAT(verify(std::move(good).build()),
              testing::Contains("the fields' categories do not ascend"));
}

}  // namespace
}  // namespace hetsgd
