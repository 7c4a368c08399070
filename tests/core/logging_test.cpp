#include "core/logging.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

namespace hetsgd {
namespace {

std::string said(const TalkOptions& options, const std::function<void()>& talk) {
  ::testing::internal::CaptureStderr();
  start_talking(options);
  talk();
  start_talking({});
  return ::testing::internal::GetCapturedStderr();
}

void everything() {
  note("a {}", 1);
  warn("b {}", 2);
  talk(TalkLevel::error, "c");
  show_status("d");
}

TEST(Talk, NamesTheLevel) { EXPECT_EQ(said({}, everything), "a 1\nwarning: b 2\nerror: c\nd\n"); }

TEST(Talk, QuietKeepsWarningsAndErrors) {
  EXPECT_EQ(said({.quiet = true}, everything), "warning: b 2\nerror: c\n");
}

TEST(Talk, ColoursTheWordOnly) {
  EXPECT_EQ(said({.color = true}, [] { warn("b"); }), "\033[1;33mwarning:\033[0m b\n");
}

// The status line is erased, the message written, the line drawn again; "" takes it away.
TEST(Talk, TheStatusLineStaysBelowMessages) {
  const std::string text = said({.terminal = true}, [] {
    show_status("50%");
    note("half");
    show_status("");
    note("done");
  });
  EXPECT_EQ(text, "\r\033[K50%\r\033[Khalf\n50%\r\033[Kdone\n");
}

TEST(Talk, WithoutATerminalAnEmptyStatusPrintsNothing) {
  EXPECT_EQ(said({}, [] { show_status(""); }), "");
}

TEST(Talk, NoTerminalMeansNoColour) {
  ::testing::internal::CaptureStderr();  // stderr is a file now
  const TalkOptions options = detect_terminal();
  ::testing::internal::GetCapturedStderr();
  EXPECT_FALSE(options.terminal);
  EXPECT_FALSE(options.color);
}

}  // namespace
}  // namespace hetsgd
