// Whatever a run may write is an output in the registry of files, by the declarations of its
// options alone: no list of names stands here.

#include "core/file_registry.hpp"
#include "experiment/run.hpp"
#include "support/failure.hpp"
#include "support/run.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd::test {
namespace {

namespace fs = std::filesystem;

bool writes(const Option& option) {
  return option.files.role == FileRole::written || option.files.role == FileRole::appended;
}

// A short run with every option that names outputs, each by a name in `folder`; where the option
// takes a folder, that is made.
Settings with_all_outputs(const fs::path& folder) {
  const Settings base = tiny("adaptive",
                             "--workers 2 --mega-batch 4 --max-samples 1280 --evaluate-every 256 "
                             "--checkpoint-every 1 --checkpoint-keep 3");
  const Configuration probe(base);
  Settings settings = base;
  for (const Option& option : probe.spec().set.options()) {
    if (!writes(option)) continue;
    const std::string name = folder / option.name;
    const auto& paths = option.files.paths;
    if (paths && paths(name).front().starts_with(name + "/")) fs::create_directory(name);
    settings.emplace_back(option.name, name);
  }
  return settings;
}

std::vector<std::string> outputs_of(const OptionSet& set) {
  std::vector<std::string> all;
  for (const Option& option : set.options()) {
    if (!writes(option)) continue;
    const auto paths = paths_of(option);
    all.insert(all.end(), paths.begin(), paths.end());
  }
  return all;
}

TEST(Outputs, OfARunAreDeclared) {
  const TemporaryFolder folder;
  const Configuration run(with_all_outputs(folder.path()));
  const OptionSet& set = run.spec().set;
  const Outcome outcome = run_one(run.spec(), {}, {});
  ASSERT_FALSE(outcome.error);
  std::set<std::string> made;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    if (entry.is_regular_file()) made.insert(entry.path());
  }
  const std::vector<std::string> declared = outputs_of(set);
  for (const std::string& path : made) {
    EXPECT_NE(std::ranges::find(declared, path), declared.end()) << path;
  }
  for (const Option& option : set.options()) {
    if (option.files.role != FileRole::written) continue;
    for (const std::string& path : paths_of(option)) EXPECT_TRUE(made.contains(path)) << path;
  }
}

TEST(Outputs, ReplaceNeitherAnInputNorAnythingUnasked) {
  const TemporaryFolder folder;
  const Configuration run(with_all_outputs(folder.path()));
  const OptionSet& set = run.spec().set;
  for (const std::string& path : outputs_of(set)) {
    write_file(path, "precious");
    FileRegistry reading;
    reading.add_input("--train", path);
    reading.add(set);
    const Failure refusal = failure_of([&] { reading.check({.overwrite = true}); });
    EXPECT_NE(refusal.message.find("which --train reads as " + path), std::string::npos) << path;
    FileRegistry files;
    files.add(set);
    const bool is_log = path.ends_with(".log");
    EXPECT_EQ(failure_of([&] { files.check({}); }).code == ExitCode::ok, is_log) << path;
    EXPECT_EQ(read_file(path), "precious");
    fs::remove(path);
  }
}

}  // namespace
}  // namespace hetsgd::test
