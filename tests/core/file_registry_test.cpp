#include "core/file_registry.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/input_file.hpp"
#include "core/options.hpp"
#include "core/output_file.hpp"
#include "support/failure.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  Files() {
    folder_.write("in.txt", "input");
    folder_.write("old.json", "{}");
    fs::create_directory(at("sub"));
    fs::create_symlink(folder_.path(), at("folder-link"));
    fs::create_symlink("in.txt", at("link"));
    fs::create_symlink("new.json", at("dangling"));
    fs::create_hard_link(at("in.txt"), at("hard"));
  }
  std::string at(const std::string& name) const { return folder_ / name; }

  // The message of the refusal; "": none.
  static std::string refusal(const FileRegistry& files, const Replacing& replacing = {}) {
    const test::Failure failure = test::failure_of([&] { files.check(replacing); });
    if (failure.code == ExitCode::ok) return "";
    EXPECT_EQ(failure.code, ExitCode::usage);
    EXPECT_NE(failure.hint, "");
    return failure.message;
  }
  std::string two_outputs(const std::string& a, const std::string& b) const {
    FileRegistry files;
    files.add_output("--trace", a, "the trace");
    files.add_output("--output", b, "the result", FileRegistry::Output::main);
    return refusal(files, {.overwrite = true});
  }
  TemporaryFolder folder_;
};

TEST_F(Files, NoInputIsReplacedWhateverItsSpelling) {
  for (const char* name : {"in.txt", "./in.txt", "sub/../in.txt", "folder-link/in.txt", "link",
                           "folder-link/link", "hard"}) {
    FileRegistry files;
    files.add_input("--train", at("in.txt"));
    files.add_output("--output", at(name), "the result", FileRegistry::Output::main);
    EXPECT_EQ(refusal(files, {.overwrite = true, .resume = true}),
              "--output: found " + at(name) + ", which --train reads as " + at("in.txt") +
                  ", expected another file");
  }
}

TEST_F(Files, AlsoNotByAppendingToIt) {
  FileRegistry files;
  files.add_input("--train", at("in.txt"));
  files.add_output("--log-dir", at("link"), "the log", FileRegistry::Output::appended);
  EXPECT_NE(refusal(files), "");
}

TEST_F(Files, TwoOutputsNeedTwoFiles) {
  EXPECT_EQ(two_outputs(at("a.json"), at("b.json")), "");
  EXPECT_EQ(two_outputs(at("a.json"), at("./a.json")),
            "--output: found " + at("./a.json") + ", which --trace writes as " + at("a.json") +
                ", expected a file of its own");
  for (const char* other :
       {"dangling", "folder-link/new.json", "sub/../new.json", "folder-link/dangling"}) {
    EXPECT_NE(two_outputs(at("new.json"), at(other)), "") << other;
  }
  EXPECT_NE(two_outputs(at("no/such.json"), at("folder-link/no/./such.json")), "");
  EXPECT_NE(two_outputs(at("in.txt"), at("hard")), "");
  EXPECT_NE(two_outputs("-", "-"), "");
  EXPECT_NE(two_outputs("-", "/dev/stdout"), "");
  EXPECT_EQ(two_outputs("/dev/null", "/dev/null"), "");
}

// A checkpoint gets its second name before the next one takes its first.
TEST_F(Files, OneFileMayHaveTwoNamesOfOneOption) {
  FileRegistry files;
  files.add_output("--checkpoint", at("in.txt"), "the checkpoint");
  files.add_output("--checkpoint", at("hard"), "the checkpoint");
  EXPECT_EQ(refusal(files, {.overwrite = true}), "");
}

TEST_F(Files, WhatExistsIsReplacedOnDemandOnly) {
  FileRegistry files;
  files.add_output("--trace", at("old.json"), "the trace");
  files.add_output("--output", at("r.json"), "the result", FileRegistry::Output::main);
  EXPECT_EQ(refusal(files), at("old.json") + ": the file exists");
  EXPECT_EQ(refusal(files, {.overwrite = true}), "");
  // --resume takes a run up: no result, no run
  EXPECT_EQ(refusal(files, {.resume = true, .can_resume = true}),
            at("old.json") + ": the file exists");
  folder_.write("r.json", "{}");
  FileRegistry again;
  again.add_output("--trace", at("old.json"), "the trace");
  again.add_output("--output", at("r.json"), "the result", FileRegistry::Output::main);
  EXPECT_EQ(refusal(again, {.resume = true, .can_resume = true}), "");
  EXPECT_NE(refusal(again), "");
}

// An option may say how the files begin that it replaces.
TEST_F(Files, FilesOfAnotherKindAreNotReplaced) {
  const auto failure = [&](const std::string& path, const Replacing& replacing) {
    FileRegistry files;
    files.add_output("--checkpoint", path,
                     {.role = FileRole::written,
                      .what = "the checkpoint",
                      .magic = "MAGIC",
                      .to_streams = false,
                      .continued_by = "--resume-from"},
                     FileRegistry::Output::other);
    return test::failure_of([&] { files.check(replacing); });
  };
  for (const char* content : {"M", "MAGI", "MAGIX and more"}) {
    folder_.write("file", content);
    const test::Failure found = failure(at("file"), {.overwrite = true, .resume = true});
    EXPECT_EQ(found.code, ExitCode::data) << content;
    EXPECT_NE(found.message.find("--checkpoint: found " + at("file")), std::string::npos);
    EXPECT_NE(found.hint, "");
  }
  for (const char* content : {"", "MAGIC", "MAGIC and more"}) {
    folder_.write("file", content);
    EXPECT_EQ(failure(at("file"), {.overwrite = true}).code, ExitCode::ok) << content;
    EXPECT_EQ(failure(at("file"), {.can_resume = true}).hint,
              "--overwrite replaces it, --resume-from continues it");
  }
  ::mkfifo(at("pipe").c_str(), 0600);
  for (const std::string& stream : {at("pipe"), std::string("/dev/null"), std::string("-")}) {
    EXPECT_EQ(failure(stream, {.overwrite = true}).code, ExitCode::usage) << stream;
  }
}

// Files that killed processes have left beside the outputs go; those of other files and of living
// writers stays.
TEST_F(Files, TemporaryFilesOfDeadProcessesAreRemoved) {
  const pid_t child = fork();
  if (child == 0) {
    const OutputFile ours(at("r.json")), others(at("other.json"));
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  const OutputFile living(at("r.json"));
  const auto temporaries = [&](const std::string& of) {
    return std::ranges::count_if(fs::directory_iterator(folder_.path()), [&](const auto& entry) {
      return entry.path().extension() == ".tmp" && entry.path().stem().stem() == of;
    });
  };
  ASSERT_EQ(temporaries("r.json"), 2);
  FileRegistry files;
  files.add_output("--output", at("r.json"), "the result", FileRegistry::Output::main);
  EXPECT_EQ(refusal(files), "");
  EXPECT_EQ(temporaries("r.json"), 1);
  EXPECT_EQ(temporaries("other.json"), 1);
}

TEST_F(Files, WhatCannotBeWrittenIsSaid) {
  for (const auto& [name, reason] :
       {std::pair{"no/such", "No such file or directory"}, std::pair{"sub", "Is a directory"},
        std::pair{"in.txt/x", "Not a directory"}}) {
    FileRegistry files;
    files.add_output("--dump-parameters", at(name), "the model");
    EXPECT_EQ(test::usage_error_of([&] { files.check({}); }),
              at(name) + ": cannot write the model: " + reason);
  }
  FileRegistry closed;
  closed.add_output("--output", "/dev/fd/999", "the result");
  EXPECT_THROW(closed.check({}), Error);
  EXPECT_EQ(fs::directory_iterator(at("sub")), fs::directory_iterator());  // nothing is left behind
}

TEST_F(Files, WhatWasReadIsAnInputWithoutADeclaration) {
  InputFile(at("in.txt"), {.noun = "network file"});
  for (const char* name : {"in.txt", "hard", "link"}) {
    FileRegistry files;
    files.add_output("--trace", at(name), "the trace");
    EXPECT_NE(refusal(files, {.overwrite = true}).find("was read as the network file"),
              std::string::npos);
  }
}

// Between the check of an output and its writing another process may have made the file.
TEST_F(Files, AFileThatAnotherProcessMadeMeanwhileStays) {
  const std::string path = at("r.json");
  FileRegistry files;
  files.add_output("--output", path, "the result", FileRegistry::Output::main);
  EXPECT_EQ(refusal(files), "");
  EXPECT_TRUE(expects_no_file(path));
  const auto write = [&](const std::string& text) {
    OutputFile output(path);
    output.write(text);
    output.commit();
  };
  write("first");
  write("second");  // it is ours now
  EXPECT_EQ(kept_as(path), path);
  EXPECT_TRUE(kept_elsewhere().empty());
  EXPECT_EQ(read_file(path), "second");
  fs::remove(path);
  EXPECT_EQ(refusal(files), "");
  write_file(path, "another");
  for (const char* text : {"ours", "later"}) {
    write(text);
    EXPECT_EQ(read_file(path), "another");
    EXPECT_EQ(kept_elsewhere().at(path), kept_as(path));
    EXPECT_NE(kept_as(path), path);
    EXPECT_EQ(read_file(kept_as(path)), text);
  }
}

// A file that an earlier process of the same number has kept stays, too.
TEST_F(Files, AKeptFileStays) {
  const std::string path = at("r.json"), earlier = fmt::format("r.kept-{}.json", getpid());
  FileRegistry files;
  files.add_output("--output", path, "the result", FileRegistry::Output::main);
  EXPECT_EQ(refusal(files), "");
  write_file(path, "another");
  write_file(at(earlier), "earlier");
  OutputFile output(path);
  output.write("ours");
  output.commit();
  EXPECT_EQ(read_file(path), "another");
  EXPECT_EQ(read_file(at(earlier)), "earlier");
  EXPECT_EQ(read_file(kept_as(path)), "ours");
}

TEST_F(Files, APipeWithoutAReaderIsAnErrorAfterAWhile) {
  ::mkfifo(at("pipe").c_str(), 0600);
  EXPECT_THROW(OutputFile(at("pipe")), Error);
}

TEST_F(Files, APipeWhoseReaderHasEndedIsAnErrorInWords) {
  ::mkfifo(at("pipe").c_str(), 0600);
  for (const int taken : {0, 1 << 15}) {  // a part: the writer then waits until the pipe has room
    const int reader = ::open(at("pipe").c_str(), O_RDONLY | O_NONBLOCK);
    OutputFile output(at("pipe"));
    std::thread leaving([&] {
      for (int ready = 0; ready < taken; ::ioctl(reader, FIONREAD, &ready)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      ::close(reader);
    });
    if (taken == 0) leaving.join();
    const test::Failure found =
        test::failure_of([&] { output.write(std::string(std::size_t{1} << 22, 'x')); });
    if (leaving.joinable()) leaving.join();
    EXPECT_NE(found.message.find("Broken pipe"), std::string::npos);
    EXPECT_NE(found.hint, "");
  }
}

// Streams exist, and are written to all the same.
TEST_F(Files, PipesDevicesAndDescriptorsAreNoFilesToReplace) {
  ::mkfifo(at("pipe").c_str(), 0600);
  const int file = ::open(at("old.json").c_str(), O_WRONLY | O_APPEND);
  const std::string descriptor = "/dev/fd/" + std::to_string(file);
  for (const std::string& path :
       {at("pipe"), std::string("/dev/null"), std::string("-"), descriptor}) {
    FileRegistry files;
    files.add_output("--output", path, "the result", FileRegistry::Output::main);
    EXPECT_EQ(refusal(files), "") << path;
    EXPECT_TRUE(is_stream(path)) << path;
  }
  EXPECT_EQ(descriptor_of(descriptor), file);
  EXPECT_EQ(descriptor_of("/dev/stdout"), STDOUT_FILENO);
  EXPECT_EQ(descriptor_of("/dev/stderr"), STDERR_FILENO);
  EXPECT_EQ(descriptor_of(at("old.json")), std::nullopt);
  fs::create_symlink(descriptor, at("to-descriptor"));
  EXPECT_EQ(descriptor_of(at("to-descriptor")), file);
  EXPECT_FALSE(is_stream(at("old.json")));
  EXPECT_FALSE(is_stream(at("new.json")));
  {
    OutputFile output(descriptor);
    output.write("[]");
    output.commit();
  }
  ::close(file);
  EXPECT_EQ(read_file(at("old.json")), "{}[]");  // after what is there, as its owner asked for
}

TEST_F(Files, ALinkToNothingYetStaysALink) {
  OutputFile output(at("dangling"));
  output.write("x");
  output.commit();
  EXPECT_TRUE(fs::is_symlink(at("dangling")));
  EXPECT_TRUE(fs::is_regular_file(at("new.json")));
}

TEST_F(Files, OptionsSayWhatTheyReadAndWrite) {
  std::string train = at("in.txt"), trace, plain = at("old.json");
  std::vector<std::string> several = {"a=" + at("in.txt"), "b"};
  OptionSet set;
  set.add("train", train, "").reads_file();
  set.add("trace", trace, "").writes_file("the trace");
  set.add("several", several, "").reads_file([](const std::string& text) {
    return text.starts_with("a=") ? std::vector{text.substr(2)} : std::vector<std::string>();
  });
  set.add("plain", plain, "");
  const auto refused = [&] {
    FileRegistry files;
    files.add(set);
    return refusal(files, {.overwrite = true});
  };
  EXPECT_EQ(refused(), "");
  set.set("trace", {at("old.json")}, OptionSource::environment, "HETSGD_TRACE");
  EXPECT_EQ(refused(), "");  // "plain" has no role
  set.set("trace", {at("hard")}, OptionSource::environment, "HETSGD_TRACE");
  EXPECT_NE(refused().find("HETSGD_TRACE: found "), std::string::npos);
  train = "";
  EXPECT_NE(refused().find("which --several reads as"), std::string::npos);
}

}  // namespace
}  // namespace hetsgd
