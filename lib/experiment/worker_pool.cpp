#include "experiment/worker_pool.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/logging.hpp"
#include "core/options.hpp"

namespace hetsgd {
namespace {

constexpr Seconds kPatience{5};  // of stop()

sigset_t child_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  return set;
}

// Redirects the child's output to its log.
void redirect(const std::string& log) {
  // Without O_NONBLOCK, opening a pipe of this name would block.
  const int file = ::open(log.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC | O_NONBLOCK, 0666);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(file >= 0 ? file : nothing, STDOUT_FILENO);
  ::dup2(file >= 0 ? file : nothing, STDERR_FILENO);
}

// Removes the variables that set options, so that arguments alone configure a command.
void forget_options() {
  for (const std::string& name : variables_of_options()) ::unsetenv(name.c_str());
}

[[noreturn]] void execute(const std::vector<std::string>& command) {
  forget_options();
  ::signal(SIGUSR1, SIG_IGN);  // until the program counts it (apps/hetsgd/signals.hpp)
  std::vector<char*> arguments;
  for (const std::string& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  log(LogLevel::error, fmt::format("{}: cannot be run: {}", command[0], std::strerror(errno)));
  ::_exit(127);
}

// The last frame of the child. It never returns, because it must not unwind frames of the parent.
[[noreturn]] void live(const WorkerTask& task, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::setpgid(0, 0);  // signals of the terminal are for the parent, which passes them on
  const sigset_t set = child_signal();
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  redirect(task.log);
  start_log({});
  if (!task.run) execute(task.command);
  int code = static_cast<int>(ExitCode::runtime);
  try {
    code = task.run();
  } catch (const Error& error) {
    log(LogLevel::error, error.what());
    code = static_cast<int>(error.code());
  } catch (const std::exception& error) {
    log(LogLevel::error, error.what());
  }
  ::_exit(code);
}

}  // namespace

// The signal is blocked, so that one that arrives before the wait is not missed.
WorkerPool::WorkerPool() {
  const sigset_t set = child_signal();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
}

WorkerPool::~WorkerPool() {
  for (const Worker& worker : workers_) {
    ::kill(-worker.process, SIGKILL);
    ::kill(worker.process, SIGKILL);
    ::waitpid(worker.process, nullptr, 0);
  }
  const sigset_t set = child_signal();
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

void WorkerPool::start(std::size_t tag, const WorkerTask& task) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw runtime_failure("cannot make a process: {}", std::strerror(errno));
  if (child == 0) live(task, parent);
  ::setpgid(child, child);  // parent and child both set it, because either may run first
  workers_.push_back({tag, child, HostClock::now()});
}

std::optional<EndedWorker> WorkerPool::reap() {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    int status = 0;
    const pid_t ended = ::waitpid(workers_[i].process, &status, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) continue;
    const Worker worker = workers_[i];
    workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(i));
    const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return EndedWorker{worker.tag, code, seconds_since(worker.start)};
  }
  return std::nullopt;
}

std::optional<EndedWorker> WorkerPool::wait(Seconds most) {
  if (auto ended = reap()) return ended;
  const sigset_t set = child_signal();
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(most.count());
  timeout.tv_nsec = static_cast<long>((most.count() - static_cast<double>(timeout.tv_sec)) * 1e9);
  ::sigtimedwait(&set, nullptr, &timeout);
  return reap();
}

void WorkerPool::stop() {
  for (const Worker& worker : workers_) ::kill(-worker.process, SIGTERM);
  const auto start = HostClock::now();
  while (!workers_.empty() && seconds_since(start) < kPatience.count()) wait(Seconds(0.1));
  for (const Worker& worker : workers_) ::kill(-worker.process, SIGKILL);
  while (!workers_.empty()) wait(Seconds(1));
}

std::vector<std::string> variables_of_options() {
  const auto others = variables_of_no_option();
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_option = std::ranges::find(others, name) == others.end();
    if (name.starts_with("HETSGD_") && is_option) names.emplace_back(name);
  }
  return names;
}

std::string last_error(const std::string& log) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(log, failed)) return "";
  const std::string text = read_file(log, {.noun = "log"}, std::uint64_t{1} << 24);
  constexpr std::string_view kMark = "error: ";
  const std::size_t at = text.rfind("\n" + std::string(kMark));
  std::size_t begin = at == std::string::npos ? 0 : at + 1;
  if (!std::string_view(text).substr(begin).starts_with(kMark)) return "";
  begin += kMark.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace hetsgd
