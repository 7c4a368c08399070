// Every malformed file has its own message: where, what was found, what was expected, what to do.

#include "data_test_util.hpp"

namespace hetsgd {
namespace {

struct Malformed {
  const char* file;
  const char* message;  // after the path; "message | hint"
};

const Malformed kMalformed[] = {
    {"binary_bytes.txt",
     ": found a program (ELF), expected XC, libSVM or Criteo text, or IDX or CIFAR images | unpack "
     "it, or convert it to text"},
    {"cut_off.txt.bz2",
     ": the bzip2 stream is damaged at byte 57: it ends too early | fetch or compress the file "
     "again"},
    {"cut_off.txt.gz",
     ": the gzip stream is damaged at byte 35: it ends too early | fetch or compress the file "
     "again"},
    {"cut_off.txt.zst",
     ": the zstd stream is damaged at byte 36: it ends too early | fetch or compress the file "
     "again"},
    {"duplicate_index.txt",
     ":2:16: feature index 3 occurs twice in this row | keep one entry, or add their values"},
    {"duplicate_label.txt", ":2:5: label 4 occurs twice in this row | keep one of them"},
    {"empty.txt", ": found an empty file, or comments only, expected lines such as '1 3:0.5 7:1'"},
    {"index_text.txt", ":1:7: expected 'index:value', found 'age:0.5'"},
    {"index_too_large.txt",
     ":1:3: feature index 4294967295 is too large: the largest possible is 4294967294"},
    {"infinite_value.txt",
     ":2:5: feature value '-inf' is not finite | remove the entry or replace its value"},
    {"label_too_large.txt",
     ":2:1: label 2147483648 is too large: the largest possible is 2147483647"},
    {"missing_colon.txt",
     ":4:8: expected ':' after the feature index, found the end of '7' | an entry is "
     "'index:value', without blanks inside"},
    {"missing_label.txt",
     ":2:1: expected a label, found '2:1' | a line without labels begins with a space; weights of "
     "rows (label:weight) are not supported"},
    {"missing_value.txt", ":1:5: expected a number after 'index:', found nothing"},
    {"nan_value.txt",
     ":2:11: feature value 'nan' is not finite | remove the entry or replace its value"},
    {"negative_index.txt",
     ":2:3: found a negative feature index in '-3:0.5', expected indices from 0 or 1"},
    {"negative_multilabel.txt", ":4:1: found label -4, expected labels from 0 in multi-label data"},
    {"no_features.txt", ": found no row with a feature, expected lines such as '1 3:0.5 7:1'"},
    {"no_labels.txt",
     ": found no row with a label, expected lines such as '1 3:0.5 7:1' | a line that begins with "
     "a space has no label"},
    {"only_comments.txt",
     ": found an empty file, or comments only, expected lines such as '1 3:0.5 7:1'"},
    {"overflowing_value.txt", ":1:5: feature value '1e39' is outside the range of a 32-bit float"},
    {"ranking.txt",
     ":1:3: expected 'index:value', found 'qid:1' | ranking data (qid) is not supported"},
    {"real_label.txt",
     ":1:1: expected an integer label, found '2.5' | real-valued targets (regression) are not "
     "supported"},
    {"trailing_comma.txt",
     ":1:5: expected a label, found nothing | labels are integers, separated by commas without "
     "blanks"},
    {"unlabelled_binary.txt",
     ":3:1: found no label, expected one in every row of binary data | remove the row; a missing "
     "label is not the negative class"},
    {"value_text.txt", ":1:5: expected a number after 'index:', found '0.5x'"},
    {"wrong_checksum.txt.gz",
     ": the gzip stream is damaged at byte 43: incorrect data check | fetch or compress the file "
     "again"},
    {"wrong_separator.txt",
     ":1:4: expected ':' after the feature index, found '=0.5' | an entry is 'index:value', "
     "without blanks inside"},
    {"xc_blank_in_labels.txt",
     ":2:3: expected a label, found nothing | labels are integers, separated by commas without "
     "blanks"},
    {"xc_feature_far_out_of_range.txt",
     ":2:3: feature index 99999999999999999999 is out of range: the header promises 5 features (0 "
     "to 4) | correct the header or the entry"},
    {"xc_feature_out_of_range.txt",
     ":3:7: feature index 5 is out of range: the header promises 5 features (0 to 4) | indices in "
     "XC files count from 0"},
    {"xc_label_out_of_range.txt",
     ":3:3: label 3 is out of range: the header promises 3 labels (0 to 2) | labels in XC files "
     "count from 0"},
    {"xc_label_text.txt",
     ":2:1: expected a label, found 'cat' | labels are integers, separated by commas without "
     "blanks"},
    {"xc_negative_label.txt", ":2:3: found a negative label in '-1', expected labels from 0"},
    {"xc_no_features.txt", ":1:3: found 0 features in the header, expected at least 1"},
    {"xc_no_rows.txt", ":1:1: found 0 rows in the header, expected at least 1"},
    {"xc_real_label.txt",
     ":2:1: expected a label, found '1.0' | labels are integers, separated by commas without "
     "blanks"},
    {"xc_too_few_rows.txt",
     ":1:1: found 2 rows, expected 3 by the header | the file may be cut off"},
    {"xc_too_many_labels.txt",
     ":1:5: found 3000000000 labels in the header, expected at most 2147483648"},
    {"xc_too_many_rows.txt",
     ":1:1: found 2 rows, expected 1 by the header | correct the header's first number"},
};

std::string message_of(const std::string& file) {
  LoadOptions options;
  options.cache = CacheMode::off;
  const std::string path = std::string(HETSGD_FIXTURES) + "/" + file;
  std::string message = error_of([&] { load_dataset(path, options); });
  if (message.starts_with(path)) message.erase(0, path.size());
  return message;
}

TEST(Malformed, EveryFixtureHasItsMessage) {
  std::set<std::string> covered;
  for (const auto& [file, message] : kMalformed) {
    EXPECT_EQ(message_of(file), message);
    covered.insert(file);
  }
  for (const auto& entry : std::filesystem::directory_iterator(HETSGD_FIXTURES)) {
    EXPECT_TRUE(covered.contains(entry.path().filename().string())) << entry.path();
  }
}

TEST(Malformed, ExplicitFormatAndBase) {
  LoadOptions options;
  options.format = DataFormat::xc;
  EXPECT_EQ(error_of([&] { parse("1 1:0.5 2:1\n", options); }),
            "test:1:1: found '1 1:0.5 2:1', expected the header 'points features labels' | libSVM "
            "text has no header: --format libsvm");
  options = {};
  options.index_base = IndexBase::one;
  EXPECT_EQ(error_of([&] { parse("1 1:1\n0 2:1 0:3\n", options); }),
            "test:2:7: feature index 0 in '0:3', where indices count from 1 | with --index-base 0 "
            "they count "
            "from 0");
}

TEST(Malformed, OtherKindsOfFilesAreNamed) {
  const std::string kExpected = ", expected XC, libSVM or Criteo text, or IDX or CIFAR images";
  EXPECT_THAT(error_of([] { parse("PAR1\x15\x04"); }),
              StartsWith("test: found a Parquet file" + kExpected));
  EXPECT_THAT(error_of([] { parse("1 1:1\r0 1:2\r"); }),
              HasSubstr("carriage return alone (tr '\\r' '\\n')"));
  EXPECT_THAT(error_of([] { parse("<html>\n"); }), StartsWith("test: found HTML"));
  LoadOptions bytes;
  bytes.format = DataFormat::text;
  bytes.text.tokens = TokenKind::bytes;
  bytes.text.block = 2;
  EXPECT_NO_THROW(parse("PK\x03\x04 any file has bytes", bytes));
  bytes.text.tokens = TokenKind::characters;
  EXPECT_THAT(error_of([&] { parse("PK\x03\x04", bytes); }), HasSubstr("found a zip archive"));
}

TEST(Malformed, FilesThatCannotBeRead) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { load_dataset(folder / "missing", {}); }),
            (folder / "missing") +
                ": cannot open the data file: No such file or directory | check the path; "
                "generated data has a name such as generate:tiny");
  EXPECT_EQ(error_of([&] { load_dataset(folder.string(), {}); }),
            folder.string() + ": found a directory, expected a data file | name a file");
  folder.write("train-labels", "");
  folder.write("train-images", "");
  EXPECT_TRUE(error_of([&] {
                load_dataset(folder.string(), {});
              }).ends_with("name one of its files, such as \"train-images\" or \"train-labels\""));
  // The file opens, but every read fails, for any user.
  EXPECT_EQ(error_of([&] { load_dataset("/proc/self/mem", {}); }),
            "/proc/self/mem: cannot read the data file: Input/output error");
}

TEST(Malformed, FilesWithoutPermission) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const TemporaryFolder folder;
  write_file(folder / "secret", "1 1:1\n");
  std::filesystem::permissions(folder / "secret", std::filesystem::perms::none);
  EXPECT_EQ(error_of([&] { load_dataset(folder / "secret", {}); }),
            (folder / "secret") +
                ": cannot open the data file: Permission denied | check the file's permissions");
}

// Whatever stands in a message is shown without control characters and not at length.
TEST(Malformed, MessagesQuoteSafely) {
  EXPECT_EQ(error_of([] { parse("1 1:1 \x1b[31m:1\n"); }),
            "test:1:7: expected 'index:value', found '\\x1b[31m:1'");
  EXPECT_EQ(error_of([] { parse("1 1:" + std::string(100, 'z') + "\n"); }),
            "test:1:5: expected a number after 'index:', found '" + std::string(40, 'z') + "...'");
}

}  // namespace
}  // namespace hetsgd
