#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "core/host.hpp"
#include "experiment/sweep_folder.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd {
namespace {

namespace fs = std::filesystem;

class ClaimTest : public ::testing::Test {
 protected:
  // A lock without a holder, as an owner of that host has left it that long ago.
  void leave_behind(const std::string& host, double seconds_ago) const {
    fs::create_directories(folder_ / "locks");
    std::ofstream(path_) << "host " << host << " pid 1 since 2026-01-01T00:00:00Z\n";
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec -= static_cast<time_t>(seconds_ago);
    const std::array<timespec, 2> times = {now, now};
    ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times.data(), 0), 0);
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "locks/run.lock";
};

TEST_F(ClaimTest, OneOwnerAtATime) {
  auto claim = Claim::try_claim(path_);
  ASSERT_TRUE(claim);
  EXPECT_FALSE(Claim::try_claim(path_));
  claim.reset();
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_TRUE(Claim::try_claim(path_));
}

TEST_F(ClaimTest, TheOwnersEndGivesItBack) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto claim = Claim::try_claim(path_);
    ::_exit(claim ? 0 : 1);  // nothing is unwound, as with kill -9
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(fs::exists(path_));
  EXPECT_TRUE(Claim::try_claim(path_));
}

TEST_F(ClaimTest, AnotherHostsOwnerLivesWhileItsFileIsTouched) {
  leave_behind("elsewhere", 5);
  EXPECT_FALSE(Claim::try_claim(path_));
  EXPECT_TRUE(fs::exists(path_));
  leave_behind("elsewhere", 2 * Claim::kSilence.count());
  EXPECT_TRUE(Claim::try_claim(path_));
  leave_behind(host_name(), 0);
  EXPECT_TRUE(Claim::try_claim(path_));
}

TEST_F(ClaimTest, AHeartbeatIsSeen) {
  const auto claim = Claim::try_claim(path_);
  const auto before = fs::last_write_time(path_) - std::chrono::hours(1);
  fs::last_write_time(path_, before);
  claim->touch();
  EXPECT_GT(fs::last_write_time(path_), before);
}

}  // namespace
}  // namespace hetsgd
