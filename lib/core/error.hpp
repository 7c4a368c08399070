// Two kinds of failure: a fault of the world is an Error, a fault of our own code is a failed
// check.
//
// Purpose : one exception type for files, options, devices, peers and disks. apps/hetsgd/main.cpp
//           reports the error that ends the program. Other code lets errors pass, adds context and
//           rethrows, or keeps an error as the outcome of a run.
// Message : names the place (file:line:column, or the option), what was found, what was expected.
//           The hint, printed on a line of its own, says what to do about it.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace hetsgd {

// Process exit codes, part of the command line's contract (README, "Exit codes").
enum class ExitCode : int {
  ok = 0,
  runtime = 1,
  usage = 2,          // wrong option, wrong configuration, refusal to overwrite
  target_missed = 3,  // under --require-target
  data = 4,           // unreadable or malformed data file
  device = 5,         // device or communicator missing
  time_limit = 6,
  regression = 7,  // `hetsgd compare`
  diverged = 8,    // a single run; in a sweep or a tuning that is a result like any other
};

// An error that the world caused. `what()` is the message without the hint.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, std::string message, std::string hint = "")
      : std::runtime_error(std::move(message)), code_(code), hint_(std::move(hint)) {}

  ExitCode code() const { return code_; }
  const std::string& hint() const { return hint_; }  // empty: none

 private:
  ExitCode code_;
  std::string hint_;
};

// Short forms: `throw data_error("{}:{}:{}: ...", file, line, column)`.
template <class... Args>
Error data_error(fmt::format_string<Args...> text, Args&&... args) {
  return Error(ExitCode::data, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
Error usage_error(fmt::format_string<Args...> text, Args&&... args) {
  return Error(ExitCode::usage, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
Error runtime_failure(fmt::format_string<Args...> text, Args&&... args) {
  return Error(ExitCode::runtime, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
Error device_error(fmt::format_string<Args...> text, Args&&... args) {
  return Error(ExitCode::device, fmt::format(text, std::forward<Args>(args)...));
}
// The same error with a hint: `throw with_hint(data_error(...), "try --index-base 0")`.
inline Error with_hint(const Error& error, std::string hint) {
  return Error(error.code(), error.what(), std::move(hint));
}

// Refuses an option, a key or a field, with a message of the usual form:
//   refuse("--hidden", "no layer", "at least one for --model mlp", "--model linear has none")
//   --hidden: found no layer, expected at least one for --model mlp
// `place` names the option or the key. A hint is worth its line only if it adds to `expected`.
[[noreturn]] inline void refuse(std::string_view place, std::string_view found,
                                std::string_view expected, std::string hint = "",
                                ExitCode code = ExitCode::usage) {
  throw Error(code, fmt::format("{}: found {}, expected {}", place, found, expected),
              std::move(hint));
}

// A broken promise of our own code. Never compiled out; the message carries both values.
class CheckFailure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

namespace detail {
[[noreturn]] inline void fail_check(const char* file, int line, std::string_view expression,
                                    std::string_view values) {
  throw CheckFailure(fmt::format("{}:{}: check failed: {}{}{}", file, line, expression,
                                 values.empty() ? "" : ": ", values));
}

template <class T>
std::string describe(const T& value) {
  if constexpr (fmt::is_formattable<T>::value) {
    return fmt::format("{}", value);
  } else {
    return "?";
  }
}
}  // namespace detail

#define HETSGD_CHECK(condition)                                         \
  do {                                                                  \
    if (!(condition)) [[unlikely]]                                      \
      ::hetsgd::detail::fail_check(__FILE__, __LINE__, #condition, ""); \
  } while (false)

#define HETSGD_CHECK_OP_(left, op, right)                                               \
  do {                                                                                  \
    const auto& hetsgd_l = (left);                                                      \
    const auto& hetsgd_r = (right);                                                     \
    if (!(hetsgd_l op hetsgd_r)) [[unlikely]]                                           \
      ::hetsgd::detail::fail_check(__FILE__, __LINE__, #left " " #op " " #right,        \
                                   ::hetsgd::detail::describe(hetsgd_l) + " against " + \
                                       ::hetsgd::detail::describe(hetsgd_r));           \
  } while (false)

#define HETSGD_CHECK_EQ(left, right) HETSGD_CHECK_OP_(left, ==, right)
#define HETSGD_CHECK_NE(left, right) HETSGD_CHECK_OP_(left, !=, right)
#define HETSGD_CHECK_LT(left, right) HETSGD_CHECK_OP_(left, <, right)
#define HETSGD_CHECK_LE(left, right) HETSGD_CHECK_OP_(left, <=, right)
#define HETSGD_CHECK_GE(left, right) HETSGD_CHECK_OP_(left, >=, right)

}  // namespace hetsgd
