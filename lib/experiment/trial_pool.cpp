#include "experiment/trial_pool.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "core/error.hpp"
#include "core/json_file.hpp"
#include "experiment/run.hpp"

namespace hetsgd {
namespace {

namespace fs = std::filesystem;

std::string scratch_folder() {
  constexpr const char* kHint = "TMPDIR names another place; --jobs 1 needs none";
  std::error_code failed;
  const fs::path parent = fs::temp_directory_path(failed);
  if (failed) {
    throw with_hint(runtime_failure("no folder for trials: {}", failed.message()), kHint);
  }
  std::string name = (parent / "hetsgd-trials-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw with_hint(runtime_failure("{}: cannot make a folder: {}", name, std::strerror(errno)),
                    kHint);
  }
  return name;
}

}  // namespace

TrialPool::TrialPool(DataCache& data, int jobs)
    : data_(data), jobs_(jobs), folder_(scratch_folder()) {}

TrialPool::~TrialPool() {
  pool_.stop();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string TrialPool::file(std::size_t tag, const char* ending) const {
  return fmt::format("{}/{}.{}", folder_, tag, ending);
}

void TrialPool::start(std::size_t tag, const std::shared_ptr<ConfiguredRun>& run,
                      const std::atomic<int>* signal) {
  TrainOptions& options = run->options();
  options.output = file(tag, "json");
  options.overwrite = true;
  if (!options.host_threads) {
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    options.host_threads = std::max(1, cores / jobs_);
  }
  WorkerTask task;
  task.log = file(tag, "log");
  task.run = [run, signal, data = &data_] {
    const Outcome outcome = run_one(run->spec(), {}, {.signal = signal}, data);
    if (outcome.error) std::rethrow_exception(outcome.error);
    return outcome.exit_code;
  };
  pool_.start(tag, task);
}

std::optional<EndedTrial> TrialPool::wait(Seconds most) {
  const std::optional<EndedWorker> ended = pool_.wait(most);
  if (!ended) return std::nullopt;
  const std::string path = file(ended->tag, "json");
  EndedTrial trial{ended->tag, fs::exists(path) ? read_json(path) : nlohmann::json(),
                   ended->wall_s};
  const bool whole = trial.result.is_object() && trial.result.value("status", "") != "running";
  if (!whole) {
    const std::string said = last_error(file(ended->tag, "log"));
    if (!said.empty()) throw Error(static_cast<ExitCode>(ended->exit_code), said);
    throw runtime_failure("a trial left no result: {}",
                          ended->exit_code > 128
                              ? fmt::format("ended by signal {}", ended->exit_code - 128)
                              : fmt::format("exit code {}", ended->exit_code));
  }
  fs::remove(path);
  return trial;
}

}  // namespace hetsgd
