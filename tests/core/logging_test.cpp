#include "core/logging.hpp"

namespace hetsgd {
namespace {

std::string said(const LogOptions& options, const std::function<void()>& speak) {
  ::testing::internal::CaptureStderr();
  start_log(options);
  speak();
  start_log({});
  return ::testing::internal::GetCapturedStderr();
}

void everything() {
  log_info("a {}", 1);
  warn("b {}", 2);
  log(LogLevel::error, "c");
  show_status("d");
}

TEST(Log, NamesTheLevel) { EXPECT_EQ(said({}, everything), "a 1\nwarning: b 2\nerror: c\nd\n"); }

TEST(Log, QuietKeepsWarningsAndErrors) {
  EXPECT_EQ(said({.quiet = true}, everything), "warning: b 2\nerror: c\n");
}

TEST(Log, ColoursTheWordOnly) {
  EXPECT_EQ(said({.color = true}, [] { warn("b"); }), "\033[1;33mwarning:\033[0m b\n");
}

// The status line is erased, the message written, the line drawn again; "" takes it away.
TEST(Log, TheStatusLineStaysBelowMessages) {
  const std::string text = said({.terminal = true}, [] {
    show_status("50%");
    log_info("half");
    show_status("");
    log_info("done");
  });
  EXPECT_EQ(text, "\r\033[K50%\r\033[Khalf\n50%\r\033[Kdone\n");
}

TEST(Log, WithoutATerminalAnEmptyStatusPrintsNothing) {
  EXPECT_EQ(said({}, [] { show_status(""); }), "");
}

TEST(Log, NoTerminalMeansNoColour) {
  ::testing::internal::CaptureStderr();  // stderr is a file now
  const LogOptions options = detect_terminal();
  ::testing::internal::GetCapturedStderr();
  EXPECT_FALSE(options.terminal);
  EXPECT_FALSE(options.color);
}

}  // namespace
}  // namespace hetsgd
