#include "data/select.hpp"

#include "data/data_test_util.hpp"
#include "data/summary.hpp"

namespace hetsgd {
namespace {

std::vector<Index> sorted_union(const RowSplit& split) {
  std::vector<Index> all = split.kept;
  all.insert(all.end(), split.held_out.begin(), split.held_out.end());
  std::sort(all.begin(), all.end());
  return all;
}

TEST(SelectRows, CopiesTheRowsInTheGivenOrder) {
  for (const Task task : {Task::multilabel, Task::multiclass, Task::binary}) {
    Dataset data = random_dataset(task, 3, 40);
    data.name = "source";
    data.content_hash = 17;
    const std::vector<Index> rows = {39, 0, 7, 7, 12};
    const DatasetPtr part = select_rows(data, rows);
    EXPECT_EQ(part->name, "source");
    EXPECT_EQ(part->task, task);
    EXPECT_EQ(part->feature_count, data.feature_count);
    EXPECT_EQ(part->label_count, data.label_count);
    EXPECT_THAT(verify(*part), testing::IsEmpty());
    ASSERT_EQ(part->rows(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_THAT(part->features(i), testing::ElementsAreArray(data.features(rows[i])));
      EXPECT_THAT(part->values(i), testing::ElementsAreArray(data.values(rows[i])));
      EXPECT_THAT(part->labels(i), testing::ElementsAreArray(data.labels(rows[i])));
    }
  }
}

TEST(SelectRows, KeepsEveryGroup) {
  DatasetBuilder all = test::dataset_of(Task::binary, 1);
  all.dense = {2, {1, 2, 3, 4, 5, 6}};
  all.fields = {{0, 3, 5}, {0, 3, 2, 4, 1, 3}};
  all.images = {1, 1, 2, {0, 9, 255, 1, 7, 8}, {0.5F}, {0.1F}};
  all.targets = {{0, 0, 1, 1}, {0}, {}};
  const DatasetPtr part = select_rows(std::move(all).build(), std::vector<Index>{2, 1});
  EXPECT_THAT(verify(*part), testing::IsEmpty());
  EXPECT_THAT(part->dense.value, testing::ElementsAre(5, 6, 3, 4));
  EXPECT_THAT(part->fields.category, testing::ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(part->fields.first, testing::ElementsAre(0, 3, 5));
  EXPECT_THAT(part->images.pixel, testing::ElementsAre(7, 8, 255, 1));
  EXPECT_THAT(part->images.mean, testing::ElementsAre(0.5F));
  EXPECT_THAT(part->targets.begin, testing::ElementsAre(0, 0, 1));
}

TEST(SelectRows, TheHashTellsSourceAndRowsApart) {
  Dataset data = random_dataset(Task::multilabel, 3, 10);
  data.content_hash = 1;
  const auto hash = [&](std::vector<Index> rows) { return select_rows(data, rows)->content_hash; };
  const std::set<std::uint64_t> first = {hash({0, 1}), hash({1, 0}), hash({0}), hash({0, 2})};
  EXPECT_EQ(first.size(), 4U);
  EXPECT_TRUE(first.contains(hash({0, 1})));
  data.content_hash = 2;
  EXPECT_FALSE(first.contains(hash({0, 1})));
}

TEST(SplitRows, EveryRowIsInExactlyOnePart) {
  for (const std::uint64_t rows : {2, 3, 10, 1000, 4097}) {
    for (const double share : {0.1, 0.25, 0.5, 0.75}) {
      const double expected = std::round(share * static_cast<double>(rows));
      if (expected == 0 || expected == static_cast<double>(rows)) continue;
      const RowSplit split = split_rows(rows, share);
      EXPECT_EQ(static_cast<double>(split.held_out.size()), expected);
      EXPECT_TRUE(std::is_sorted(split.kept.begin(), split.kept.end()));
      EXPECT_TRUE(std::is_sorted(split.held_out.begin(), split.held_out.end()));
      const std::vector<Index> all = sorted_union(split);
      ASSERT_EQ(all.size(), rows);
      for (Index row = 0; row < rows; ++row) ASSERT_EQ(all[row], row);
    }
  }
}

TEST(SplitRows, ASmallerShareIsPartOfALargerOne) {
  const RowSplit small = split_rows(1000, 0.1), large = split_rows(1000, 0.3);
  EXPECT_TRUE(std::includes(large.held_out.begin(), large.held_out.end(), small.held_out.begin(),
                            small.held_out.end()));
}

// The rows are spread over the file: each tenth of it holds 10 of 100 held-out rows in the mean;
// P(Bin(100, 0.1) not in 1..24) < 1e-4, and the draw is fixed.
TEST(SplitRows, SpreadsOverTheFile) {
  const RowSplit split = split_rows(1000, 0.1);
  std::vector<int> tenth(10);
  for (const Index row : split.held_out) ++tenth[row / 100];
  EXPECT_THAT(tenth, testing::Each(testing::AllOf(testing::Ge(1), testing::Le(24))));
}

// Results of different versions compare only if they held out the same rows.
TEST(SplitRows, IsFixedForAllTime) {
  EXPECT_THAT(split_rows(20, 0.2).held_out, testing::ElementsAre(8, 9, 10, 18));
}

TEST(SplitRows, NeitherPartIsEmpty) {
  EXPECT_EQ(
      error_of([] { split_rows(4, 0.1); }, ExitCode::usage),
      "--validation: found 0.1, which holds out 0 of 4 rows, expected at least one and not all");
  EXPECT_EQ(
      error_of([] { split_rows(4, 0.9); }, ExitCode::usage),
      "--validation: found 0.9, which holds out 4 of 4 rows, expected at least one and not all");
  EXPECT_EQ(
      error_of([] { split_rows(1, 0.5); }, ExitCode::usage),
      "--validation: found 0.5, which holds out 1 of 1 rows, expected at least one and not all");
}

TEST(HoldOut, PartsKeepTheSourceAndCountTheirOwnRows) {
  LoadedData all{std::make_shared<Dataset>(random_dataset(Task::multilabel, 5, 200)), {}};
  all.report.path = "data.txt";
  const LoadedPair pair = hold_out(all, {HeldOut::Which::random, 0.25});
  EXPECT_EQ(pair.train.data->rows(), 150U);
  EXPECT_EQ(pair.test.data->rows(), 50U);
  EXPECT_EQ(pair.train.data->nonzeros() + pair.test.data->nonzeros(), all.data->nonzeros());
  EXPECT_NE(pair.train.data->content_hash, pair.test.data->content_hash);
  EXPECT_EQ(pair.test.report.path, "data.txt");
  std::uint64_t unlabelled = 0;
  for (std::uint64_t row = 0; row < 200; ++row) unlabelled += all.data->labels(row).empty();
  EXPECT_GT(unlabelled, 0U);
  EXPECT_EQ(pair.train.report.rows_without_labels + pair.test.report.rows_without_labels,
            unlabelled);
}

}  // namespace
}  // namespace hetsgd
