#include "training/plugins.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iterator>
#include <memory>

#include "algorithm/algorithm.hpp"
#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/logging.hpp"
#include "core/non_copyable.hpp"
#include "core/text.hpp"
#include "data/source.hpp"
#include "model/registry.hpp"

namespace hetsgd {
namespace {

constexpr std::uint64_t kMostPluginBytes = std::uint64_t{1} << 31;
constexpr std::string_view kElfMagic =
    "\x7f"
    "ELF";
// The beginning of the stamp in cmake/package/plugin_stamp.cpp.
constexpr std::string_view kStampMark =
    "\x7f"
    "hetsgd plugin\nname: ";
constexpr const char* kHowToBuild =
    "hetsgd_add_plugin of find_package(hetsgd) builds one; lib/algorithm/README.md shows how";

std::vector<Plugin>& plugins() {
  static std::vector<Plugin> list;
  return list;
}

[[noreturn]] void refuse_plugin(const PluginSource& source, const std::string& found,
                                const std::string& expected, const std::string& hint) {
  refuse(fmt::format("{}: {}", source.place, source.path), found, expected, hint);
}

std::string bytes_of(const PluginSource& source) {
  try {
    const char* const elsewhere = "--plugin FILE tells where the file is now";
    return read_file(source.path,
                     {.noun = "plugin", .missing = source.expected_hash.empty() ? "" : elsewhere},
                     kMostPluginBytes);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", source.place, error.what()), error.hint());
  }
}

struct Stamp {
  std::string name;
  std::string build;  // lines in the form of build_stamp()
};

// The loader maps the file as its headers say, and a page beyond the end of the file kills the
// program. A linker writes the table of sections last, so if that table is whole, the file is.
void check_whole(const std::string& bytes, const PluginSource& source) {
  Elf64_Ehdr header{};
  std::uint64_t expected = sizeof header;
  if (bytes.size() >= sizeof header) {
    std::memcpy(&header, bytes.data(), sizeof header);
    expected = std::max<std::uint64_t>(
        expected, header.e_shoff + std::uint64_t{header.e_shnum} * header.e_shentsize);
  }
  if (bytes.size() >= expected && header.e_ident[EI_CLASS] == ELFCLASS64) return;
  refuse_plugin(source, fmt::format("a plugin of {} bytes", bytes.size()),
                fmt::format("{}, so it was cut off", expected), "copy it again, or build it again");
}

Stamp stamp_in(const std::string& bytes, const PluginSource& source) {
  if (!bytes.starts_with(kElfMagic)) {
    refuse_plugin(source, "a file that is no shared library (ELF)", "a plugin", kHowToBuild);
  }
  check_whole(bytes, source);
  const std::size_t mark = bytes.find(kStampMark);
  const std::size_t name = mark + kStampMark.size();
  const std::size_t end = mark == std::string::npos ? mark : bytes.find('\0', name);
  const std::size_t name_end = end == std::string::npos ? end : bytes.find('\n', name);
  if (name_end == std::string::npos || name_end >= end) {
    refuse_plugin(source, "an ELF file without hetsgd's stamp", "a plugin", kHowToBuild);
  }
  return {bytes.substr(name, name_end - name), bytes.substr(name_end + 1, end - name_end - 1)};
}

// The value of a line "key: value"; "nothing" where there is none.
std::string_view value_of(std::string_view stamp, std::string_view key) {
  for (const std::string_view line : split(stamp, '\n')) {
    if (line.starts_with(key) && line.substr(key.size()).starts_with(": ")) {
      return line.substr(key.size() + 2);
    }
  }
  return "nothing";
}

void check_stamp(const Stamp& stamp, std::string_view expected, const PluginSource& source) {
  std::vector<std::string> differences;
  for (const std::string_view line : split(expected, '\n')) {
    if (line.empty()) continue;
    const std::string_view key = line.substr(0, line.find(": "));
    const std::string_view found = value_of(stamp.build, key), wanted = value_of(expected, key);
    if (found == wanted) continue;
    differences.push_back(fmt::format("found {} {}, expected {}", key, found, wanted));
  }
  if (differences.empty()) return;
  throw with_hint(usage_error("{}: {}: the plugin {} was built for another program: {}",
                              source.place, source.path, stamp.name, fmt::join(differences, "; ")),
                  "build the plugin again with this hetsgd's package and its compiler");
}

// The text of dlerror(), with the missing symbol in its C++ spelling.
std::string reason_of_failure(const std::string& path) {
  const char* const text = dlerror();
  std::string reason = text == nullptr ? "unknown reason" : text;
  if (reason.starts_with(path + ": ")) reason.erase(0, path.size() + 2);
  const std::size_t symbol = reason.rfind("_Z");
  if (symbol == std::string::npos) return reason;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> readable(
      abi::__cxa_demangle(reason.c_str() + symbol, nullptr, nullptr, &status), std::free);
  return readable ? reason.substr(0, symbol) + readable.get() : reason;
}

// Sorted; a name that was registered twice appears twice.
std::vector<std::string> registered_names() {
  std::vector<std::string> names;
  for (const RegisteredAlgorithm& each : algorithms()) {
    names.push_back("algorithm " + each.info.name);
  }
  for (const RegisteredModel& each : models()) names.push_back("model " + each.info.name);
  std::ranges::sort(names);
  return names;
}

void check_registrations(const std::vector<std::string>& before, const PluginSource& source) {
  const std::vector<std::string> after = registered_names();
  std::vector<std::string> added;
  std::ranges::set_difference(after, before, std::back_inserter(added));
  if (added.empty()) {
    refuse_plugin(source, "no registration", "at least one algorithm or model",
                  "the last lines of an algorithm's file register it");
  }
  const auto twice = std::ranges::adjacent_find(after);
  if (twice == after.end()) return;
  refuse_plugin(source, fmt::format("the {}, which exists already", *twice), "a new name",
                "give it another .name");
}

// While a library is opened, the constructors of its static objects run. Their exceptions cannot
// pass through the loader, and std::terminate would name no plugin. So a failure is reported here
// under the plugin's name, and ends the process like any refusal of a plugin.
class Opening : NonCopyable {
 public:
  explicit Opening(const PluginSource& source) : before_(std::set_terminate(on_exception)) {
    current = &source;
    [[maybe_unused]] static const int once = std::atexit(on_exit);
  }
  ~Opening() {
    current = nullptr;
    std::set_terminate(before_);
  }

 private:
  [[noreturn]] static void tell(const std::string& what) {
    log(LogLevel::error,
        fmt::format("{}: {}: {} while the plugin was loaded, expected registrations alone\n"
                    "hint: this is a bug in the plugin",
                    current->place, current->path, what));
    std::_Exit(static_cast<int>(ExitCode::usage));
  }
  [[noreturn]] static void on_exception() {
    try {
      if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
    } catch (const std::exception& error) {
      tell(fmt::format("found an exception ({})", error.what()));
    } catch (...) {
      tell("found an exception of an unknown type");
    }
    tell("found a call of std::terminate");
  }
  static void on_exit() {
    if (current != nullptr) tell("found the end of the process");
  }

  static inline const PluginSource* current = nullptr;
  std::terminate_handler before_;
};

void open_library(const PluginSource& source) {
  const std::vector<std::string> before = registered_names();
  // A path with a slash makes dlopen() take this file, and not search the library path.
  const std::string path = std::filesystem::absolute(source.path);
  const Opening opening(source);
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    refuse_plugin(source, "a library that cannot be loaded: " + reason_of_failure(path), "a plugin",
                  "is a source file missing in hetsgd_add_plugin, or a library in "
                  "target_link_libraries?");
  }
  check_registrations(before, source);
}

}  // namespace

std::string Plugin::hash_text() const { return fmt::format("xxh3:{:016x}", file_hash); }

void load_plugin(const PluginSource& source, std::string_view stamp) {
  const std::string bytes = bytes_of(source);
  Plugin plugin{.name = "", .path = source.path, .file_hash = content_hash(bytes)};
  if (!source.expected_hash.empty() && plugin.hash_text() != source.expected_hash) {
    refuse_plugin(source, plugin.hash_text(), source.expected_hash + ", the file of that run",
                  "the file has changed since; --plugin FILE starts another run with the file that "
                  "it names");
  }
  if (std::ranges::find(plugins(), plugin.file_hash, &Plugin::file_hash) != plugins().end()) return;
  const Stamp found = stamp_in(bytes, source);
  check_stamp(found, stamp, source);
  open_library(source);
  plugin.name = found.name;
  plugins().push_back(std::move(plugin));
}

const std::vector<Plugin>& loaded_plugins() { return plugins(); }

}  // namespace hetsgd
