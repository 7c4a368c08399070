#include "ranks.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/version.hpp"
#include "data/source.hpp"

namespace hetsgd {
namespace {

void start_log(const TrainOptions& options, const MpiRank& rank) {
  const std::string& folder = options.log_dir;
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw runtime_failure("--log-dir: cannot make {}: {}", folder, failed.message());
  const std::string file = log_file(folder, rank.rank);
  if (options.overwrite) std::filesystem::remove(file, failed);  // what cannot be is said below
  start_logging_to(file);
}

// The sources that this program was built from; where the revision does not say it, its own bytes
// do. Builds of one revision for different processors understand each other.
std::string program() {
  std::string text = fmt::format("hetsgd {} ({})", version(), git_revision());
  if (git_dirty() || git_revision() == "unknown") {
    text += fmt::format(" with local changes, {:016x}", DataFile("/proc/self/exe").hash());
  }
  return text;
}

// Not what to run, and yet all must have the same.
bool concerns_all(const Option& option) {
  return option.in_config || option.name == "peer_timeout";
}

// Each process may have its own copy of the data, under a name of its own.
bool is_place_of_data(const Option& option) {
  return option.name == "train" || option.name == "test";
}

// As a result's configuration has it, without the quotes of a text.
std::string value_text(const Option& option) {
  const nlohmann::json value = option.to_json();
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void call_the_roll(const std::string& command, const OptionSet& set, const Patience& patience) {
  std::vector<Fact> facts = {{"the program", program(), true}, {"the command", command, true}};
  for (const char* const instead : {"print_config", "dry_run"}) {
    if (const Option* const option = set.find(instead)) {
      facts.push_back({option->flag(), value_text(*option), true});
    }
  }
  for (const Option& option : set.options()) {
    if (!concerns_all(option) || is_place_of_data(option)) continue;
    facts.push_back({option.flag(), value_text(option), option.name == "algorithm"});
  }
  std::ranges::stable_partition(facts, &Fact::decides_others);
  mpi_call_the_roll(facts, patience.start, patience.peer);
}

void check_data(const TrainOptions& options, const Record& record) {
  if (options.cluster != "mpi") return;
  const auto fact = [](const char* option, const Dataset& data) {
    return Fact{fmt::format("the content of {}", option),
                fmt::format("xxh3:{:016x}", data.content_hash)};
  };
  mpi_compare({fact("--train", *record.train), fact("--test", *record.test)}, options.peer_timeout);
}

bool speaks(const TrainOptions& options) {
  return options.cluster != "mpi" || mpi_rank().rank == 0;
}

double together(const TrainOptions& options, const std::function<double()>& fn) {
  return options.cluster == "mpi" ? mpi_agree(fn, options.peer_timeout) : fn();
}

void rank_0_decides(const std::function<void()>& fn, Seconds peer_timeout) {
  mpi_agree(
      [&] {
        if (mpi_rank().rank == 0) fn();
        return 0.0;
      },
      peer_timeout);
}

bool decide_together(const TrainOptions& options, const std::function<bool()>& decide) {
  return together(options, [&] { return speaks(options) && decide() ? 1.0 : 0.0; }) != 0;
}

void rethrow_together() {
  mpi_agree([]() -> double { throw; }, TrainOptions().peer_timeout);
  throw;
}

void start_talking_as_rank() {
  TalkOptions talk = detect_terminal();
  talk.silent = launched_rank() > 0;
  start_talking(talk);
}

void start_talking_as(const TrainOptions& options) {
  TalkOptions talk = detect_terminal();
  talk.quiet = options.quiet;
  talk.silent = !speaks(options);
  if (options.color != ColorMode::automatic) talk.color = options.color == ColorMode::always;
  start_talking(talk);
  if (options.log_dir.empty()) return;
  const MpiRank rank = options.cluster == "mpi" ? mpi_rank() : MpiRank{};
  start_log(options, rank);
  if (options.cluster == "mpi" && rank.rank > 0) {
    note("rank {} of {} on {} (local rank {}), process {}", rank.rank, rank.size, rank.host,
         rank.local_rank, ::getpid());
  }
}

}  // namespace hetsgd
