// The log: what a person should read while a command runs. It goes to stderr, never to stdout,
// which is for data.
//
// It has messages ("warning: ...") and one status line (progress), which stays below them on a
// terminal. It is thread-safe. All text passes printable() (core/text.hpp), so that no name and no
// key can command the terminal.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace hetsgd {

enum class LogLevel { info, warning, error };

// How the log behaves on this terminal.
struct LogOptions {
  bool quiet = false;   // drop information and the status line; warnings and errors stay
  bool silent = false;  // nothing goes to stderr, because another process speaks
  bool color = false;
  bool terminal = false;  // stderr can redraw its last line
};

// The options that terminal and environment suggest. NO_COLOR (any text) and TERM=dumb switch
// colour off, and without a terminal there is none. Only `terminal` and `color` are set.
LogOptions detect_terminal();

// Sets the options, also when called again. Before the first call those of detect_terminal() hold.
void start_log(const LogOptions& options);

// Appends every message from now on to this file, with its time, also those that the options keep
// from stderr. Throws Error(runtime) if the file cannot be written.
void start_logging_to(const std::string& path);

// Logs one line, "warning: text". Information has no word in front.
void log(LogLevel level, std::string_view text);

template <class... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) {
  log(LogLevel::info, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> text, Args&&... args) {
  log(LogLevel::warning, fmt::format(text, std::forward<Args>(args)...));
}

// Prints data for people on stdout, such as a table.
void print_text(std::string_view text);

// print_text() of a format and its arguments.
template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  print_text(fmt::format(text, std::forward<Args>(args)...));
}

// On a terminal: redraws the last line in place, cut to the terminal's width; "" removes it.
// Elsewhere: prints `text` as a line of its own, unless it is "".
void show_status(std::string_view text);

}  // namespace hetsgd
