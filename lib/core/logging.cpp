#include "core/logging.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

// A sink that knows about the status line: it removes the line, writes the message and draws it
// again.
class LogSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void configure(const LogOptions& options) {
    const std::lock_guard lock(mutex_);
    options_ = options;
  }

  void show(std::string_view text) {
    const std::lock_guard lock(mutex_);
    if (options_.quiet || options_.silent) return;
    if (!options_.terminal) {
      if (!text.empty()) write(fmt::format("{}\n", text));
      return;
    }
    status_ = text.substr(0, width());
    write(kEraseLine + status_);
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (options_.silent || (options_.quiet && message.level == spdlog::level::info)) return;
    const std::string_view text(message.payload.data(), message.payload.size());
    std::string line = status_.empty() ? "" : kEraseLine;
    line += fmt::format("{}{}\n{}", prefix(message.level), text, status_);
    write(line);
  }
  void flush_() override { std::fflush(stderr); }

 private:
  std::string prefix(spdlog::level::level_enum level) const {
    const char* const word = level == spdlog::level::err    ? "error"
                             : level == spdlog::level::warn ? "warning"
                                                            : "";
    if (!*word) return "";
    if (!options_.color) return fmt::format("{}: ", word);
    return fmt::format("\033[1;{}m{}:\033[0m ", level == spdlog::level::err ? 31 : 33, word);
  }

  static std::size_t width() {
    winsize size{};
    const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return known ? size.ws_col - 1U : 79U;
  }

  // One call per message, so that lines of several processes do not mix.
  static void write(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  }

  inline static const std::string kEraseLine = "\r\033[K";
  LogOptions options_ = detect_terminal();
  std::string status_;
};

LogSink& sink() {
  static const auto shared = std::make_shared<LogSink>();
  return *shared;
}

spdlog::logger& logger() {
  // The sink outlives the logger: both live until the program ends.
  static spdlog::logger instance("hetsgd", std::shared_ptr<LogSink>(&sink(), [](LogSink*) {}));
  return instance;
}

}  // namespace

LogOptions detect_terminal() {
  LogOptions options;
  const char* const term = std::getenv("TERM");
  const char* const no_color = std::getenv("NO_COLOR");
  options.terminal = ::isatty(STDERR_FILENO) == 1 && !(term && std::string_view(term) == "dumb");
  options.color = options.terminal && !(no_color && *no_color);
  return options;
}

void start_log(const LogOptions& options) { sink().configure(options); }

void start_logging_to(const std::string& path) {
  try {
    auto file = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path, false);
    file->set_pattern("%Y-%m-%d %H:%M:%S.%e %l: %v");
    logger().sinks().push_back(std::move(file));
    logger().flush_on(spdlog::level::info);
  } catch (const spdlog::spdlog_ex& error) {
    throw runtime_failure("{}: cannot write the log: {}", path, error.what());
  }
}

void log(LogLevel level, std::string_view text) {
  const auto spd = level == LogLevel::error     ? spdlog::level::err
                   : level == LogLevel::warning ? spdlog::level::warn
                                                : spdlog::level::info;
  const std::string shown = printable(text, Lines::keep);
  logger().log(spd, spdlog::string_view_t(shown.data(), shown.size()));
}

void print_text(std::string_view text) {
  const std::string shown = printable(text, Lines::keep);
  std::fwrite(shown.data(), 1, shown.size(), stdout);
}

void show_status(std::string_view text) { sink().show(printable(text)); }

}  // namespace hetsgd
