// A test file read with what its training file demands.

#include "data/summary.hpp"
#include "data/write.hpp"
#include "data_test_util.hpp"

namespace hetsgd {
namespace {

LoadedData parse_for(const LoadedData& train, const std::string& text) {
  return parse_text(text, "test", options_for_test({}, train));
}

TEST(TestData, HasTheColumnsOfTheTrainingData) {
  const LoadedData train = parse("4,9 3:1 8:1\n0 1:1\n");
  const LoadedData test = parse_for(train, "1 2:1\n3 1:1\n");
  EXPECT_EQ(test.data->task, Task::multilabel);  // alone these rows would be multi-class
  EXPECT_EQ(test.data->feature_count, 8U);
  EXPECT_EQ(test.data->label_count, 10U);
  EXPECT_THAT(test.data->targets.index, ElementsAre(1, 3));
}

TEST(TestData, LosesFeaturesAndLabelsThatTheTrainingDataLack) {
  const LoadedData train = parse("4,9 3:1 8:1\n0 1:1\n");
  const LoadedData test = parse_for(train, "12,1 2:5 20:1 21:1\n10 9:1\n3 8:2\n");
  EXPECT_EQ(test.data->feature_count, 8U);
  EXPECT_EQ(test.data->label_count, 10U);
  EXPECT_THAT(test.data->sparse.begin, ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(test.data->sparse.index, ElementsAre(1, 7));
  EXPECT_THAT(test.data->sparse.value, ElementsAre(5, 2));
  EXPECT_THAT(test.data->targets.begin, ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(test.data->targets.index, ElementsAre(1, 3));
  EXPECT_EQ(test.report.rows_without_features, 1U);
  EXPECT_EQ(test.report.rows_without_labels, 1U);
  EXPECT_THAT(test.report.warnings,
              ElementsAre("test: features that the training data lack, such as 9, in 2 of 3 rows: "
                          "they are ignored",
                          "test: labels that the training data lack, such as 10, in 2 of 3 rows: "
                          "they are never hit, and have no loss"));
  EXPECT_THAT(verify(*test.data), IsEmpty());
}

TEST(TestData, TakesTheIndexBaseOfTheTrainingData) {
  const LoadedData train = parse("1 0:1 3:1\n0 1:1\n");
  const LoadedData test = parse_for(train, "1 1:1\n0 2:1\n");  // alone: base 1
  EXPECT_THAT(test.data->sparse.index, ElementsAre(1, 2));
  EXPECT_THAT(test.report.warnings, ElementsAre("test: no feature index is 0, but the training "
                                                "data count from 0: so do these"));
  EXPECT_THAT(parse_for(train, "1 1:1\n0 0:1\n").report.warnings, IsEmpty());
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
  // A class that the training data lacks has no column.
  const LoadedData more = parse_for(train, "4 1:1\n8 1:1\n");
  EXPECT_THAT(more.report.label_names, ElementsAre("3", "5", "8"));
  EXPECT_THAT(more.data->targets.begin, ElementsAre(0, 0, 1));
  EXPECT_THAT(more.data->targets.index, ElementsAre(2));
  EXPECT_THAT(more.report.warnings, ElementsAre(HasSubstr("such as 4, in 1 of 2 rows")));
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
            "test: found 6 features in the header, expected at most 5, as in the training data "
            "| a training and a test file in this format belong together and have equal headers");
}

class LoadPairTest : public testing::Test {
 protected:
  // Writes a text as it is; a name that ends with .hsgd is converted with `base`.
  std::string file(const std::string& name, const std::string& text,
                   IndexBase base = IndexBase::detect) {
    const std::string path = folder_ / name;
    write_file(path, text);
    if (!name.ends_with(".hsgd")) return path;
    LoadOptions convert = options_;
    convert.index_base = base;
    const LoadedData loaded = load_dataset(path, convert);
    save_dataset(path, *loaded.data, loaded.report);
    return path;
  }
  LoadPairTest() { options_.cache = CacheMode::off; }

  TemporaryFolder folder_;
  LoadOptions options_;
};

// Whatever the test file holds beyond the training file, in all formats.
TEST_F(LoadPairTest, ATestFileNeverChangesWhatIsTrained) {
  const std::string classes = "3 0:1\n8 4:1\n9 2:1\n", lists = "3,1 0:1\n0 4:1\n";
  const std::string more = "5 0:1 6:1\n3 1:1\n";
  for (const auto& [train, test] : std::vector<std::pair<std::string, std::string>>{
           {file("a.svm", classes), file("a.t", more)},
           {file("b.hsgd", classes), file("b.t", more)},
           {file("c.svm", classes), file("c.t.hsgd", more)},
           {file("d.svm", lists), file("d.t", more)},
           {file("e.svm", lists), file("e.t.hsgd", "2 9 9\n5,8 0:1 6:1\n3 1:1\n")},
           {file("f.hsgd", "2 5 4\n3,1 0:1\n0 4:1\n"), file("f.t", more)},
           {"generate:tiny?rows_train=9&labels=4&features=5", file("g.t", more)}}) {
    SCOPED_TRACE(train);
    const LoadedData alone = load_dataset(train, options_);
    const LoadedPair pair = load_pair(train, test, options_);
    expect_same_data(*pair.train.data, *alone.data);
    EXPECT_EQ(pair.train.report.label_names, alone.report.label_names);
    EXPECT_EQ(pair.test.report.label_names, alone.report.label_names);
    EXPECT_EQ(pair.test.data->feature_count, alone.data->feature_count);
    EXPECT_EQ(pair.test.data->label_count, alone.data->label_count);
    EXPECT_THAT(pair.test.data->sparse.index, ElementsAre(0, 1));
    EXPECT_THAT(pair.test.data->targets.begin, ElementsAre(0, 0, 1));
    EXPECT_THAT(pair.test.report.warnings, SizeIs(2));
    EXPECT_THAT(verify(*pair.test.data), IsEmpty());
  }
}

// The columns of a test row "1:1 2:1" by the base of the training file, in all formats.
TEST_F(LoadPairTest, OneIndexBaseForBothFiles) {
  const std::string zero = "1 1:1 2:1\n2 0:1 3:1\n", one = "1 1:1 3:1\n2 2:1 4:1\n";
  const std::string xc = "2 4 3\n1 1:1 2:1\n2 3:1\n", rows = "1 1:1 2:1\n2 3:1\n";
  const std::string test = file("t", rows), test_xc = file("t.xc", xc);
  const std::string test_0 = file("t0.hsgd", rows, IndexBase::zero);
  const std::string test_1 = file("t1.hsgd", rows, IndexBase::one);
  const std::string generated = "generate:tiny?rows_train=9&labels=4&features=5";
  const auto columns = [&](const std::string& train, const std::string& path) {
    const LoadedPair pair = load_pair(train, path, options_);
    const auto found = pair.test.data->features(0);
    return std::vector<Index>(found.begin(), found.end());
  };
  for (const std::string& train :
       {file("z.svm", zero), file("z.hsgd", zero), file("x.xc", xc), file("x.hsgd", xc),
        file("z1.hsgd", one, IndexBase::zero), generated}) {
    SCOPED_TRACE(train);
    EXPECT_THAT(columns(train, test), ElementsAre(1, 2));
    EXPECT_THAT(load_pair(train, test, options_).test.report.warnings,
                ElementsAre(HasSubstr("t: no feature index is 0")));
    EXPECT_EQ(columns(train, test_0), columns(train, test));
    if (train != generated) {
      EXPECT_EQ(columns(train, test_xc), columns(train, test));
    }
    EXPECT_THAT(
        error_of([&] { columns(train, test_1); }),
        AllOf(HasSubstr("t1.hsgd: found feature indices that count from 1, expected from 0"),
              HasSubstr("--index-base")));
  }
  for (const std::string& train : {file("o.svm", one), file("o.hsgd", one)}) {
    SCOPED_TRACE(train);
    options_.index_base = IndexBase::detect;
    EXPECT_THAT(columns(train, test), ElementsAre(0, 1));
    EXPECT_EQ(columns(train, test_1), columns(train, test));
    for (const std::string& other : {test_0, test_xc}) {
      EXPECT_THAT(error_of([&] { columns(train, other); }),
                  HasSubstr("found feature indices that count from 0, expected from 1"));
    }
    EXPECT_THAT(load_pair(train, test, options_).test.report.warnings, IsEmpty());
    options_.index_base = IndexBase::one;  // stated: XC counts from 0 all the same
    EXPECT_THAT(columns(train, test_xc), ElementsAre(1, 2));
  }
}

}  // namespace
}  // namespace hetsgd
