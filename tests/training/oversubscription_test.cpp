#include "training/oversubscription.hpp"

#include "cluster/devices.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd {
namespace {

namespace fs = std::filesystem;

TEST(Oversubscription, SaysHowManyCoresAreMissing) {
  EXPECT_EQ(oversubscription_of({.host = "", .workers = 2, .wanted = 4, .available = 4}), "");
  EXPECT_EQ(oversubscription_of({.host = "red", .workers = 4, .wanted = 8, .available = 2}),
            "red: 4 workers need 8 cores and may use 2, so they take turns, and the times of this "
            "run are not valid");
  EXPECT_THAT(oversubscription_of({.host = "", .workers = 2, .wanted = 2, .available = 1.5}),
              HasSubstr("may use 1.5,"));
}

TEST(Oversubscription, SaysHowManyWorkersShareAPhysicalCore) {
  EXPECT_EQ(
      oversubscription_of(
          {.host = "red", .workers = 3, .wanted = 3, .available = 4, .physical = 2, .sharing = 2}),
      "red: 2 of 3 workers share physical cores (2 in all) with others, so they slow each other "
      "down, and the times of this run are not valid; use fewer workers or smaller --devices");
}

TEST(Oversubscription, IsSeenOnThreads) {
  const auto cores = static_cast<int>(available_cores().size());
  ClusterOptions options;
  options.workers = cores + 1;
  const auto oversubscribed = oversubscription_warnings(*make_cluster("threads", options));
  ASSERT_EQ(oversubscribed.size(), 1U);
  EXPECT_THAT(oversubscribed[0], HasSubstr(fmt::format("{0} workers need {0} cores", cores + 1)));
  if (cpu_quota() < 1) return;
  options.workers = 1;
  EXPECT_TRUE(oversubscription_warnings(*make_cluster("threads", options)).empty());
}

TEST(HostLoad, SlowsDownWhereItWantsMoreThanTheIdleCores) {
  EXPECT_FALSE((HostLoad{.start = 2, .idle_cores = 2}).slows_down());
  EXPECT_FALSE((HostLoad{.start = 0, .end = 0.4, .idle_cores = 0}).slows_down());
  EXPECT_TRUE((HostLoad{.start = 3, .idle_cores = 2}).slows_down());
  EXPECT_TRUE((HostLoad{.start = 0, .end = 3, .idle_cores = 2}).slows_down());
}

TEST(HostLoad, IsLookedAtTheStartAndTheEnd) {
  ClusterOptions options;
  options.workers = 1;
  if (!fs::exists("/proc/loadavg")) GTEST_SKIP() << "the system does not say it";
  std::optional<HostLoad> load = host_load(*make_cluster("threads", options));
  ASSERT_TRUE(load);
  EXPECT_FALSE(load->end);
  load->start = load->idle_cores + 1;
  EXPECT_THAT(finish_host_load({}, *load, "these steps"),
              testing::AllOf(HasSubstr("other programs ran on this host"),
                             HasSubstr("the times of these steps are not valid")));
  EXPECT_TRUE(load->end);
}

class Quota : public testing::Test {
 protected:
  double quota() const { return cpu_quota(root_.path()); }
  const TemporaryFolder root_;
};

TEST_F(Quota, WithoutFilesThereIsNone) { EXPECT_EQ(quota(), INFINITY); }

TEST_F(Quota, IsTheLeastOfTheGroupsAbove) {
  root_.write("proc/self/cgroup", "0::/job/step\n");
  root_.write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), INFINITY);
  root_.write("sys/fs/cgroup/job/cpu.max", "250000 100000\n");
  EXPECT_EQ(quota(), 2.5);
  root_.write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(Quota, OfTheFirstVersion) {
  root_.write("proc/self/cgroup", "7:memory:/job\n4:cpu,cpuacct:/job\n");
  root_.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n");
  root_.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 1.5);
  root_.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota(), INFINITY);
}

}  // namespace
}  // namespace hetsgd
