// Files that change, shrink or are no files: an error in words, never unchecked bytes.
#include <sys/stat.h>

#include "data/binary.hpp"
#include "data/source.hpp"
#include "data/write.hpp"
#include "data_test_util.hpp"

namespace hetsgd {
namespace {

namespace fs = std::filesystem;

// Somebody writes into the file between any two reads, and cuts it off at last.
class RestlessSource final : public ByteSource {
 public:
  RestlessSource(std::string bytes, std::uint64_t seed, int reads)
      : bytes_(std::move(bytes)), random_(seed, Purpose::test), reads_(reads) {}
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, std::span<char> to) const override {
    if (reads_-- == 0) throw data_error("cut off");
    MemorySource(bytes_).read(offset, to);
    bytes_[random_.below(bytes_.size())] ^= static_cast<char>(1 << random_.below(8));
  }

 private:
  mutable std::string bytes_;
  mutable RandomStream random_;
  mutable int reads_;
};

TEST(ChangingFile, ABinaryFileIsBelievedOnlyAsItWasRead) {
  const Dataset data = random_dataset(Task::multilabel, 1);
  const std::string bytes = binary_form(data);
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const int reads = seed % 3 == 0 ? static_cast<int>(seed % 20) : 1000;
    try {
      expect_same_data(decode_binary(RestlessSource(bytes, seed, reads), "f").parsed.data, data);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      ++refused;
    }
    try {
      const Dataset found =
          decode_binary_rows(RestlessSource(bytes, seed, reads), "f", every_row(true)).parsed.data;
      ASSERT_EQ(found.rows(), data.rows());
      for (std::uint64_t row = 0; row < found.rows(); ++row) {
        const auto ours = found.features(found.rows() - 1 - row);
        EXPECT_TRUE(std::ranges::equal(ours, data.features(row)));
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      ++refused;
    }
  }
  EXPECT_GT(refused, 300);
}

TEST(ChangingFile, ATextIsBelievedOnlyAsItWasHashed) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.txt";
  write_file(path, "1 1:1\n0 2:1\n");
  const auto time = fs::last_write_time(path);
  DataFile file(path);
  EXPECT_EQ(file.hash(), content_hash("1 1:1\n0 2:1\n"));
  // The same length and the same time, as when both fall into one tick of the clock.
  write_file(path, "1 1:1\n0 3:1\n");
  fs::last_write_time(path, time);
  EXPECT_EQ(error_of([&] { file.whole(2); }),
            path +
                ": the data file changed while it was read | read it again when nobody writes "
                "to it");

  DataFile shrinking(path);
  fs::resize_file(path, 6);
  EXPECT_THAT(error_of([&] { shrinking.whole(2); }),
              HasSubstr("the data file shrank from 12 to 6 bytes while it was read"));
  EXPECT_THAT(error_of([&] { shrinking.hash(); }),
              HasSubstr("the data file shrank from 12 to 6 bytes while it was read"));
}

TEST(ChangingFile, WhatCannotFitIsRefusedWithTheEstimate) {
  const TemporaryFolder folder;
  const std::string path = folder / "sparse.txt";
  write_file(path, "1 1:1\n");
  std::error_code failed;
  fs::resize_file(path, std::uintmax_t{1} << 43, failed);
  if (failed) GTEST_SKIP() << "no sparse file of 8 TiB here: " << failed.message();
  for (const CacheMode cache : {CacheMode::off, CacheMode::use}) {
    LoadOptions options;
    options.cache = cache;
    options.cache_directory = folder.string();
    EXPECT_THAT(
        error_of([&] { load_dataset(path, options); }),
        HasSubstr("sparse.txt: the text needs at least 8 TiB of memory, this machine has "));
  }
}

TEST(ChangingFile, WhatIsNoCacheEntryIsReplaced) {
  const TemporaryFolder folder;
  const std::string text = folder / "a.txt";
  write_file(text, "1 1:1\n0 2:1\n");
  LoadOptions options;
  options.cache_directory = folder / "cache";
  load_dataset(text, options);
  const fs::path entry = fs::directory_iterator(options.cache_directory)->path();
  const auto expect_rebuilt = [&] {
    const LoadReport report = load_dataset(text, options).report;
    EXPECT_FALSE(report.from_cache);
    EXPECT_EQ(report.cache_note,
              "damaged cache rebuilt: " + entry.string() + ": not a regular file");
    EXPECT_TRUE(load_dataset(text, options).report.from_cache);
    fs::remove(entry);
  };
  fs::remove(entry);
  fs::create_symlink("/dev/zero", entry);
  expect_rebuilt();
  ASSERT_EQ(mkfifo(entry.c_str(), 0600), 0);
  expect_rebuilt();
  fs::create_directory(entry);
  expect_rebuilt();
}

}  // namespace
}  // namespace hetsgd
