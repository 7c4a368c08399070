#include "core/core_map.hpp"

#include "core/host.hpp"

namespace hetsgd {
namespace {

using testing::ElementsAre;

// Two sockets of four cores; core c has the hardware threads c and c + 8, as Linux numbers them.
const CoreMap& two_sockets() {
  static const CoreMap map(
      "pack:2 [numa] core:4 pu:2(indexes=0,8,1,9,2,10,3,11,4,12,5,13,6,14,7,15)");
  return map;
}

TEST(CoreMap, WholeCoresComeBeforeSiblings) {
  const CoreOrder order =
      two_sockets().in_order({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  EXPECT_THAT(order.cores, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_THAT(order.physical, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7));
  const CoreOrder adjacent = CoreMap("pack:1 core:3 pu:2").in_order({0, 1, 2, 3, 4, 5});
  EXPECT_THAT(adjacent.cores, ElementsAre(0, 2, 4, 1, 3, 5));
  EXPECT_THAT(adjacent.physical, ElementsAre(0, 2, 4, 0, 2, 4));
}

TEST(CoreMap, OfACoreMayOnlyTheSiblingBeGiven) {
  const CoreOrder order = two_sockets().in_order({1, 5, 8, 9, 13});
  EXPECT_THAT(order.cores, ElementsAre(8, 1, 5, 9, 13));
  EXPECT_THAT(order.physical, ElementsAre(0, 1, 5, 1, 5));
}

// The system may number cores alternately: by socket, by NUMA node or by L3 cache.
TEST(CoreMap, NeighboursFollowEachOther) {
  for (const char* level : {"pack:2", "pack:1 group:2 [numa]", "pack:1 l3:2"}) {
    const CoreMap map(fmt::format("{} core:2 pu:1(indexes=0,2,1,3)", level));
    EXPECT_THAT(map.in_order({0, 1, 2, 3}).cores, ElementsAre(0, 2, 1, 3)) << level;
  }
}

// Cores 0 and 1 are slow ones, 2 is a fast one with two hardware threads.
constexpr const char* kHybrid = R"(<topology version="2.0">
<object type="Machine" os_index="0" cpuset="0xf" complete_cpuset="0xf" allowed_cpuset="0xf"
 nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1">
<object type="NUMANode" os_index="0" cpuset="0xf" complete_cpuset="0xf" nodeset="0x1"
 complete_nodeset="0x1"/>
<object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1"
 complete_nodeset="0x1"><object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1"
 nodeset="0x1" complete_nodeset="0x1"/></object>
<object type="Core" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1"
 complete_nodeset="0x1"><object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2"
 nodeset="0x1" complete_nodeset="0x1"/></object>
<object type="Core" os_index="2" cpuset="0xc" complete_cpuset="0xc" nodeset="0x1"
 complete_nodeset="0x1"><object type="PU" os_index="2" cpuset="0x4" complete_cpuset="0x4"
 nodeset="0x1" complete_nodeset="0x1"/><object type="PU" os_index="3" cpuset="0x8"
 complete_cpuset="0x8" nodeset="0x1" complete_nodeset="0x1"/></object>
</object>
<cpukind cpuset="0x3" forced_efficiency="0"><info name="CoreType" value="IntelAtom"/></cpukind>
<cpukind cpuset="0xc" forced_efficiency="1"/>
</topology>)";

TEST(CoreMap, FastCoresComeFirst) {
  const CoreMap map(kHybrid);
  EXPECT_THAT(map.in_order({0, 1, 2, 3}).cores, ElementsAre(2, 0, 1, 3));
  EXPECT_EQ(topology_text(map.topology()),
            "0 sockets, 1 NUMA node, 3 cores, 2 threads per core, 1 core of efficiency 1, 2 cores "
            "of IntelAtom (hwloc)");
  ASSERT_EQ(map.topology().kinds.size(), 2U);
  EXPECT_EQ(map.topology().kinds[0].threads, 2);
}

TEST(CoreMap, CountsWhatThereIs) {
  EXPECT_THAT(topology_text(two_sockets().topology()),
              testing::StartsWith("2 sockets, 2 NUMA nodes, 8 cores, 2 threads per core (hwloc"));
  EXPECT_THAT(topology_text(CoreMap("pack:1 core:1 pu:1").topology()),
              testing::StartsWith("1 socket, 1 NUMA node, 1 core, 1 thread per core (hwloc"));
  EXPECT_TRUE(two_sockets().topology().kinds.empty());
}

TEST(CoreMap, WithoutATopologyCoresKeepTheirOrder) {
  const CoreMap map("pack:x");
  EXPECT_EQ(map.topology().cores, 0);
  EXPECT_EQ(topology_text(map.topology()), "unknown: hwloc cannot read it (Invalid argument)");
  const CoreOrder order = map.in_order({1, 4, 5});
  EXPECT_THAT(order.cores, ElementsAre(1, 4, 5));
  EXPECT_THAT(order.physical, ElementsAre(1, 4, 5));
  // One that the topology lacks comes after those that it has, and before siblings.
  EXPECT_THAT(CoreMap("pack:1 core:1 pu:2").in_order({0, 1, 7}).cores, ElementsAre(0, 7, 1));
}

TEST(CoreMap, ThisMachineHasTheCoresOfThisProcess) {
  CoreOrder order = machine_cores().in_order(available_cores());
  std::ranges::sort(order.cores);
  EXPECT_EQ(order.cores, available_cores());
  EXPECT_GE(machine_cores().topology().cores, 1) << machine_cores().topology().source;
}

}  // namespace
}  // namespace hetsgd
