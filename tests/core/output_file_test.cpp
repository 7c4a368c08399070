// Ownership of temporary files: a sweep removes only files that no process is still writing.
#include "core/output_file.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include "support/temporary_file.hpp"

namespace hetsgd::test {
namespace {

std::string temporary_in(const TemporaryFolder& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() == ".tmp") return entry.path().string();
  }
  return "";
}

TEST(TemporaryWriter, IsAliveWhileItRunsAlone) {
  const TemporaryFolder folder;
  {
    const OutputFile own(folder / "own.json");
    EXPECT_EQ(writer_of(temporary_in(folder)), TemporaryWriter::alive);
  }
  const pid_t child = fork();
  if (child == 0) {
    const OutputFile left(folder / "left.json");
    _exit(0);
  }
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  const std::string left = temporary_in(folder);
  // Nobody has waited for it yet, so the system still has its number.
  EXPECT_EQ(writer_of(left), TemporaryWriter::dead);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(writer_of(left), TemporaryWriter::dead);
}

TEST(TemporaryWriter, IsReadFromTheNameAlone) {
  EXPECT_EQ(writer_of("a/result.json"), TemporaryWriter::none);
  EXPECT_EQ(writer_of("a/result.json.tmp"), TemporaryWriter::none);
  EXPECT_EQ(writer_of("a/result.json.b6289fbd-x-0.tmp"), TemporaryWriter::none);
  EXPECT_EQ(writer_of("a/result.json.elsewhere-1-0.tmp"), TemporaryWriter::unknown);
}

}  // namespace
}  // namespace hetsgd::test
