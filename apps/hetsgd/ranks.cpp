#include "ranks.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cluster/mpi/mpi_cluster.hpp"
#include "core/error.hpp"
#include "core/logging.hpp"

namespace hetsgd {
namespace {

void start_log(const std::string& folder, const MpiRank& rank) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw runtime_failure("--log-dir: cannot make {}: {}", folder, failed.message());
  start_logging_to(fmt::format("{}/rank_{}.log", folder, rank.rank));
}

}  // namespace

bool speaks(const TrainOptions& options) {
  return options.cluster != "mpi" || mpi_rank().rank == 0;
}

double together(const TrainOptions& options, const std::function<double()>& fn) {
  return options.cluster == "mpi" ? mpi_agree(fn, options.peer_timeout) : fn();
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
  start_log(options.log_dir, rank);
  if (options.cluster == "mpi" && rank.rank > 0) {
    note("rank {} of {} on {} (local rank {}), process {}", rank.rank, rank.size, rank.host,
         rank.local_rank, ::getpid());
  }
}

}  // namespace hetsgd
