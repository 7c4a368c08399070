#include "result/output.hpp"

#include <fstream>

#include "core/error.hpp"
#include "core/json_fields.hpp"
#include "core/output_file.hpp"
#include "result/validate.hpp"
#include "support/failure.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd {
namespace {

namespace fs = std::filesystem;
using test::error_of;

struct OutputTest : ::testing::Test {
  const TemporaryFolder folder;
  std::string path(const char* name) const { return folder / name; }
  std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(folder.string()), fs::directory_iterator{});
  }
};

TEST_F(OutputTest, ReplacesAFileAndLeavesNothingElse) {
  write_result(path("r.json"), {{"a", 1}});
  write_result(path("r.json"), {{"a", 2}});
  EXPECT_EQ(read_json(path("r.json")), nlohmann::json({{"a", 2}}));
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputTest, AMissingFolderIsNamed) {
  const std::string file = path("none/r.json");
  const std::string expected =
      file + ": cannot write the result: No such file or directory | create the folder first";
  EXPECT_EQ(error_of([&] { write_result(file, {}); }, ExitCode::runtime), expected);
  EXPECT_EQ(error_of([&] { check_writable(file, "the result"); }, ExitCode::usage), expected);
}

TEST_F(OutputTest, AFolderIsNoFile) {
  EXPECT_THAT(error_of([&] { check_writable(folder.string(), "the result"); }, ExitCode::usage),
              HasSubstr("Is a directory"));
  EXPECT_THAT(error_of([&] { write_result(folder.string(), {}); }, ExitCode::runtime),
              HasSubstr("Is a directory"));
  check_writable(path("r.json"), "the result");  // leaves nothing
  EXPECT_EQ(files(), 0);
}

TEST_F(OutputTest, AFullDiskIsReported) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  EXPECT_EQ(
      error_of(
          [] {
            write_result("/dev/full", {{"a", 1}});
          },
          ExitCode::runtime),
      "/dev/full: cannot write the result: No space left on device | free some space or choose "
      "another place");
}

TEST_F(OutputTest, ALinkStaysALink) {
  write_result(path("real.json"), {{"a", 1}});
  fs::create_symlink(path("real.json"), path("link.json"));
  write_result(path("link.json"), {{"a", 2}});
  EXPECT_TRUE(fs::is_symlink(path("link.json")));
  EXPECT_EQ(read_json(path("real.json")), nlohmann::json({{"a", 2}}));
}

TEST_F(OutputTest, AnyOtherJsonIsNoResult) {
  std::ofstream(path("b.json")) << "{\"a\": 1}";
  EXPECT_THAT(error_of([&] { read_result(path("b.json")); }, ExitCode::data),
              HasSubstr("b.json: config: found nothing, expected an object"));
}

}  // namespace
}  // namespace hetsgd
