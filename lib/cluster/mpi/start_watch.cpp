#include "cluster/mpi/start_watch.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <vector>

#include "cluster/process_group.hpp"
#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "core/threads.hpp"

namespace hetsgd::mpi {

namespace {

namespace fs = std::filesystem;

// Variables that name the job among those of a host, as far as the launcher sets them. Processes of
// one job have the same value of each variable, or both have none.
constexpr std::array kJob = {"PMIX_NAMESPACE", "PMI_JOBID", "PMI_PORT", "SLURM_JOB_ID",
                             "SLURM_STEP_ID"};

struct RankProcess {
  long pid = 0;
  bool started = false;  // it has come to the start
  bool stopped = false;  // stopped by SIGSTOP
  std::string command;
};

// Empty where it cannot be read: the process has ended, or is another user's.
std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The rank of a process of this job from its environment, NUL-separated; -1: it is none.
int rank_in(const std::string& environment) {
  std::map<std::string_view, std::string_view> variables;
  for (const std::string_view entry : split(environment, '\0')) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string_view::npos) {
      variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  for (const char* const name : kJob) {
    const char* const own = std::getenv(name);
    const auto other = variables.find(name);
    if (own ? other == variables.end() || other->second != own : other != variables.end()) {
      return -1;
    }
  }
  for (const char* const name : kRankVariables) {
    const auto found = variables.find(name);
    if (found == variables.end()) continue;
    const std::string_view text = found->second;
    int rank = -1;
    std::from_chars(text.data(), text.data() + text.size(), rank);
    return rank;
  }
  return -1;
}

// A thread of the process has the name that a StartWatch gives to its own.
bool has_mark(const fs::path& process) {
  std::error_code ended;
  for (const auto& thread : fs::directory_iterator(process / "task", ended)) {
    if (trim(content(thread.path() / "comm")) == kStartMark) return true;
  }
  return false;
}

// Reads the state in the system's text "PID (NAME) STATE ...".
bool is_stopped(const fs::path& process) {
  const std::string text = content(process / "stat");
  const std::size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && text.substr(name_end + 2, 1) == "T";
}

std::string command_of(const fs::path& process) {
  std::string text = content(process / "cmdline");
  while (!text.empty() && text.back() == '\0') text.pop_back();
  std::ranges::replace(text, '\0', ' ');
  return text;
}

// Processes of this job by rank. A rank can be several processes: a script and what it has started.
// The youngest of them is shown.
std::map<int, RankProcess> processes_of_job() {
  std::map<int, RankProcess> found;
  std::error_code ended;
  for (const auto& entry : fs::directory_iterator("/proc", ended)) {
    const std::string name = entry.path().filename().string();
    long pid = 0;
    // Only folders whose whole name is a number are processes.
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ptr !=
        name.data() + name.size()) {
      continue;
    }
    const std::string environment = content(entry.path() / "environ");
    const int rank = environment.empty() ? -1 : rank_in(environment);
    if (rank < 0) continue;
    RankProcess& process = found[rank];
    process.started |= has_mark(entry.path());
    process.stopped |= is_stopped(entry.path());
    // Process numbers grow as long as they do not wrap, so the greatest is the youngest.
    if (pid < process.pid) continue;
    process.pid = pid;
    process.command = command_of(entry.path());
  }
  return found;
}

// The value of the first of these variables that is set, which all say how many ranks there are,
// here or in all; -1: none is set.
int number_in(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const char* const text = std::getenv(name);
    int number = -1;
    if (text &&
        std::from_chars(text, text + std::string_view(text).size(), number).ec == std::errc()) {
      return number;
    }
  }
  return -1;
}

}  // namespace

StartState state_of_start() {
  const std::map<int, RankProcess> processes = processes_of_job();
  const int all = number_in({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"});
  const int here = number_in({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"});
  StartState state;
  std::vector<std::string> missing;
  for (const auto& [rank, process] : processes) {
    if (process.stopped) {
      missing.push_back(fmt::format("rank {} is stopped", rank));
    } else if (!process.started) {
      missing.push_back(fmt::format("rank {} runs {}", rank, quote(process.command)));
    } else if (rank < launched_rank()) {
      state.is_first = false;
    }
  }
  // If all ranks are on this host their numbers are known, and those without a process can be
  // named; else they can only be counted.
  const int ended = here - static_cast<int>(processes.size());
  if (here > 0 && here == all) {
    for (int rank = 0; rank < all; ++rank) {
      if (!processes.contains(rank)) missing.push_back(fmt::format("rank {} has ended", rank));
    }
  } else if (here > 0 && ended > 0) {
    missing.push_back(fmt::format("{} of the {} ranks of this host have ended", ended, here));
  }
  const char* const all_here =
      here > 0 && here == all
          ? "all run on this host and have begun, but did not answer each other in that time"
          : "those of this host have joined, so look at the other hosts";
  state.missing = missing.empty() ? all_here : fmt::format("{}", fmt::join(missing, ", "));
  return state;
}

namespace {

// Time that the launcher has to end the other ranks when the first one has ended itself.
constexpr Seconds kLauncherTime{3};
// A wait of more than this overflows the clock.
constexpr Seconds kLongest{1e8};

// One watch at a time: a process has one mark and one message.
std::atomic<bool> watching{false};

}  // namespace

StartWatch::StartWatch(Seconds limit) {
  if (watching.exchange(true)) return;
  try {
    thread_ = start_thread<std::jthread>(
        "the start", [this, limit](std::stop_token stop) { watch(std::move(stop), limit); });
  } catch (const Error&) {
    watching = false;
    throw;
  }
  // The other ranks of this host read it: a process that has this thread has come to the start.
  pthread_setname_np(thread_.native_handle(), kStartMark);
}

StartWatch::~StartWatch() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  watching = false;
}

bool StartWatch::wait(std::stop_token& stop, Seconds time) {
  std::unique_lock lock(mutex_);
  // Nothing but a request to stop ends it early.
  changed_.wait_for(lock, stop, std::min(time, kLongest), [] { return false; });
  return !stop.stop_requested();
}

void StartWatch::watch(std::stop_token stop, Seconds limit) {
  // Ranks that are not the first of their host leave the message to that one. They end themselves
  // only if the launcher has not ended them by then.
  if (!wait(stop, limit)) return;
  const StartState state = state_of_start();
  if (!state.is_first && !wait(stop, kLauncherTime)) return;
  // Nobody else has started the log yet. exit() would not do: it can wait for the ranks that are
  // missing (Environment::leave).
  start_log(detect_terminal());
  log(LogLevel::error,
      fmt::format(
          "not all ranks have joined within {} of the start: {}\nhint: every rank has to run the "
          "same command; --peer-timeout sets the time limit",
          format_seconds(limit), state.missing));
  _exit(static_cast<int>(ExitCode::runtime));
}

}  // namespace hetsgd::mpi
