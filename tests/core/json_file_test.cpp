#include <sys/stat.h>

#include <fstream>

#include "core/input_file.hpp"
#include "core/json_fields.hpp"
#include "support/failure.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd {
namespace {

using test::failure_of;

std::string error_in(const std::string& text, JsonComments comments = JsonComments::refused) {
  return failure_of([&] { parse_json(text, "p.json", comments); }).message;
}

std::string nested(int levels, const std::string& open, const std::string& close) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += open;
  text += "1";
  for (int i = 0; i < levels; ++i) text += close;
  return text;
}

TEST(JsonFile, DepthIsLimitedBeforeAnythingFollowsIt) {
  EXPECT_EQ(error_in(nested(kMostJsonLevels, "[", "]")), "");
  EXPECT_EQ(error_in(nested(kMostJsonLevels, "{\"a\":", "}")), "");
  const std::string too_deep =
      ": found objects and lists nested more than 100 levels deep, expected at most 100 levels";
  EXPECT_EQ(error_in(nested(kMostJsonLevels + 1, "[", "]")), "p.json:1:101" + too_deep);
  EXPECT_EQ(error_in(nested(100'000, "{\"a\":", "}")), "p.json:1:501" + too_deep);
  EXPECT_EQ(error_in(nested(100'000, "[\n", "]")), "p.json:101:1" + too_deep);
}

TEST(JsonFile, BracketsInStringsAndCommentsAreNoLevels) {
  EXPECT_EQ(error_in("{\"a\": \"\\\"" + std::string(1000, '[') + "\"}"), "");
  const std::string commented =
      "/* \" " + std::string(1000, '[') + "*/ 1 // \"" + std::string(1000, '{') + "\n";
  EXPECT_EQ(error_in(commented, JsonComments::allowed), "");
  EXPECT_EQ(error_in("/* \" */" + nested(200, "[", "]"), JsonComments::allowed).substr(0, 13),
            "p.json:1:108:");
  EXPECT_EQ(error_in("1 // x"), "p.json:1:3: found \"/\", expected JSON");
}

TEST(JsonFile, KeysThatComeTwiceAreRefused) {
  EXPECT_EQ(error_in("{\"a\": 8,\n \"b\": {\"a\": 1}, \"a\": 16}"),
            "p.json:2:17: found key \"a\" again, expected it once");
  EXPECT_EQ(error_in("[{\"x\": 1}, {\"x\": 1, \"y\": [\"x\"], \"x\": 2}]"),
            "p.json:1:33: found key \"x\" again, expected it once");
  EXPECT_EQ(error_in("{\"a\":: 1}"), "p.json:1:6: found \":\", expected JSON");
  EXPECT_EQ(error_in("{::}"), "p.json:1:2: found \":\", expected JSON");
  EXPECT_EQ(error_in("[{\"x\": 1}, {\"x\": {\"x\": 1}}]"), "");
  EXPECT_EQ(error_in("{\"a\": 1, /* \"a\" */ \"b\": \"a\"}", JsonComments::allowed), "");
}

TEST(JsonFile, ErrorsNamePlaceAndFound) {
  EXPECT_EQ(error_in("{\n  \"a\": [1,\n 1e400]}"),
            "p.json:3:2: found \"1e400\", a number too large for a double, expected JSON");
  EXPECT_EQ(error_in("{\"a\": -1e999}"),
            "p.json:1:7: found \"-1e999\", a number too large for a double, expected JSON");
  EXPECT_EQ(error_in("{\n \"a\": b}"), "p.json:2:7: found \"b\", expected JSON");
  EXPECT_EQ(error_in("{} x"), "p.json:1:4: found \"x\", expected JSON");
  EXPECT_EQ(error_in(""), "p.json:1:1: found the end of the file, expected more JSON");
}

struct InputFileTest : ::testing::Test {
  std::string path(const std::string& name) const { return folder / name; }
  TemporaryFolder folder;
};

std::string read_error(const std::string& path, std::uint64_t most = 100) {
  return failure_of([&] { read_text_file(path, {.noun = "trace"}, most); }).message;
}

TEST_F(InputFileTest, WhatIsNoFileIsRefusedAtOnce) {
  EXPECT_EQ(read_error(folder.string()), folder.string() + ": found a directory, expected a trace");
  EXPECT_EQ(read_error("/dev/zero"), "/dev/zero: found a device, expected a trace");
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_error(path("pipe")),
            path("pipe") + ": found a pipe to which nobody writes, expected a trace");
}

TEST_F(InputFileTest, APipeWithAWriterIsRead) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string text(40'000, 'x');
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), 40'000);
  const std::string name = "/dev/fd/" + std::to_string(ends[0]);
  // The writer has gone when the end is reached.
  ::close(ends[1]);
  EXPECT_EQ(read_text_file(name, {.noun = "trace"}, 40'000), text);
  ::close(ends[0]);
}

TEST_F(InputFileTest, TooMuchIsRefused) {
  folder.write("long", std::string(101, ' '));
  EXPECT_EQ(read_error(path("long")),
            path("long") + ": found 101 B or more, expected a trace of at most 100 B");
  EXPECT_EQ(read_error(path("long"), 101), "");
  // A file that the system makes up has no size to judge it by.
  EXPECT_NE(read_error("/proc/self/status", 10).find("expected a trace of at most 10 B"),
            std::string::npos);
}

// A file that shrinks or changes after it was opened is an error, the same one for every reader.
TEST_F(InputFileTest, ChangesWhileReadingAreErrors) {
  folder.write("data", std::string(10'000, 'x'));
  const InputFile file(path("data"), {.noun = "data file"});
  ASSERT_TRUE(file.has_size());
  std::string bytes(5'000, ' ');
  file.read(5'000, bytes);
  EXPECT_EQ(bytes, std::string(5'000, 'x'));
  file.check_unchanged();

  std::filesystem::resize_file(path("data"), 7'000);
  const std::string shrank =
      path("data") + ": the data file shrank from 10000 to 7000 bytes while it was read";
  EXPECT_EQ(failure_of([&] { file.read(5'000, bytes); }).message, shrank);
  EXPECT_EQ(failure_of([&] { file.check_unchanged(); }).message, shrank);
  std::ofstream(path("data"), std::ios::app) << std::string(4'000, 'x');
  EXPECT_EQ(failure_of([&] { file.check_unchanged(); }).message,
            path("data") + ": the data file grew from 10000 to 11000 bytes while it was read");
  std::filesystem::resize_file(path("data"), 10'000);
  std::filesystem::last_write_time(path("data"), std::filesystem::file_time_type{});
  EXPECT_EQ(failure_of([&] { file.check_unchanged(); }).message,
            path("data") + ": the data file changed while it was read");
}

}  // namespace
}  // namespace hetsgd
