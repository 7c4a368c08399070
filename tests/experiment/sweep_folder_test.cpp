#include "experiment/sweep_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "core/output_file.hpp"
#include "support/failure.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::Failure;
using test::failure_of;

class SweepFolderTest : public ::testing::Test {
 protected:
  SweepFolderTest() {
    spec_.name = "t";
    spec_.written = {{"name", "t"}};
  }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    write_file(path_ / name, text);
  }
  std::set<std::string> names(const std::string& folder) const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(path_ / folder)) {
      if (!entry.is_directory()) found.insert(entry.path().filename());
    }
    return found;
  }

  const TemporaryFolder folder_;
  const fs::path path_ = folder_.string();
  SweepSpec spec_;
};

json line_of_a_run() {
  return {{"id", "0000000000000001"},
          {"stage", "final"},
          {"setup", ""},
          {"case", "a"},
          {"algorithm", "sgd"},
          {"parameters", json::object()},
          {"seed", 1},
          {"file", nullptr},
          {"status", "completed"},
          {"bytes", 5},
          {"modified_ns", 7},
          {"tuning", "xxh3:0000000000000002"}};
}

TEST(SweepIndex, KnowsARunByTheStateOfItsFile) {
  const SweepIndex index(line_of_a_run().dump() + "\n", "t.index.jsonl");
  EXPECT_TRUE(index.has_result("0000000000000001", {5, 7}, ""));
  EXPECT_TRUE(index.has_result("0000000000000001", {5, 7}, "xxh3:0000000000000002"));
  EXPECT_FALSE(index.has_result("0000000000000001", {5, 7}, "xxh3:0000000000000003"));
  EXPECT_FALSE(index.has_result("0000000000000001", {6, 7}, ""));
  EXPECT_FALSE(index.has_result("0000000000000001", {5, 8}, ""));
  EXPECT_FALSE(index.has_result("0000000000000002", {5, 7}, ""));
}

TEST(SweepIndex, ShowsTheLastLineOfEachRunInOrder) {
  std::string text;
  for (const char* const id : {"b", "a", "c", "b"}) {
    json line = line_of_a_run();
    line["id"] = id;
    text += line.dump() + "\n";
  }
  std::string ids;
  SweepIndex(text, "t.index.jsonl").for_each([&](const json& line) {
    ids += line["id"].get<std::string>();
  });
  EXPECT_EQ(ids, "acb");
}

TEST(SweepIndex, BrokenLinesAreNamed) {
  const std::string deep(200'000, '[');
  std::vector<std::string> bad = {"{", "[]", "1", "\"x\"", R"({"id": "1", "status": "completed"})"};
  for (const char* const key : {"id", "stage", "setup", "case", "seed", "status", "file"}) {
    json line = line_of_a_run();
    line.erase(key);
    bad.push_back(line.dump());
    line[key] = json::array();
    bad.push_back(line.dump());
  }
  const std::vector<std::pair<std::string, json>> wrong = {{"bytes", "x"},
                                                           {"modified_ns", 0.5},
                                                           {"tuning", 1},
                                                           {"summary", 1},
                                                           {"summary", {{"wall_s", "x"}}}};
  for (const auto& [key, value] : wrong) {
    json line = line_of_a_run();
    line[key] = value;
    bad.push_back(line.dump());
  }
  bad.push_back(R"({"x": )" + deep);
  bad.push_back(R"({"x": )" + deep + std::string(200'000, ']') + "}");
  for (const std::string& line : bad) {
    const Failure found = failure_of([&] {
      const SweepIndex index(line_of_a_run().dump() + "\n" + line + "\n", "t.index.jsonl");
    });
    EXPECT_EQ(found.code, ExitCode::data) << line.substr(0, 100);
    EXPECT_THAT(found.message, ::testing::StartsWith("t.index.jsonl:2: "));
    EXPECT_THAT(found.hint, HasSubstr("remove the index"));
  }
}

TEST_F(SweepFolderTest, NoFolderIsRefused) {
  const Failure found = failure_of([] { const SweepFolder folder("", "t"); });
  EXPECT_EQ(found.code, ExitCode::usage);
  EXPECT_THAT(found.message, HasSubstr("--output"));
}

TEST_F(SweepFolderTest, WhatIsNoSpecificationIsRefused) {
  const SweepFolder folder(path_, "t");
  for (const char* const text :
       {"3", "[]", "{}", R"({"kind": "sweep"})", R"({"kind": "sweep", "specification": 3})",
        R"({"kind": 1, "specification": {}})"}) {
    write("t.sweep.json", text);
    EXPECT_EQ(failure_of([&] { folder.check(spec_, true); }).code, ExitCode::data) << text;
  }
}

// Reading from a pipe without a writer, and following a link to itself, would never end.
TEST_F(SweepFolderTest, WhatIsNoFileIsRefused) {
  const SweepFolder folder(path_, "t");
  for (const char* const name : {"t.sweep.json", "t.index.jsonl"}) {
    ASSERT_EQ(::mkfifo((path_ / name).c_str(), 0666), 0);
    EXPECT_EQ(failure_of([&] { folder.check(spec_, true), folder.read_index(); }).code,
              ExitCode::data);
    fs::remove(path_ / name);
    fs::create_symlink(name, path_ / name);
    EXPECT_EQ(failure_of([&] { folder.check(spec_, true), folder.read_index(); }).code,
              ExitCode::data);
    fs::remove(path_ / name);
  }
  ASSERT_EQ(::mkfifo((path_ / "pipe").c_str(), 0666), 0);
  fs::create_symlink("nowhere", path_ / "dangling");
  for (const char* const name : {"pipe", "dangling", "missing", "."}) {
    EXPECT_FALSE(state_of(path_ / name)) << name;
  }
}

// The end of the temporary name that a process of this host, or of another, gives to x.json.
std::string temporary_end(const fs::path& folder, int process, bool elsewhere = false) {
  const OutputFile file((folder / "x.json").string());
  std::string end;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("x.json.") && name.ends_with(".tmp")) end = name.substr(1);
  }
  const std::string own = fmt::format("-{}-", ::getpid());
  EXPECT_THAT(end, HasSubstr(own));
  end.replace(end.find(own), own.size(), fmt::format("-{}-", process));
  return elsewhere ? ".json.00000000" + end.substr(end.find('-')) : end;
}

// Killed anywhere in a sweep, also while it wrote a tuning or its specification.
TEST_F(SweepFolderTest, TemporaryFilesOfTheDeadAreRemoved) {
  constexpr int kDead = 999'999'999;  // beyond any process number
  const std::string dead = temporary_end(path_, kDead), alive = temporary_end(path_, ::getpid());
  const std::string elsewhere = temporary_end(path_, kDead, /*elsewhere=*/true);
  write("runs/1" + dead, "");
  write("trials/2" + dead, "");
  write("tunings/3" + dead, "");
  write("t.sweep" + dead, "");
  write("runs/4" + alive, "");
  write("runs/5" + elsewhere, "");
  write("runs/6" + elsewhere, "");
  write("runs/precious.tmp", "");
  write("runs/x.5.tmp", "");
  fs::last_write_time(path_ / ("runs/6" + elsewhere),
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  SweepFolder(path_, "t").open(spec_);
  EXPECT_EQ(names("runs"),
            (std::set<std::string>{"4" + alive, "5" + elsewhere, "precious.tmp", "x.5.tmp"}));
  EXPECT_TRUE(names("trials").empty());
  EXPECT_TRUE(names("tunings").empty());
  EXPECT_EQ(names("."), (std::set<std::string>{"t.sweep.json"}));
}

}  // namespace
}  // namespace hetsgd
