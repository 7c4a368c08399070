#include "ranks.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.hpp"
#include "core/file_registry.hpp"
#include "core/logging.hpp"
#include "core/version.hpp"
#include "data/source.hpp"
#include "training/plugins.hpp"

namespace hetsgd {
namespace {

void start_log_file(const TrainOptions& options, int rank) {
  const std::string& folder = options.log_dir;
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw runtime_failure("--log-dir: cannot create {}: {}", folder, failed.message());
  const std::string file = log_file(folder, rank);
  if (options.overwrite) std::filesystem::remove(file, failed);  // a failure is reported below
  start_logging_to(file);
}

// The identity of the sources that this program was built from: the revision, or a hash of the
// program if that does not identify them. Builds of one revision for different processors are
// compatible.
std::string program() {
  std::string text = fmt::format("hetsgd {} ({})", version(), git_revision());
  if (git_dirty() || git_revision() == "unknown") {
    text += fmt::format(" with local changes, {:016x}", DataFile("/proc/self/exe").hash());
  }
  return text;
}

// Whether all processes must have the same value of an option.
bool concerns_all(const Option& option) {
  return option.in_config || option.name == "peer_timeout";
}

// Whether an option names a file that each process may have under its own name, so that only its
// content is compared. The content of data is compared when they are loaded, since they may be
// large. That of a plugin is known since it was loaded.
bool is_place_of_file(const Option& option) {
  return option.name == "train" || option.name == "test" || option.name == "plugin";
}

// The contents of the files that an option reads, since processes that read different files under
// one name would train together. A name of something built in is no file.
std::optional<std::string> contents_of_files(const Option& option) {
  if (option.files.role != FileRole::read) return std::nullopt;
  std::string text;
  for (const std::string& path : paths_of(option)) {
    if (!FileIdentity::of(path).regular) continue;
    text += fmt::format("{}xxh3:{:016x}", text.empty() ? "" : ", ", DataFile(path).hash());
  }
  return text;
}

std::string hashes_of_plugins() {
  std::string text;
  for (const Plugin& plugin : loaded_plugins()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", plugin.name, plugin.hash_text());
  }
  return text;
}

// The value as in a result's configuration, without the quotes of a text.
std::string value_text(const Option& option) {
  const nlohmann::json value = option.to_json();
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

ProcessGroup& join_launched_processes(Seconds peer_timeout) {
  return processes_of(default_cluster(/*is_virtual=*/false), peer_timeout);
}

void call_the_roll(const std::string& command, const OptionSet& set, Seconds peer_timeout) {
  std::vector<Fact> facts = {{"the program", program(), true},
                             {"the command", command, true},
                             {"the content of --plugin", hashes_of_plugins(), true}};
  for (const char* const instead : {"print_config", "dry_run"}) {
    if (const Option* const option = set.find(instead)) {
      facts.push_back({option->flag(), value_text(*option), true});
    }
  }
  for (const Option& option : set.options()) {
    if (!concerns_all(option) || is_place_of_file(option)) continue;
    facts.push_back({option.flag(), value_text(option), option.name == "algorithm"});
    if (const auto contents = contents_of_files(option)) {
      facts.push_back({fmt::format("the content of {}", option.flag()), *contents, false});
    }
  }
  std::stable_partition(facts.begin(), facts.end(),
                        [](const Fact& fact) { return fact.decides_others; });
  join_launched_processes(peer_timeout).call_the_roll(facts, peer_timeout);
}

void start_log_as_rank() {
  LogOptions log = detect_terminal();
  log.silent = launched_rank() > 0;
  start_log(log);
}

void start_log_as(const TrainOptions& options) {
  LogOptions log = detect_terminal();
  log.quiet = options.quiet;
  log.silent = !options.processes().is_root();
  if (options.color != ColorMode::automatic) log.color = options.color == ColorMode::always;
  start_log(log);
  if (options.log_dir.empty()) return;
  ProcessGroup& processes = options.processes();
  start_log_file(options, processes.rank());
  if (processes.is_root()) return;
  const ProcessPlace& place = processes.place();
  log_info("rank {} of {} on {} (local rank {}), process {}", place.rank, processes.size(),
           place.host, place.local_rank, ::getpid());
}

}  // namespace hetsgd
