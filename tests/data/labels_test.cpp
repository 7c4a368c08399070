// A test file read with what its training file demands.
#include <gmock/gmock.h>

#include "data_test_util.hpp"

namespace hetsgd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

LoadedData parse_for(const LoadedData& train, const std::string& text) {
  return parse_text(text, "test", options_for_test({}, train));
}

TEST(TestData, HasTheTrainingDataAsMinimum) {
  const LoadedData train = parse("4,9 3:1 8:1\n0 1:1\n");
  const LoadedData test = parse_for(train, "1 2:1\n3 1:1\n");
  EXPECT_EQ(test.data->task, Task::multilabel);  // alone these rows would be multi-class
  EXPECT_EQ(test.data->feature_count, 8U);
  EXPECT_EQ(test.data->label_count, 10U);
  EXPECT_THAT(test.data->targets.index, ElementsAre(1, 3));
}

TEST(TestData, MayShowMoreFeaturesAndLabels) {
  const LoadedData train = parse("4,9 3:1 8:1\n0 1:1\n");
  const LoadedData test = parse_for(train, "12,1 20:1\n");
  EXPECT_EQ(test.data->feature_count, 20U);
  EXPECT_EQ(test.data->label_count, 13U);
}

TEST(TestData, TakesTheIndexBaseOfTheTrainingData) {
  const LoadedData train = parse("1 0:1 3:1\n0 1:1\n");
  const LoadedData test = parse_for(train, "1 1:1\n0 2:1\n");  // alone: base 1
  EXPECT_THAT(test.data->sparse.index, ElementsAre(1, 2));
  const LoadedData one = parse("1 1:1 3:1\n0 1:1\n");
  EXPECT_EQ(error_of([&] { parse_for(one, "1 1:1\n0 0:1\n"); }),
            "test:2:3: feature index 0 in '0:1', where indices count from 1 | with --index-base 0 "
            "they count from 0");
}

TEST(TestData, KeepsTheColumnsOfTheTrainingClasses) {
  const LoadedData train = parse("3 1:1\n8 1:1\n5 1:1\n");
  const LoadedData test = parse_for(train, "8 1:1\n5 1:1\n");
  EXPECT_THAT(test.report.label_names, ElementsAre("3", "5", "8"));
  EXPECT_THAT(test.data->targets.index, ElementsAre(2, 1));
  EXPECT_EQ(test.data->label_count, 3U);
  // A class that the training data lacks comes after them.
  const LoadedData more = parse_for(train, "4 1:1\n8 1:1\n");
  EXPECT_THAT(more.report.label_names, ElementsAre("3", "5", "8", "4"));
  EXPECT_THAT(more.data->targets.index, ElementsAre(3, 2));
  // Only 0 and 1, which alone would be binary.
  const LoadedData digits = parse("0 1:1\n1 1:1\n2 1:1\n");
  EXPECT_THAT(parse_for(digits, "1 1:1\n0 1:1\n").data->targets.index, ElementsAre(1, 0));
}

TEST(TestData, BinaryLabelsMustBeTheSamePair) {
  const LoadedData train = parse("-1 1:1\n+1 1:1\n");
  EXPECT_THAT(parse_for(train, "1 1:1\n1 1:1\n").data->targets.index, ElementsAre(0, 0));
  EXPECT_THAT(parse_for(train, "-1 1:1\n-1 1:1\n").data->targets.index, IsEmpty());
  EXPECT_EQ(error_of([&] { parse_for(train, "1 1:1\n0 1:1\n"); }),
            "test: found the labels '0' and '1', expected '-1' and '1' as in the training data | "
            "write both files with the same pair of labels");
  EXPECT_EQ(error_of([&] { parse_for(train, "# a\n1 1:1\n2 1:1\n"); }),
            "test:2:1: found 2 different labels, expected -1 and 1, or 0 and 1 | the training data "
            "is binary");
}

TEST(TestData, RowsWithSeveralLabelsDoNotFitOneClassEach) {
  const LoadedData train = parse("3 1:1\n8 1:1\n");
  EXPECT_EQ(error_of([&] { parse_for(train, "3 1:1\n\n3,8 1:1\n"); }),
            "test:3:1: found 2 labels, expected one per row, as in the training data");
}

TEST(TestData, MayHaveNoLabelsAtAll) {
  const LoadedData train = parse("3 1:1\n8 1:1\n");
  const LoadedData test = parse_for(train, " 1:1\n 1:2\n");
  EXPECT_EQ(test.data->task, Task::multiclass);
  EXPECT_EQ(test.data->label_count, 2U);
  EXPECT_EQ(test.report.rows_without_labels, 2U);
}

TEST(TestData, XcHeadersMustNotPromiseMore) {
  const LoadedData train = parse("1 5 4\n0 1:1\n");
  EXPECT_EQ(parse_for(train, "1 3 2\n0 1:1\n").data->feature_count, 5U);
  EXPECT_EQ(error_of([&] { parse_for(train, "1 6 4\n0 1:1\n"); }),
            "test:1:3: found 6 features in the header, expected at most 5, as in the training data "
            "| a training and a test file in this format belong together and have equal headers");
}

TEST(LoadPair, BothStateTheLargerCounts) {
  const TemporaryFolder folder;
  write_file(folder / "train", "3 1:1\n8 4:1\n");
  write_file(folder / "test", "9 7:1\n3 1:1\n");
  LoadOptions options;
  options.cache = CacheMode::off;
  const LoadedPair pair = load_pair(folder / "train", folder / "test", options);
  for (const LoadedData* loaded : {&pair.train, &pair.test}) {
    EXPECT_EQ(loaded->data->feature_count, 7U);
    EXPECT_EQ(loaded->data->label_count, 3U);
    EXPECT_THAT(loaded->report.label_names, ElementsAre("3", "8", "9"));
  }
  EXPECT_THAT(pair.test.data->targets.index, ElementsAre(2, 0));
}

}  // namespace
}  // namespace hetsgd
