// Files as they come: compressed, converted, piped, generated; and the real ones.
#include "data/load.hpp"

#include <bzlib.h>
#include <sys/stat.h>
#include <zstd.h>

#include <cstdlib>

#include "data/generate.hpp"
#include "data/source.hpp"
#include "data/summary.hpp"
#include "data/write.hpp"
#include "data_test_util.hpp"

namespace hetsgd {
namespace {

std::string bzip2(std::string text) {
  auto size = static_cast<unsigned>(text.size() + text.size() / 100 + 700);
  std::string out(size, '\0');
  EXPECT_EQ(BZ2_bzBuffToBuffCompress(out.data(), &size, text.data(),
                                     static_cast<unsigned>(text.size()), 9, 0, 0),
            BZ_OK);
  out.resize(size);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

class LoadTest : public testing::Test {
 protected:
  LoadTest() { options_.cache = CacheMode::off; }

  LoadedData load(const std::string& name, const std::string& bytes) {
    write_file(folder_ / name, bytes);
    return load_dataset(folder_ / name, options_);
  }

  TemporaryFolder folder_;
  LoadOptions options_;
};

// Several megabytes, so that every decompressor fills its block more than once.
std::string large_text() {
  RandomStream random(21, Purpose::test);
  std::string text;
  while (text.size() < 2'200'000) {
    text += fmt::format("{} {}:{}\n", random.below(2), 1 + random.below(1000), random.uniform());
  }
  return text;
}

TEST_F(LoadTest, CompressedTextIsTheSameText) {
  std::string one_block;  // of the decompressors, exactly
  while (one_block.size() < std::size_t{1} << 20) one_block += "1 1:0.5\n0 2:1.5\n";
  for (const std::string& text : {std::string("1 1:1 3:0.5\n0 2:1\n"), one_block, large_text()}) {
    const LoadedData plain = load("plain", text);
    const std::size_t half = text.find('\n', text.size() / 2) + 1;
    const std::string first = text.substr(0, half), second = text.substr(half);
    for (const auto& [name, bytes] : std::vector<std::pair<std::string, std::string>>{
             {"x.gz", gzip(text)},
             {"x.bz2", bzip2(text)},
             {"x.zst", zstd(text)},
             {"no_suffix", zstd(text)},               // the content decides, not the name
             {"two.gz", gzip(first) + gzip(second)},  // several streams, as `cat` makes them
             {"two.bz2", bzip2(first) + bzip2(second)},
             {"two.zst", zstd(first) + zstd(second)},
             {"skipped.zst", std::string("\x5a\x2a\x4d\x18\4\0\0\0size", 12) + zstd(text)},
             {"padded.gz", gzip(text) + std::string(512, '\0')},
         }) {
      SCOPED_TRACE(name);
      const LoadedData loaded = load(name, bytes);
      expect_same_data(*plain.data, *loaded.data);
      EXPECT_EQ(loaded.data->content_hash, content_hash(bytes));
      EXPECT_EQ(loaded.report.file_bytes, bytes.size());
    }
  }
}

TEST_F(LoadTest, EveryTruncationOfACompressedFileIsAnError) {
  const std::string text = "1 1:1 3:0.5\n0 2:1\n";
  for (const std::string& bytes : {gzip(text), bzip2(text), zstd(text)}) {
    for (std::size_t size = 4; size < bytes.size(); ++size) {
      EXPECT_THAT(error_of([&] { load("cut", bytes.substr(0, size)); }),
                  HasSubstr("stream is damaged at byte"))
          << size;
    }
  }
}

// As `zstd --long=31` writes it: a frame that asks for a window of 2^log bytes, with one raw block.
std::string zstd_of_window(int log, const std::string& text) {
  const auto block = static_cast<unsigned>(text.size() << 3 | 1);
  std::string frame("\x28\xb5\x2f\xfd\0", 5);
  for (const unsigned byte : {static_cast<unsigned>(log - 10) << 3, block & 255, block >> 8, 0U}) {
    frame += static_cast<char>(byte);
  }
  return frame + text;
}

TEST_F(LoadTest, LargeWindowsAreRead) {
  const std::string text = "1 1:1 3:0.5\n0 2:1\n";
  EXPECT_EQ(load("long.zst", zstd_of_window(28, text)).data->rows(), 2U);
}

TEST_F(LoadTest, ErrorsInCompressedTextNameTheLine) {
  EXPECT_EQ(error_of([&] { load("x.gz", gzip("1 1:1\n0 2:z\n")); }),
            (folder_ / "x.gz") + ":2:5: expected a number after 'index:', found 'z'");
}

TEST_F(LoadTest, ReadsFromAPipe) {
  const std::string text = large_text();
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::jthread writer([&] { write_file(pipe, text); });
  const LoadedData piped = load_dataset(pipe, options_);
  expect_same_data(*load("plain", text).data, *piped.data);
}

TEST_F(LoadTest, ConvertedFilesNeedNoOptions) {
  for (const char* text : {"3 1:0.5 7:1\n9 2:1\n", "-1 1:1\n1 2:1\n", "2 9 4\n0,3 0:1\n 8:2\n"}) {
    const LoadedData original = load("source.txt", text);
    save_dataset(folder_ / "data.hsgd", *original.data, original.report);
    const LoadedData converted = load_dataset(folder_ / "data.hsgd", options_);
    EXPECT_EQ(converted.report.format, DataFormat::hsgd);
    EXPECT_EQ(converted.data->name, "data.hsgd");
    EXPECT_EQ(converted.data->content_hash, original.data->content_hash);  // of the same source
    EXPECT_EQ(converted.report.label_names, original.report.label_names);
    EXPECT_EQ(converted.report.rows_without_labels, original.report.rows_without_labels);
    expect_same_data(*original.data, *converted.data);
  }
}

// Converted alone, a test file may look like another task; with the training data it is put right.
TEST_F(LoadTest, ConvertedTestFilesFollowTheTrainingData) {
  const std::string digits = "1 1:1\n0 3:1\n1 2:1\n";
  const LoadedData test = load("t.txt", digits);
  ASSERT_EQ(test.data->task, Task::binary);
  save_dataset(folder_ / "t.hsgd", *test.data, test.report);
  for (const char* text : {"0 1:1\n2 1:1\n1 5:1\n", "0,4 5:1\n3 1:1\n"}) {
    const LoadedData train = load("train.txt", text);
    const LoadOptions options = options_for_test(options_, train);
    expect_same_data(*load_dataset(folder_ / "t.txt", options).data,
                     *load_dataset(folder_ / "t.hsgd", options).data);
  }
}

TEST_F(LoadTest, DamagedConvertedFilesAreErrors) {
  const LoadedData original = load("source.txt", "3 1:0.5 7:1\n9 2:1\n");
  const std::string path = folder_ / "data.hsgd";
  save_dataset(path, *original.data, original.report);
  const std::string bytes = read_file(path);
  write_file(path, damaged(bytes, bytes.size() - 1));
  const std::string message = error_of([&] { load_dataset(path, options_); });
  EXPECT_THAT(message, HasSubstr(path + ": the payload's checksum is wrong"));
  EXPECT_THAT(message, HasSubstr("| convert the source file again"));
}

TEST_F(LoadTest, GeneratesBySpecification) {
  const LoadedData train = load_dataset("generate:tiny?seed=3", options_);
  const LoadedData test = load_dataset("generate:tiny?seed=3", options_for_test(options_, train));
  EXPECT_EQ(train.report.format, DataFormat::generated);
  EXPECT_EQ(train.data->rows(), 2000U);
  EXPECT_EQ(test.data->rows(), 500U);
  EXPECT_EQ(test.data->label_count, train.data->label_count);
  EXPECT_NE(train.data->content_hash, test.data->content_hash);
  const DatasetPair pair = generate(parse_generator_spec("generate:tiny?seed=3"));
  expect_same_data(*pair.train, *train.data);
  expect_same_data(*pair.test, *test.data);
}

class RealData : public testing::Test {
 protected:
  void SetUp() override {
    const char* const folder = std::getenv("HETSGD_DATA_DIR");
    if (folder == nullptr || *folder == '\0') GTEST_SKIP() << "HETSGD_DATA_DIR is not set";
    folder_ = std::string(folder) + "/";
    options_.cache = CacheMode::off;
  }
  std::string folder_;
  LoadOptions options_;
};

TEST_F(RealData, A9a) {
  const LoadedPair pair = load_pair(folder_ + "a9a", folder_ + "a9a.t", options_);
  EXPECT_EQ(pair.train.data->rows(), 32560U);
  EXPECT_EQ(pair.test.data->rows(), 16281U);
  for (const LoadedData* loaded : {&pair.train, &pair.test}) {
    EXPECT_EQ(loaded->data->task, Task::binary);
    EXPECT_EQ(loaded->data->feature_count, 122U);  // feature 123 occurs in neither of these files
    EXPECT_EQ(loaded->report.index_base, IndexBase::one);
    EXPECT_THAT(verify(*loaded->data), testing::IsEmpty());
  }
}

TEST_F(RealData, Delicious) {
  const LoadedPair pair =
      load_pair(folder_ + "delicious_train.txt", folder_ + "delicious_test.txt", options_);
  EXPECT_EQ(pair.train.data->rows(), 12920U);
  EXPECT_EQ(pair.test.data->rows(), 3185U);
  EXPECT_EQ(pair.train.report.rows_without_labels, 10U);
  EXPECT_EQ(pair.test.report.rows_without_labels, 4U);
  for (const LoadedData* loaded : {&pair.train, &pair.test}) {
    EXPECT_EQ(loaded->data->task, Task::multilabel);
    EXPECT_EQ(loaded->data->feature_count, 500U);
    EXPECT_EQ(loaded->data->label_count, 983U);
    EXPECT_THAT(verify(*loaded->data), testing::IsEmpty());
  }
  EXPECT_NEAR(summarise(*pair.train.data, pair.train.report).labels.mean, 19.0, 0.1);
  const TemporaryFolder folder;  // text -> data -> text gives the file again, byte by byte
  write_xc(folder / "again.txt", *pair.test.data);
  EXPECT_EQ(read_file(folder / "again.txt"), read_file(folder_ + "delicious_test.txt"));
}

// 5,000 digits of MNIST, the classes all alike; its mean and deviation are known: 0.1307 and
// 0.3081.
TEST_F(RealData, Mnist) {
  const LoadedPair pair = load_pair(folder_ + "mnist5k/train-images-idx3-ubyte.gz",
                                    folder_ + "mnist5k/test-images-idx3-ubyte.gz", options_);
  EXPECT_EQ(pair.train.data->rows(), 4000U);
  EXPECT_EQ(pair.test.data->rows(), 1000U);
  EXPECT_EQ(pair.train.data->images.shape(), (ImageShape{1, 28, 28}));
  EXPECT_NEAR(pair.train.data->images.mean[0] / 255, 0.1307, 0.002);
  EXPECT_NEAR(pair.train.data->images.deviation[0] / 255, 0.3081, 0.002);
  for (const LoadedData* loaded : {&pair.train, &pair.test}) {
    EXPECT_EQ(loaded->data->label_count, 10U);
    EXPECT_THAT(verify(*loaded->data), testing::IsEmpty());
  }
}

}  // namespace
}  // namespace hetsgd
