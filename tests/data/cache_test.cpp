// The cache is trusted only as far as its checksums go.
#include "data/cache.hpp"

#include "data/binary.hpp"
#include "data/write.hpp"
#include "data_test_util.hpp"

namespace hetsgd {
namespace {

bool is_mapped(const std::string& path) {
  return read_file("/proc/self/maps").find(path) != std::string::npos;
}

class CacheTest : public testing::Test {
 protected:
  CacheTest() {
    options_.cache_directory = folder_ / "cache";
    options_.threads = 1;
    write_file(source_, text_);
  }

  LoadedData load() const { return load_dataset(source_, options_); }

  std::vector<std::string> cache_files() const {
    std::vector<std::string> files;
    if (!std::filesystem::exists(options_.cache_directory)) return files;
    for (const auto& entry : std::filesystem::directory_iterator(options_.cache_directory)) {
      files.push_back(entry.path().string());
    }
    return files;
  }

  TemporaryFolder folder_;
  std::string source_ = folder_ / "source.txt";
  std::string text_ = "3 1:0.5 7:1\n9 2:1\n 3:2\n3\n";
  LoadOptions options_;
};

TEST_F(CacheTest, SecondLoadComesFromTheCacheAndIsTheSame) {
  const LoadedData first = load();
  EXPECT_FALSE(first.report.from_cache);
  EXPECT_EQ(first.report.cache_note, "");
  ASSERT_EQ(cache_files().size(), 1U);
  const LoadedData second = load();
  EXPECT_TRUE(second.report.from_cache);
  EXPECT_EQ(second.report.cache_note, "");
  expect_same_data(*first.data, *second.data);
  EXPECT_EQ(first.data->content_hash, second.data->content_hash);
  EXPECT_EQ(first.data->name, second.data->name);
  EXPECT_EQ(first.report.label_names, second.report.label_names);
  EXPECT_EQ(first.report.index_base, second.report.index_base);
  EXPECT_EQ(first.report.format, second.report.format);
  EXPECT_EQ(first.report.file_bytes, second.report.file_bytes);
  EXPECT_EQ(second.report.rows_without_labels, 1U);
  EXPECT_EQ(second.report.rows_without_features, 1U);
}

TEST_F(CacheTest, KnowsContentAndOptionsButNotNames) {
  load();
  std::filesystem::copy_file(source_, folder_ / "copy.txt");
  EXPECT_TRUE(load_dataset(folder_ / "copy.txt", options_).report.from_cache);
  options_.index_base = IndexBase::zero;
  EXPECT_FALSE(load().report.from_cache);
  EXPECT_EQ(load().data->feature_count, 8U);
  options_.index_base = IndexBase::detect;
  write_file(source_, text_ + "4 1:1\n");
  const LoadedData changed = load();
  EXPECT_FALSE(changed.report.from_cache);
  EXPECT_EQ(changed.data->rows(), 5U);
}

TEST_F(CacheTest, FitsCachedDataToTheTrainingData) {
  const LoadedData train = parse("12 30:1\n9 1:1\n");
  const LoadOptions options = options_for_test(options_, train);
  const LoadedData first = load_dataset(source_, options);
  const LoadedData second = load_dataset(source_, options);
  EXPECT_TRUE(second.report.from_cache);
  expect_same_data(*first.data, *second.data);
  EXPECT_EQ(second.data->feature_count, 30U);
  EXPECT_THAT(second.report.label_names, testing::ElementsAre("9", "12"));
  EXPECT_EQ(second.report.warnings, first.report.warnings);
}

TEST_F(CacheTest, CachedDataLieInTheMappedFileWhichOutlivesItsName) {
  const LoadedData parsed = load();
  const std::string path = cache_files().front();
  const LoadedData mapped = load();
  if (!is_mapped(path)) GTEST_SKIP() << "files of this folder are not mapped";
  save_dataset(path, *parse("1 1:1\n").data, {});  // another file of this name
  expect_same_data(*mapped.data, *parsed.data);
  EXPECT_THAT(load().report.cache_note, StartsWith("foreign cache rebuilt: "));
  std::filesystem::remove(path);
  expect_same_data(*mapped.data, *parsed.data);
}

TEST_F(CacheTest, WhatOthersMayWriteIsReadIntoMemory) {
  const LoadedData parsed = load();
  const std::string path = cache_files().front();
  std::filesystem::permissions(path, std::filesystem::perms(0666));
  const LoadedData read = load();
  EXPECT_TRUE(read.report.from_cache);
  EXPECT_FALSE(is_mapped(path));
  write_file(path, "short");
  expect_same_data(*read.data, *parsed.data);
}

TEST_F(CacheTest, OtherClassesLeaveTheMappedDataAlone) {
  load();
  const LoadedData plain = load();
  const LoadedData fitted =
      load_dataset(source_, options_for_test(options_, parse("12 30:1\n9 1:1\n")));
  EXPECT_THAT(plain.data->targets.index, testing::ElementsAre(0, 1, 0));
  EXPECT_THAT(fitted.data->targets.index, testing::ElementsAre(0));
}

// One flipped bit anywhere, header or payload, is noticed; so is every shorter or longer file.
TEST_F(CacheTest, EveryDamageIsNoticedAndRebuilt) {
  const LoadedData good = load();
  const std::string path = cache_files().front();
  const std::string bytes = read_file(path);
  const auto expect_rebuilt = [&](const std::string& bad, const char* note) {
    write_file(path, bad);
    const LoadedData loaded = load();
    ASSERT_FALSE(loaded.report.from_cache);
    ASSERT_THAT(loaded.report.cache_note, HasSubstr(note));
    expect_same_data(*good.data, *loaded.data);
    ASSERT_EQ(read_file(path), bytes);
  };
  for (std::size_t place = 0; place < bytes.size(); ++place) {
    SCOPED_TRACE(place);
    expect_rebuilt(damaged(bytes, place, 1 << (place % 8)), "cache rebuilt");
    expect_rebuilt(bytes.substr(0, place), "damaged cache rebuilt: ");
  }
  expect_rebuilt(bytes + "x", "damaged cache rebuilt: ");
}

TEST_F(CacheTest, NotesSayWhatWasWrong) {
  load();
  const std::string path = cache_files().front();
  const std::string bytes = read_file(path);
  write_file(path, damaged(bytes, 8, 77 ^ 3));  // the version
  EXPECT_EQ(load().report.cache_note,
            "damaged cache rebuilt: " + path + ": found format version 77, expected version 3");
  write_file(path, damaged(bytes, bytes.size() - 1));
  EXPECT_THAT(load().report.cache_note, HasSubstr("the payload's checksum is wrong: found "));
  // Sound, but of another file.
  save_dataset(path, *parse("1 1:1\n0 2:1\n").data, {});
  EXPECT_EQ(load().report.cache_note, "foreign cache rebuilt: " + path + ": belongs to other data");
  EXPECT_TRUE(load().report.from_cache);
}

TEST_F(CacheTest, AnEntryThatIsALinkIsReplacedAndNotWhatItPointsTo) {
  load();
  const std::string entry = cache_files().front(), precious = folder_ / "precious";
  for (const char* content : {"precious", ""}) {
    std::filesystem::remove(entry);
    std::filesystem::remove(precious);
    if (*content != '\0') write_file(precious, content);  // else the link points to nothing
    std::filesystem::create_symlink(precious, entry);
    std::filesystem::create_symlink(precious, entry + ".lock");
    EXPECT_FALSE(load().report.from_cache);
    EXPECT_EQ(std::filesystem::exists(precious), *content != '\0');
    if (std::filesystem::exists(precious)) {
      EXPECT_EQ(read_file(precious), content);
    }
    EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(entry)));
    EXPECT_TRUE(load().report.from_cache);
    std::filesystem::remove(entry + ".lock");
  }
}

TEST_F(CacheTest, NoDirectoryToWriteIsNoError) {
  write_file(folder_ / "file", "");
  options_.cache_directory = (folder_ / "file") + "/cache";  // a file cannot hold a directory
  const LoadedData loaded = load();
  EXPECT_EQ(loaded.data->rows(), 4U);
  EXPECT_THAT(loaded.report.cache_note,
              StartsWith("no cache written: " + options_.cache_directory));
  options_.cache_directory = "/proc/hetsgd";
  EXPECT_THAT(load().report.cache_note, StartsWith("no cache written: /proc/hetsgd"));
}

TEST_F(CacheTest, OffLeavesNoTrace) {
  options_.cache = CacheMode::off;
  EXPECT_FALSE(load().report.from_cache);
  EXPECT_THAT(cache_files(), IsEmpty());
}

TEST_F(CacheTest, MalformedTextIsNotCached) {
  write_file(source_, "1 1:x\n");
  for (int k = 0; k < 2; ++k) {
    EXPECT_THAT(error_of([&] { load(); }), HasSubstr(":1:5: expected a number"));
  }
  EXPECT_THAT(cache_files(), IsEmpty());
}

TEST(CacheDirectory, ComesFromTheEnvironment) {
  const auto set = [](const char* name, const char* value) { setenv(name, value, 1); };
  set("HOME", "/home/someone");
  set("XDG_CACHE_HOME", "");
  set("HETSGD_CACHE_DIR", "");
  EXPECT_EQ(default_cache_directory(), "/home/someone/.cache/hetsgd");
  set("XDG_CACHE_HOME", "/xdg");
  EXPECT_EQ(default_cache_directory(), "/xdg/hetsgd");
  set("HETSGD_CACHE_DIR", "/own");
  EXPECT_EQ(default_cache_directory(), "/own");
  for (const char* name : {"HOME", "XDG_CACHE_HOME", "HETSGD_CACHE_DIR"}) unsetenv(name);
  EXPECT_EQ(default_cache_directory(), "");
}

}  // namespace
}  // namespace hetsgd
