// The meaning of both text formats, trap by trap.
#include "data/text_parser.hpp"

#include "data/summary.hpp"
#include "data_test_util.hpp"

namespace hetsgd {
namespace {

std::vector<Index> features(const LoadedData& loaded, std::uint64_t row) {
  const auto span = loaded.data->features(row);
  return {span.begin(), span.end()};
}
std::vector<float> values(const LoadedData& loaded, std::uint64_t row) {
  const auto span = loaded.data->values(row);
  return {span.begin(), span.end()};
}
std::vector<Index> labels(const LoadedData& loaded, std::uint64_t row) {
  const auto span = loaded.data->labels(row);
  return {span.begin(), span.end()};
}

TEST(XcText, ReadsRowsLabelsAndValues) {
  const LoadedData loaded = parse("3 5 4\n0,3 0:1 4:-0.5\n 2:1e-3\n1\n");
  EXPECT_EQ(loaded.report.format, DataFormat::xc);
  EXPECT_EQ(loaded.data->task, Task::multilabel);
  EXPECT_EQ(loaded.data->rows(), 3U);
  EXPECT_EQ(loaded.data->feature_count, 5U);
  EXPECT_EQ(loaded.data->label_count, 4U);
  EXPECT_THAT(labels(loaded, 0), ElementsAre(0, 3));
  EXPECT_THAT(features(loaded, 0), ElementsAre(0, 4));
  EXPECT_THAT(values(loaded, 0), ElementsAre(1.0F, -0.5F));
  EXPECT_THAT(labels(loaded, 1), IsEmpty());
  EXPECT_THAT(values(loaded, 1), ElementsAre(1e-3F));
  EXPECT_THAT(labels(loaded, 2), ElementsAre(1));
  EXPECT_THAT(features(loaded, 2), IsEmpty());
  EXPECT_EQ(loaded.report.rows_without_labels, 1U);
  EXPECT_EQ(loaded.report.rows_without_features, 1U);
}

TEST(XcText, SameRowsWhateverTheLayout) {
  const LoadedData plain = parse("2 9 4\n0,3 0:1 4:2\n1 8:3\n");
  for (const char* text : {
           "2 9 4\r\n0,3 0:1 4:2\r\n1 8:3\r\n",                              // CRLF
           "2 9 4\n0,3 0:1 4:2\n1 8:3",                                      // no final newline
           "2 9 4 \n0,3 0:1 4:2  \n1 8:3 \t\n",                              // trailing blanks
           "# head\n2 9 4 # counts\n# x:1\n0,3 0:1 4:2 # c\n1 8:3#d\n#end",  // comments
           "2\t9\t4\n3,0\t4:2\t0:1\n1\t8:3\n",  // tabs, unsorted labels and features
           "\xEF\xBB\xBF"
           "2 9 4\n0,3 0:1 4:2\n1 8:3\n",              // byte order mark
           "2 9 4\n0,3 0:1 4:2\n1 8:3\n\n\n\r\n",      // empty lines at the end
           "\n2 9 4\n0,3  0:+1   4:2.0\n1 8:30e-1\n",  // blanks, other spellings
       }) {
    expect_same_data(*plain.data, *parse(text).data);
  }
}

TEST(XcText, AnEmptyLineIsARow) {
  const LoadedData loaded = parse("3 2 2\n0 0:1\n\n1 1:1\n");
  EXPECT_EQ(loaded.data->rows(), 3U);
  EXPECT_EQ(loaded.report.rows_without_labels, 1U);
  EXPECT_EQ(loaded.report.rows_without_features, 1U);
}

TEST(LibsvmText, DetectsTheIndexBase) {
  const LoadedData one = parse("1 1:1 3:1\n0 2:1\n");
  EXPECT_EQ(one.report.format, DataFormat::libsvm);
  EXPECT_EQ(one.report.index_base, IndexBase::one);
  EXPECT_THAT(features(one, 0), ElementsAre(0, 2));
  EXPECT_EQ(one.data->feature_count, 3U);

  const LoadedData zero = parse("1 1:1 3:1\n0 0:1\n");
  EXPECT_EQ(zero.report.index_base, IndexBase::zero);
  EXPECT_THAT(features(zero, 0), ElementsAre(1, 3));
  EXPECT_EQ(zero.data->feature_count, 4U);

  LoadOptions options;
  options.index_base = IndexBase::zero;
  EXPECT_THAT(features(parse("1 1:1 3:1\n0 2:1\n", options), 0), ElementsAre(1, 3));
}

TEST(LibsvmText, SkipsEmptyLinesButKeepsRowsThatBeginWithABlank) {
  const LoadedData loaded = parse("3,1 1:1\n\n\r\n 2:1\n \n# note\n2 3:1\n\n");
  EXPECT_EQ(loaded.data->rows(), 4U);
  EXPECT_EQ(loaded.report.rows_without_labels, 2U);
  EXPECT_EQ(loaded.report.rows_without_features, 1U);
}

TEST(LibsvmText, ReadsBinaryLabels) {
  for (const char* text :
       {"+1 1:1\n-1 1:1\n1 1:1\n", "1 1:1\n0 1:1\n1.0 1:1\n", "1 1:1\n0 1:1\n+1 1:1\n",
        "+1.000000e+00 1:1\n-1.000000e+00 1:1\n1E0 1:1\n", "1.e0 1:1\n0.00e+5 1:1\n10e-1 1:1\n"}) {
    const LoadedData loaded = parse(text);
    EXPECT_EQ(loaded.data->task, Task::binary) << text;
    EXPECT_EQ(loaded.data->label_count, 1U);
    EXPECT_THAT(loaded.data->targets.begin, ElementsAre(0, 1, 1, 2));
    EXPECT_THAT(loaded.data->targets.index, ElementsAre(0, 0));
    EXPECT_EQ(loaded.report.rows_without_labels, 0U);  // a negative row is not one without a label
  }
  EXPECT_THAT(parse("-1 1:1\n1 1:1\n").report.label_names, ElementsAre("-1", "1"));
  EXPECT_THAT(parse("0 1:1\n1 1:1\n").report.label_names, ElementsAre("0", "1"));
}

TEST(LibsvmText, NumbersClassesInAscendingOrder) {
  const LoadedData loaded = parse("7 1:1\n-2 1:1\n10 1:1\n7 1:1\n");
  EXPECT_EQ(loaded.data->task, Task::multiclass);
  EXPECT_EQ(loaded.data->label_count, 3U);
  EXPECT_THAT(loaded.data->targets.index, ElementsAre(1, 0, 2, 1));
  EXPECT_THAT(loaded.report.label_names, ElementsAre("-2", "7", "10"));
  // Numbers too far apart for a table.
  EXPECT_THAT(parse("2000000000 1:1\n-2000000000 1:1\n5 1:1\n").data->targets.index,
              ElementsAre(2, 0, 1));
}

TEST(LibsvmText, TakesListsAsMultilabel) {
  const LoadedData loaded = parse("5,2 1:1\n3 1:1\n 1:1\n");
  EXPECT_EQ(loaded.data->task, Task::multilabel);
  EXPECT_EQ(loaded.data->label_count, 6U);
  EXPECT_THAT(labels(loaded, 0), ElementsAre(2, 5));
  EXPECT_THAT(loaded.report.label_names, IsEmpty());
}

TEST(Text, KeepsTheLargestIndices) {
  const LoadedData loaded = parse("2147483647,0 4294967294:1\n");
  EXPECT_EQ(loaded.data->label_count, 2147483648U);
  EXPECT_EQ(loaded.data->feature_count, 4294967294U);  // indices from 1
  EXPECT_THAT(verify(*loaded.data), IsEmpty());
}

TEST(Text, TheHeaderDecidesTheFormat) {
  EXPECT_EQ(parse("1 2 3\n0 1:1\n").report.format, DataFormat::xc);
  EXPECT_EQ(parse("1 2:3\n").report.format, DataFormat::libsvm);
  LoadOptions options;
  options.format = DataFormat::libsvm;
  EXPECT_EQ(error_of([&] { parse("1 2 3\n0 1:1\n", options); }),
            "test:1:4: expected ':' after the feature index, found the end of '2' | an entry is "
            "'index:value', without blanks inside");
}

// Chunks are a megabyte: this text has several, with comments and rows of every kind between them.
std::string long_text(bool xc) {
  RandomStream random(11, Purpose::test);
  std::string rows;
  int count = 0;
  while (rows.size() < (std::size_t{7} << 19)) {
    const std::uint64_t kind = random.below(20);
    if (kind == 0) {
      rows += "# a comment: with, marks:\n";
      continue;
    }
    if (kind == 1 && !xc) {
      rows += "\n";
      continue;
    }
    if (kind > 3) rows += fmt::format("{}", random.below(90));
    if (kind > 9) rows += fmt::format(",{}", 90 + random.below(10));
    if (kind <= 3) rows += " ";
    for (int k = 0; k < static_cast<int>(random.below(30)); ++k) {
      rows += fmt::format(" {}:{}", k * 7 + static_cast<int>(random.below(7)),
                          static_cast<float>(random.normal()));
    }
    rows += random.below(5) == 0 ? " \r\n" : "\n";
    ++count;
  }
  return (xc ? fmt::format("{} 300 100\n", count) : "") + rows;
}

TEST(Text, AnyNumberOfThreadsGivesTheSameBytes) {
  for (const bool xc : {true, false}) {
    const std::string text = long_text(xc);
    LoadOptions options;
    options.threads = 1;
    const LoadedData one = parse(text, options);
    EXPECT_THAT(verify(*one.data), IsEmpty());
    for (const int threads : {2, 3, 16}) {
      options.threads = threads;
      const LoadedData many = parse(text, options);
      expect_same_data(*one.data, *many.data);
      EXPECT_EQ(one.report.rows_without_labels, many.report.rows_without_labels);
    }
  }
}

TEST(Text, ReportsTheFirstErrorWithAnyNumberOfThreads) {
  std::string text = long_text(false);
  const auto lines_before = [&](std::size_t place) {
    return std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(place), '\n');
  };
  const std::size_t later = text.find('\n', std::size_t{3} << 20) + 1;
  text.insert(later, "1 x:1\n");
  const std::size_t early = text.find('\n', std::size_t{3} << 19) + 1;
  text.insert(early, "1 2:y\n");
  const std::string expected = fmt::format("test:{}:5: expected a number after 'index:', found 'y'",
                                           lines_before(early) + 1);
  for (const int threads : {1, 2, 8}) {
    LoadOptions options;
    options.threads = threads;
    EXPECT_EQ(error_of([&] { parse(text, options); }), expected);
  }
}

// The last bytes are parsed from a copy: every length of text must meet the same end.
TEST(Text, EveryLengthOfTailIsRead) {
  std::string text;
  for (std::uint64_t row = 1; row <= 60; ++row) {
    text += fmt::format("{} {}:{}\n", row % 2, row, 0.5 * static_cast<double>(row));
    if (row == 1) continue;  // two rows at least, so that both labels occur
    for (const bool newline : {true, false}) {
      const LoadedData loaded = parse(newline ? text : text.substr(0, text.size() - 1));
      ASSERT_EQ(loaded.data->rows(), row);
      ASSERT_EQ(loaded.data->sparse.value.back(), 0.5F * static_cast<float>(row));
    }
  }
}

TEST(Text, NeverReadsBeyondTheBytesGiven) {
  const std::string text = "3 9 9\n1,2 1:0.5 2:1\n 3:4\n5 1:1";
  for (std::size_t size = 0; size <= text.size(); ++size) {
    // Exactly `size` bytes on the heap: AddressSanitizer watches the end.
    const std::vector<char> exact(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(size));
    bool read = true;
    try {
      parse_text({exact.data(), exact.size()}, "test", {});
    } catch (const Error&) {
      read = false;
    }
    if (size < text.rfind('5')) {
      EXPECT_FALSE(read) << size;
    }  // rows are missing
    if (size == text.size()) {
      EXPECT_TRUE(read);
    }
  }
}

}  // namespace
}  // namespace hetsgd
