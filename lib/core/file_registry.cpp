#include "core/file_registry.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/output_file.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNoInputIsReplaced = "no input is ever replaced, not even with --overwrite";

bool look_at(const std::string& path, struct stat& status) {
  if (const std::optional<int> descriptor = descriptor_of(path)) {
    return fstat(*descriptor, &status) == 0;
  }
  return stat(path.c_str(), &status) == 0;
}

bool is_null_device(const struct stat& status) {
  constexpr unsigned kMemoryDevices = 1, kNull = 3;  // Linux, Documentation/admin-guide/devices.txt
  return S_ISCHR(status.st_mode) && status.st_rdev == makedev(kMemoryDevices, kNull);
}

}  // namespace

std::vector<std::string> paths_of(const Option& option) {
  const nlohmann::json value = option.to_json();
  std::vector<std::string> paths;
  for (const nlohmann::json& each : value.is_array() ? value : nlohmann::json::array({value})) {
    const std::string text = bytes_of_json(each.get_ref<const std::string&>());
    if (text.empty()) continue;
    const auto found = option.files.paths ? option.files.paths(text) : std::vector{text};
    paths.insert(paths.end(), found.begin(), found.end());
  }
  return paths;
}

FileIdentity FileIdentity::of(const std::string& path) {
  struct stat status {};
  if (look_at(path, status)) {
    return {.device = status.st_dev,
            .inode = status.st_ino,
            .rest = "",
            .shared = is_null_device(status),
            .regular = S_ISREG(status.st_mode)};
  }
  const fs::path target = fs::path(follow_links(path)).lexically_normal();
  fs::path folder = target.parent_path(), rest = target.filename();
  while (stat(folder.empty() ? "." : folder.c_str(), &status) != 0 && folder.has_parent_path() &&
         folder != folder.parent_path()) {
    rest = folder.filename() / rest;
    folder = folder.parent_path();
  }
  return {.device = status.st_dev, .inode = status.st_ino, .rest = rest.string()};
}

bool FileIdentity::same_as(const FileIdentity& other) const {
  return !shared && device == other.device && inode == other.inode && rest == other.rest;
}

void FileRegistry::add(const OptionSet& set) {
  for (const Option& option : set.options()) {
    if (option.files.role == FileRole::none) continue;
    const std::string name = option.place.empty() ? option.flag() : option.place;
    for (const std::string& path : paths_of(option)) {
      if (option.files.role == FileRole::read) {
        add_input(name, path);
      } else {
        add_output(name, path, option.files,
                   option.files.role == FileRole::appended ? Output::appended
                   : option.name == "output"               ? Output::main
                                                           : Output::other);
      }
    }
  }
}

void FileRegistry::add_input(const std::string& name, const std::string& path) {
  if (path.empty()) return;
  const std::string real = path == "-" ? "./-" : path;  // a name like any other
  inputs_.push_back({name, path, {FileRole::read}, Output::other, FileIdentity::of(real)});
}

void FileRegistry::add_output(const std::string& name, const std::string& path,
                              const std::string& what, Output kind) {
  add_output(name, path, {FileRole::written, what}, kind);
}

void FileRegistry::add_output(const std::string& name, const std::string& path, OptionFiles rules,
                              Output kind) {
  if (path.empty()) return;
  outputs_.push_back({name, path, std::move(rules), kind, FileIdentity::of(path)});
}

void FileRegistry::check(const Replacing& replacing) const {
  for (const Entry& output : outputs_) check_apart(output);
  for (const Entry& output : outputs_) check_kind(output);
  for (const Entry& output : outputs_) check_existing(output, replacing);
  std::vector<std::string> replaced;
  for (const Entry& output : outputs_) {
    if (output.kind == Output::appended) continue;
    replaced.push_back(output.path);
    check_writable(output.path, output.rules.what);
    if (!output.identity.regular && !is_stream(output.path)) expect_no_file(output.path);
  }
  remove_left_behind(replaced);
}

void FileRegistry::check_kind(const Entry& output) {
  const OptionFiles& rules = output.rules;
  if (!rules.to_streams && is_stream(output.path)) {
    refuse(output.name, output.path + ", a pipe, a device or an open descriptor", "a regular file",
           "name a file on a disk");
  }
  if (rules.magic.empty() || !output.identity.regular) return;
  std::string begin(rules.magic.size(), '\0');
  std::ifstream file(output.path, std::ios::binary);
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(file.gcount()));
  if (begin.empty() || begin == rules.magic) return;
  refuse(output.name, output.path + ", a file of another kind",
         fmt::format("{} of a run, or no file", rules.what),
         "name another file: none of another kind is replaced, not even with --overwrite",
         ExitCode::data);
}

void FileRegistry::check_apart(const Entry& output) const {
  for (const Entry& input : inputs_) {
    // A terminal or /dev/null may be read and written; a regular file that is read stays as it is.
    if (!output.identity.same_as(input.identity) || !input.identity.regular) continue;
    refuse(output.name,
           fmt::format("{}, which {} reads as {}", output.path, input.name, input.path),
           "another file", kNoInputIsReplaced);
  }
  for (const FileRead& input : files_read()) {
    const FileIdentity identity = FileIdentity::of(input.path);
    if (!output.identity.same_as(identity) || !identity.regular) continue;
    refuse(output.name,
           fmt::format("{}, which was read as the {} {}", output.path, input.noun, input.path),
           "another file", kNoInputIsReplaced);
  }
  for (const Entry& other : outputs_) {
    if (&other == &output) return;  // every pair once
    // A run that is killed while it keeps a checkpoint leaves one file under two names of its own.
    if (other.name == output.name && output.path != other.path) continue;
    const bool both_stdout = output.path == "-" && other.path == "-";
    if (!both_stdout && !output.identity.same_as(other.identity)) continue;
    refuse(output.name,
           fmt::format("{}, which {} writes as {}", output.path, other.name, other.path),
           "a file of its own", "two outputs in one file would destroy each other");
  }
}

void FileRegistry::check_existing(const Entry& output, const Replacing& replacing) const {
  const bool replaces =
      output.identity.regular && output.kind != Output::appended && !descriptor_of(output.path);
  if (!replaces || replacing.overwrite) return;
  // With --resume the files beside the main output belong to the run that is taken up.
  const bool resumes = replacing.resume && std::ranges::any_of(outputs_, [](const Entry& each) {
                         return each.kind == Output::main && each.identity.regular;
                       });
  if (resumes) return;
  throw with_hint(
      usage_error("{}: the file exists", output.path),
      replacing.can_resume
          ? fmt::format(
                "--overwrite replaces it, {} continues it{}", output.rules.continued_by,
                output.rules.continued_by == "--resume" ? " or keeps it if it is complete" : "")
          : "--overwrite replaces it");
}

}  // namespace hetsgd
