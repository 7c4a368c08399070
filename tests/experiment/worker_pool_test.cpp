#include "experiment/worker_pool.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "core/error.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd {
namespace {

class WorkerPoolTest : public ::testing::Test {
 protected:
  std::string log(std::size_t tag) const { return folder_ / std::to_string(tag); }
  std::string said(std::size_t tag) const { return read_file(log(tag)); }
  void start(std::size_t tag, std::function<int()> run) {
    pool_.start(tag, {.run = std::move(run), .command = {}, .log = log(tag)});
  }
  // The exit codes of all, by tag.
  std::map<std::size_t, int> wait_for_all() {
    std::map<std::size_t, int> codes;
    while (pool_.running() > 0) {
      if (const auto ended = pool_.wait(Seconds(1))) codes[ended->tag] = ended->exit_code;
    }
    return codes;
  }

  const TemporaryFolder folder_;
  WorkerPool pool_;
};

TEST_F(WorkerPoolTest, ExitCodesAndWords) {
  start(0, [] { return 0; });
  start(1, [] { return 6; });
  start(2, []() -> int { throw data_error("there is no such file"); });
  start(3, [] { return ::raise(SIGKILL); });
  pool_.start(4,
              {.run = nullptr, .command = {"/bin/sh", "-c", "echo hello; exit 3"}, .log = log(4)});
  pool_.start(5, {.run = nullptr, .command = {"/nowhere/program"}, .log = log(5)});
  EXPECT_EQ(wait_for_all(),
            (std::map<std::size_t, int>{{0, 0}, {1, 6}, {2, 4}, {3, 128 + 9}, {4, 3}, {5, 127}}));
  EXPECT_EQ(said(2), "error: there is no such file\n");
  EXPECT_EQ(said(4), "hello\n");
  EXPECT_EQ(said(5), "error: /nowhere/program: cannot be run: No such file or directory\n");
}

// A child does not see changes by an earlier child.
TEST_F(WorkerPoolTest, ChildrenShareWhatWasThereBefore) {
  int counter = 7;
  for (std::size_t i = 0; i < 3; ++i) start(i, [&] { return counter++; });
  EXPECT_EQ(wait_for_all(), (std::map<std::size_t, int>{{0, 7}, {1, 7}, {2, 7}}));
}

TEST_F(WorkerPoolTest, CommandsGetNoOptionsFromTheEnvironment) {
  ::setenv("HETSGD_EPOCHS", "9", 1);
  ::setenv("HETSGD_DATA_DIR", "/data", 1);
  pool_.start(0, {.run = nullptr,
                  .command = {"/bin/sh", "-c", "echo $HETSGD_EPOCHS $HETSGD_DATA_DIR"},
                  .log = log(0)});
  wait_for_all();
  ::unsetenv("HETSGD_EPOCHS");
  ::unsetenv("HETSGD_DATA_DIR");
  EXPECT_EQ(said(0), "/data\n");
}

TEST_F(WorkerPoolTest, StopEndsAll) {
  for (std::size_t i = 0; i < 3; ++i) {
    pool_.start(i, {.run = nullptr, .command = {"sleep", "1000"}, .log = log(i)});
  }
  pool_.stop();
  EXPECT_EQ(pool_.running(), 0U);
}

}  // namespace
}  // namespace hetsgd
