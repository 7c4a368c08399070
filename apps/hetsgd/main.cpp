// hetsgd finds the subcommand, and turns errors into a message and an exit code. It catches
// whatever leaves a command.
#include <fmt/format.h>

#include <CLI/Error.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "command.hpp"
#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/output_file.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "help.hpp"
#include "linalg/cpu_kernels.hpp"
#include "printer.hpp"
#include "signals.hpp"
#include "training/plugins.hpp"

namespace hetsgd {
namespace {

int print_version(const std::vector<std::string>& arguments) {
  if (arguments.size() == 2 && arguments[1] == "--json") {
    print_json(version_json());
  } else if (arguments.size() == 1) {
    fmt::print("{}", version_text());
  } else {
    refuse("--version", quote(arguments[1]), "--json or nothing");
  }
  return 0;
}

// The number of arguments that are the name of `command`, which has one word or two ("data info");
// 0 if they are another name.
std::size_t words_matched(const Command& command, const std::vector<std::string>& arguments) {
  const std::string name = command.info().name;
  const auto words = split(name, ' ');
  if (arguments.size() < words.size()) return 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (arguments[i] != words[i]) return 0;
  }
  return words.size();
}

[[noreturn]] void refuse_command(const Commands& commands,
                                 const std::vector<std::string>& arguments) {
  std::vector<std::string> names, beginnings;
  for (const auto& command : commands) {
    names.push_back(command->info().name);
    if (names.back().starts_with(arguments[0] + " ")) beginnings.push_back(names.back());
  }
  if (!beginnings.empty()) {
    refuse(arguments[0], arguments.size() > 1 ? quote(arguments[1]) : "nothing",
           fmt::format("one of {}", fmt::join(beginnings, ", ")));
  }
  const auto best = nearest(arguments[0], names);
  throw with_hint(
      usage_error("{}: unknown command", quote(arguments[0])),
      best ? fmt::format("did you mean {}?", *best) : "hetsgd --help lists the commands");
}

int dispatch(const std::vector<std::string>& arguments) {
  const Commands commands = all_commands();
  if (arguments.empty() || arguments[0] == "-h" || arguments[0] == "--help") {
    fmt::print(arguments.empty() ? stderr : stdout, "{}", program_help(commands));
    return arguments.empty() ? static_cast<int>(ExitCode::usage) : 0;
  }
  if (arguments[0] == "--version") return print_version(arguments);
  if (arguments.size() == 2 && (arguments[1] == "-h" || arguments[1] == "--help")) {
    if (const std::string help = family_help(arguments[0], commands); !help.empty()) {
      fmt::print("{}", help);
      return 0;
    }
  }
  // The longest name wins, so that `network` in `calibrate network` is no operand of `calibrate`.
  const auto words = [&](const auto& command) { return words_matched(*command, arguments); };
  const auto best = std::ranges::max_element(commands, {}, words);
  if (words(*best) == 0) refuse_command(commands, arguments);
  return run_command(
      **best, {arguments.begin() + static_cast<std::ptrdiff_t>(words(*best)), arguments.end()});
}

// Output that did not reach stdout is an error, for example if the disk behind `> file` is full.
int flushed(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  throw runtime_failure("stdout: cannot write the output");
}

int report(const std::string& message, const std::string& hint, ExitCode code) {
  const ProcessGroup* const processes = joined_processes();
  if (processes && processes->root_is_lost()) start_log(detect_terminal());  // no rank reports
  show_status("");
  log(LogLevel::error, hint.empty() ? message : message + "\nhint: " + hint);
  return static_cast<int>(code);
}

// The owner of a bug: hetsgd, or one of the loaded plugins, whose code fails in the same ways.
std::string whose_bug() {
  std::string names;
  for (const Plugin& plugin : loaded_plugins()) names += plugin.name + ", ";
  return names.empty()
             ? "this is a bug in hetsgd"
             : "this is a bug in a plugin (" + names.substr(0, names.size() - 2) + ") or in hetsgd";
}

// Reports files that were kept under another name as an error, because the next program does not
// find them.
int kept(int code) {
  const auto elsewhere = kept_elsewhere();
  for (const auto& [asked, found] : elsewhere) {
    log(LogLevel::error, fmt::format("{}: another process has created this file meanwhile; the "
                                     "output of this process is in {}",
                                     asked, found));
  }
  return code == 0 && !elsewhere.empty() ? static_cast<int>(ExitCode::runtime) : code;
}

int run(const std::vector<std::string>& arguments) {
  try {
    cpu_kernels();  // refuses a wrong HETSGD_CPU before any work is done
    return flushed(dispatch(arguments));
  } catch (const Error& error) {
    return report(error.what(), error.hint(), error.code());
  } catch (const CLI::ParseError& error) {
    return report(error.what(), "", ExitCode::usage);
  } catch (const std::bad_alloc&) {
    return report("out of memory", "reduce --batch-size, --hidden or --workers", ExitCode::runtime);
  } catch (const std::filesystem::filesystem_error& error) {  // a bad name or link
    return report(fmt::format("{}: {}", quote(error.path1().string()), error.code().message()),
                  "name another path", ExitCode::runtime);
  } catch (const std::exception& error) {
    return report(error.what(), whose_bug(), ExitCode::runtime);
  } catch (...) {
    return report("an exception of an unknown type", whose_bug(), ExitCode::runtime);
  }
}

}  // namespace
}  // namespace hetsgd

int main(int count, char** values) {
  // With the signal ignored, a write beyond the limit of file sizes fails like one to a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  hetsgd::count_checkpoint_signals();
  const int code = hetsgd::kept(hetsgd::run({values + 1, values + count}));
  hetsgd::ProcessGroup* const processes = hetsgd::joined_processes();
  return processes ? processes->leave(code) : code;
}
