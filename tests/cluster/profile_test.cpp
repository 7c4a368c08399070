#include "cluster/profile.hpp"

#include "core/error.hpp"
#include "support/failure.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd {
namespace {

using test::Failure;
using test::failure_of;

struct File : test::TemporaryFile {
  explicit File(const std::string& text) : TemporaryFile("profile", text) {}
};

TEST(DeviceProfile, ChargesLaunchesOperationsAndBytes) {
  DeviceProfile profile;
  profile.launch_overhead_s = 1e-5;
  profile.operations_per_s = 1e12;
  profile.bytes_per_s = 1e11;
  EXPECT_DOUBLE_EQ(profile.seconds({.operations = 2e9, .bytes = 3e8, .launches = 7}).count(),
                   7e-5 + 2e-3 + 3e-3);
  EXPECT_EQ(profile.seconds({}).count(), 0.0);
}

// A step with products in BF16 has its own rate of operations, or that of FP32.
TEST(DeviceProfile, StepsInBf16HaveTheirOwnRate) {
  DeviceProfile profile;
  profile.launch_overhead_s = 1;
  profile.operations_per_s = 4;
  profile.bytes_per_s = 8;
  const Work work{.operations = 64, .bytes = 24, .launches = 2};
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    EXPECT_EQ(profile.seconds(work, precision).count(), 2 + 16 + 3.0);
  }
  profile.bf16_operations_per_s = 32;
  EXPECT_EQ(profile.seconds(work).count(), 2 + 16 + 3.0);
  EXPECT_EQ(profile.seconds(work, Precision::tf32).count(), 2 + 16 + 3.0);
  EXPECT_EQ(profile.seconds(work, Precision::bf16).count(), 2 + 2 + 3.0);
}

TEST(DeviceProfile, AGpuHasTheBuiltinProfileOfItsName) {
  EXPECT_EQ(builtin_profile_of("cuda:0 (NVIDIA H200)"), "h200");
  EXPECT_EQ(builtin_profile_of("cuda:1 (NVIDIA GeForce GTX 1080 Ti)"), "gtx-1080ti");
  EXPECT_EQ(builtin_profile_of("Tesla V100-SXM2-32GB"), "v100");
  EXPECT_EQ(builtin_profile_of("Tesla V100-PCIE-16GB"), "v100-pcie");
  EXPECT_EQ(builtin_profile_of("NVIDIA TITAN X (Pascal)"), "titan-x-pascal");
  for (const char* other : {"NVIDIA RTX A1000", "NVIDIA GH200 480GB", "emulated GPU", ""}) {
    EXPECT_EQ(builtin_profile_of(other), std::nullopt) << other;
  }
}

TEST(DeviceProfile, SaturationHoldsItsLastValue) {
  DeviceProfile profile;
  EXPECT_EQ(profile.throughput(1), 1.0);
  EXPECT_EQ(profile.throughput(9), 1.0);
  profile.saturation = {1, 1.3, 1.4};
  EXPECT_EQ(profile.throughput(2), 1.3);
  EXPECT_EQ(profile.throughput(4), 1.4);
  EXPECT_THROW(profile.throughput(0), CheckFailure);
}

// m learners take m times as long as one, minus the gain of running at once.
TEST(DeviceProfile, LearnersShareTheDevice) {
  DeviceProfile profile;
  profile.launch_overhead_s = 1e-5;
  profile.operations_per_s = 1e12;
  profile.bytes_per_s = 1e11;
  profile.saturation = {1, 1.25, 1.5};
  Work work{.operations = 2e9, .bytes = 3e8, .launches = 7};
  const double one = profile.seconds(work).count();
  work.learners = 2;
  EXPECT_DOUBLE_EQ(profile.seconds(work).count(), one * 2 / 1.25);
  work.learners = 6;
  EXPECT_DOUBLE_EQ(profile.seconds(work).count(), one * 6 / 1.5);
}

// Copies between the device's memory and the host's take time if the two are separate.
TEST(DeviceProfile, TheHostLinkIsCharged) {
  DeviceProfile profile;
  profile.launch_overhead_s = 1;
  profile.operations_per_s = profile.bytes_per_s = kUnlimitedPerSecond;
  const Work work = Work{.launches = 2, .host_link_bytes = 5} + Work{.host_link_bytes = 7};
  EXPECT_EQ(profile.seconds(work).count(), 2);
  profile.host_link_bytes_per_s = 4;
  EXPECT_EQ(profile.seconds(work).count(), 2 + 12.0 / 4);
  for (const std::string& name : builtin_device_profiles()) {
    const bool host = name == "cpu" || name.starts_with("xeon");
    EXPECT_EQ(load_device_profile(name).host_link_bytes_per_s.has_value(), !host) << name;
  }
}

// latency + bytes / rate; a CPU computes in the host's memory.
TEST(DeviceProfile, ACopyToTheHostStartsWithALatency) {
  DeviceProfile profile;
  EXPECT_TRUE(profile.in_host_memory());
  EXPECT_EQ(profile.copy_seconds(1e9), Seconds(0));
  profile.host_link_bytes_per_s = 4;
  EXPECT_FALSE(profile.in_host_memory());
  EXPECT_DOUBLE_EQ(profile.copy_seconds(8).count(), 2 + kHostLinkLatencySeconds);
  profile.host_link_latency_s = 3;
  EXPECT_EQ(profile.copy_seconds(8), Seconds(5));
  EXPECT_EQ(kHostLinkLatencySeconds, load_network_model("pcie3").latency.count());
  EXPECT_EQ(load_device_profile("titan-x-maxwell").host_link_latency_s, 0);
}

// Scattered rows have a rate of their own, or the memory's; those of the host are free without one.
TEST(DeviceProfile, GathersAreCharged) {
  DeviceProfile profile;
  profile.operations_per_s = kUnlimitedPerSecond;
  profile.bytes_per_s = 8;
  const Work work = Work{.gather_bytes = 12, .host_gather_bytes = 5} + Work{.gather_bytes = 4};
  EXPECT_EQ(profile.seconds(work).count(), 16 / 8.0);
  profile.gather_bytes_per_s = 4;
  EXPECT_EQ(profile.seconds(work).count(), 16 / 4.0);
  profile.host_gather_bytes_per_s = 2;
  EXPECT_EQ(profile.seconds(work).count(), 16 / 4.0 + 5 / 2.0);
  const DeviceProfile a100 = load_device_profile("a100");
  EXPECT_EQ(a100.gather_bytes_per_s, 1555e9 / 2);
  EXPECT_EQ(a100.host_gather_bytes_per_s, 25e9);
}

TEST(DeviceProfile, BuiltinOnesAreComplete) {
  EXPECT_THAT(builtin_device_profiles(), Contains("v100"));
  EXPECT_THAT(builtin_device_profiles(), Contains("cpu"));
  for (const std::string& name : builtin_device_profiles()) {
    const DeviceProfile profile = load_device_profile(name);
    EXPECT_EQ(profile.name, name);
    EXPECT_GT(profile.source.size(), 40U) << name;
    EXPECT_GT(profile.launch_overhead_s, 0) << name;
    EXPECT_GT(profile.memory_bytes, 1e9) << name;
    EXPECT_EQ(profile.saturation.front(), 1.0) << name;
    // Any device is between a slow core and a thousand times that.
    EXPECT_GT(profile.operations_per_s, 1e10) << name;
    EXPECT_LT(profile.operations_per_s, 1e14) << name;
    EXPECT_GT(profile.bytes_per_s, 1e9) << name;
    EXPECT_LT(profile.bytes_per_s, 1e13) << name;
  }
}

TEST(DeviceProfile, TheV100sNumbersFollowFromItsSource) {
  const DeviceProfile v100 = load_device_profile("v100");
  EXPECT_NEAR(v100.operations_per_s, 0.7 * 15.7e12, 0.005 * 11e12);
  EXPECT_NEAR(v100.bytes_per_s, 0.8 * 900e9, 1e9);
  EXPECT_EQ(v100.launch_overhead_s, 1e-5);
}

TEST(DeviceProfile, WritesWhatItReads) {
  DeviceProfile profile = load_device_profile("titan-x-pascal");
  profile.name = "mine \"1\"";
  profile.launch_overhead_s = 1.0 / 3;
  profile.bf16_operations_per_s = 2e13 / 3;
  const File file(to_json_text(profile));
  const DeviceProfile again = load_device_profile(file.path());
  EXPECT_EQ(to_json_text(again), to_json_text(profile));
  EXPECT_EQ(again.launch_overhead_s, 1.0 / 3);
  EXPECT_EQ(again.bf16_operations_per_s, 2e13 / 3);
  EXPECT_EQ(again.saturation, profile.saturation);
  EXPECT_EQ(again.host_link_bytes_per_s, 1.2e10);
  const File cpu(to_json_text(load_device_profile("cpu")));
  EXPECT_EQ(load_device_profile(cpu.path()).host_link_bytes_per_s, std::nullopt);
}

TEST(DeviceProfile, UnknownNamesGetASuggestion) {
  const Failure failure = failure_of([] { load_device_profile("v10"); });
  EXPECT_EQ(failure.code, ExitCode::usage);
  EXPECT_THAT(failure.message,
              testing::StartsWith("--profile: found \"v10\", expected a100, cpu, "));
  EXPECT_THAT(failure.message, testing::EndsWith(" or a JSON file"));
  EXPECT_EQ(failure.hint, "did you mean \"v100\"?");
  EXPECT_EQ(failure_of([] { load_network_model("pci3"); }).hint, "did you mean \"pcie3\"?");
  EXPECT_THAT(failure_of([] { load_device_profile("/none/p.json"); }).message,
              testing::StartsWith("/none/p.json: cannot open the JSON file for --profile: "));
}

TEST(DeviceProfile, ErrorsNameFileKeyFoundAndExpected) {
  const auto expect = [](const std::string& text, const std::string& message,
                         const std::string& hint = "") {
    const File file(text);
    const Failure failure = failure_of([&] { load_device_profile(file.path()); });
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_EQ(failure.message, file.path() + message);
    EXPECT_EQ(failure.hint, hint);
  };
  expect("[1]", ": found [1], expected a JSON object");
  expect("{}", ": name: found nothing, expected a text");
  expect("{\"name\":\"x\"}",
         ": launch_overhead_s: found nothing, expected a number from 0 to 1000000 s");
  expect("{\"operation_per_s\":1}",
         ": found key \"operation_per_s\", expected name, source, launch_overhead_s, "
         "operations_per_s, bytes_per_s, memory_bytes, saturation, host_link_bytes_per_s, "
         "host_link_latency_s, gather_bytes_per_s, host_gather_bytes_per_s, least_step_s, "
         "bf16_operations_per_s or convolution",
         "did you mean \"operations_per_s\"?");
}

// Costs at the edge of double would become infinite, or nothing, somewhere on the way.
TEST(DeviceProfile, EveryValueHasItsRangeAndUnit) {
  const auto expect = [](bool network, const char* key, const char* value,
                         const std::string& expected) {
    nlohmann::json json =
        nlohmann::json::parse(network ? to_json_text(load_network_model("pcie3"))
                                      : to_json_text(load_device_profile("v100")));
    json[key] = nlohmann::json::parse(value);
    const File file(json.dump());
    const Failure failure = failure_of([&] {
      if (network) {
        load_network_model(file.path());
      } else {
        load_device_profile(file.path());
      }
    });
    EXPECT_EQ(failure.message, fmt::format("{}: {}: found {}, expected {}", file.path(), key,
                                           json[key].dump(), expected));
  };
  const std::string rate = "a number from 1 to 1e+30 ";
  for (const char* edge : {"1e308", "1e-308", "-1"}) {
    expect(false, "operations_per_s", edge, rate + "operations/s");
    for (const bool network : {false, true}) expect(network, "bytes_per_s", edge, rate + "bytes/s");
    expect(true, "server_bytes_per_s", edge, rate + "bytes/s");
    expect(false, "saturation", ("[1," + std::string(edge) + "]").c_str(),
           "a list of numbers from 1e-06 to 1000000");
  }
  expect(false, "operations_per_s", "\"1e12\"", rate + "operations/s");
  expect(false, "saturation", "[]", "a list of numbers from 1e-06 to 1000000");
  expect(false, "launch_overhead_s", "1e7", "a number from 0 to 1000000 s");
  expect(false, "host_link_bytes_per_s", "0", rate + "bytes/s");
  expect(false, "memory_bytes", "1e19", "a number from 0 to 1e+18 bytes");
  expect(true, "latency_s", "1e308", "a number from 0 to 1000000 s");
  expect(true, "server_latency_s", "1e308", "a number from 0 to 1000000 s");
  expect(true, "all_reduce", "\"rings\"", "ring, tree, halving_doubling, star or two_level");
  expect(true, "shared_bus", "1", "true or false");
}

NetworkModel network(Topology topology, bool shared_bus = false) {
  NetworkModel model;
  model.latency = 1ms;
  model.bytes_per_s = 1000;
  model.server_latency = 3ms;
  model.server_bytes_per_s = 500;
  model.shared_bus = shared_bus;
  model.all_reduce = topology;
  return model;
}

// Latencies of 1 ms and transfers of 120 bytes at 1,000 bytes/s: one vector takes 0.12 s.
double all_reduce_s(Topology topology, int p, bool shared_bus = false) {
  return network(topology, shared_bus).all_reduce_cost(p, 120).count();
}

TEST(NetworkModel, AllReduceCosts) {
  EXPECT_DOUBLE_EQ(all_reduce_s(Topology::ring, 4), 6 * (1e-3 + 0.03));
  EXPECT_DOUBLE_EQ(all_reduce_s(Topology::ring, 3), 4 * (1e-3 + 0.04));
  EXPECT_DOUBLE_EQ(all_reduce_s(Topology::tree, 4), 4 * (1e-3 + 0.12));
  EXPECT_DOUBLE_EQ(all_reduce_s(Topology::tree, 5), 6 * (1e-3 + 0.12));
  EXPECT_DOUBLE_EQ(all_reduce_s(Topology::halving_doubling, 4), 2 * (2e-3 + 0.75 * 0.12));
  // Five: one extra is folded in (one step, one vector), four halve, the extra gets its copy.
  EXPECT_DOUBLE_EQ(all_reduce_s(Topology::halving_doubling, 5), 2 * (3e-3 + 1.75 * 0.12));
  EXPECT_DOUBLE_EQ(all_reduce_s(Topology::star, 4), 2 * (3e-3 + 4 * 120 / 500.0));
}

TEST(NetworkModel, SharedBusCarriesTheBytesOfAll) {
  // Latencies stay; the transfers of one step follow each other.
  EXPECT_DOUBLE_EQ(all_reduce_s(Topology::ring, 4, true), 6 * (1e-3 + 0.12));
  EXPECT_DOUBLE_EQ(all_reduce_s(Topology::tree, 4, true), 2 * (2e-3 + 3 * 0.12));
  EXPECT_DOUBLE_EQ(all_reduce_s(Topology::halving_doubling, 4, true), 2 * (2e-3 + 3 * 0.12));
  EXPECT_DOUBLE_EQ(all_reduce_s(Topology::halving_doubling, 6, true), 2 * (3e-3 + (3 + 2) * 0.12));
  EXPECT_DOUBLE_EQ(all_reduce_s(Topology::star, 4, true), 2 * (3e-3 + 4 * 120 / 500.0));
  // On a bus the transfer time is the total of all bytes sent, whatever the topology.
  for (const Topology t : {Topology::ring, Topology::tree, Topology::halving_doubling}) {
    for (int p = 2; p <= 17; ++p) {
      NetworkModel bus = network(t, true);
      bus.latency = Seconds(0);
      EXPECT_NEAR(bus.all_reduce_cost(p, 120).count(), p * bus.all_reduce_bytes_sent(p, 120) / 1000,
                  1e-12)
          << p;
    }
  }
}

TEST(NetworkModel, OtherCollectives) {
  const NetworkModel link = network(Topology::ring), bus = network(Topology::ring, true);
  EXPECT_DOUBLE_EQ(link.broadcast_cost(5, 1).count(), 3 * (1e-3 + 0.001));
  EXPECT_DOUBLE_EQ(bus.broadcast_cost(5, 120).count(), 3e-3 + 4 * 0.12);
  EXPECT_DOUBLE_EQ(link.all_gather_cost(4, 30).count(), 3 * (1e-3 + 0.03));
  EXPECT_DOUBLE_EQ(bus.all_gather_cost(4, 30).count(), 3 * (1e-3 + 0.12));
  EXPECT_DOUBLE_EQ(link.reduce_scatter_cost(4, 120).count(), 3 * (1e-3 + 0.03));
  EXPECT_DOUBLE_EQ(bus.reduce_scatter_cost(4, 120).count(), 3 * (1e-3 + 0.12));
  EXPECT_DOUBLE_EQ(link.barrier_cost(8).count(), 3e-3);
  EXPECT_DOUBLE_EQ(link.barrier_cost(9).count(), 4e-3);
  // A ring all_reduce is a reduce_scatter and an all_gather.
  EXPECT_NEAR(link.all_reduce_cost(4, 120).count(),
              (link.reduce_scatter_cost(4, 120) + link.all_gather_cost(4, 30)).count(), 1e-15);
}

// A tree takes d (L + n/B), slices p L + 2(p-1)/p n/B. With L = 1 ms, B = 1,000 bytes/s and p = 5
// the tree is faster up to (p - d) L B / (d - 2(p-1)/p) = 2 / 1.4 bytes.
TEST(NetworkModel, LongVectorsAreBroadcastInSlices) {
  const NetworkModel link = network(Topology::ring);
  EXPECT_DOUBLE_EQ(link.broadcast_cost(5, 120).count(), 5e-3 + 1.6 * 0.12);
  EXPECT_FALSE(link.broadcast_scatters(5, 1.42));
  EXPECT_TRUE(link.broadcast_scatters(5, 1.43));
  EXPECT_FALSE(link.broadcast_scatters(2, 1e9));  // one message does it
  EXPECT_FALSE(network(Topology::ring, true).broadcast_scatters(5, 1e9));
  // 7 ranks, a long vector: 12/7 transfers for 3.
  EXPECT_NEAR(link.broadcast_cost(7, 1e9).count() / 1e6, 12.0 / 7, 1e-6);
}

TEST(NetworkModel, OneWorkerPaysNothing) {
  for (const Topology t :
       {Topology::ring, Topology::tree, Topology::halving_doubling, Topology::star}) {
    const NetworkModel model = network(t);
    EXPECT_EQ(model.all_reduce_cost(1, 1e9).count(), 0.0);
    EXPECT_EQ(model.broadcast_cost(1, 1e9).count(), 0.0);
    EXPECT_EQ(model.all_gather_cost(1, 1e9).count(), 0.0);
    EXPECT_EQ(model.reduce_scatter_cost(1, 1e9).count(), 0.0);
    EXPECT_EQ(model.barrier_cost(1).count(), 0.0);
    EXPECT_EQ(model.all_reduce_bytes_sent(1, 1e9), 0.0);
    EXPECT_THROW(model.all_reduce_cost(0, 1), CheckFailure);
  }
}

TEST(NetworkModel, BytesSentPerRank) {
  EXPECT_DOUBLE_EQ(network(Topology::ring).all_reduce_bytes_sent(4, 120), 180);
  EXPECT_DOUBLE_EQ(network(Topology::tree).all_reduce_bytes_sent(2, 120), 120);
  // Five workers: four halve and double (2 * 3/4 * 120 each), one sends its vector and gets the
  // result from another.
  EXPECT_DOUBLE_EQ(network(Topology::halving_doubling).all_reduce_bytes_sent(5, 120),
                   (4 * 180 + 120 + 120) / 5.0);
  EXPECT_DOUBLE_EQ(network(Topology::star).all_reduce_bytes_sent(5, 120), 120);
}

TEST(NetworkModel, BuiltinOnesAreComplete) {
  for (const char* name : {"pcie3", "nvlink2", "ethernet-1g", "ethernet-10g", "infiniband-edr",
                           "shared-memory", "ideal", "dgx-a100", "dgx-a100-grpc"}) {
    EXPECT_THAT(builtin_network_models(), Contains(name));
  }
  for (const std::string& name : builtin_network_models()) {
    const NetworkModel model = load_network_model(name);
    EXPECT_EQ(model.name, name);
    EXPECT_GT(model.source.size(), 40U) << name;
    EXPECT_GE(model.latency, model.name == "ideal" ? 0s : 1us) << name;
    EXPECT_GT(model.bytes_per_s, 1e8) << name;
    EXPECT_GT(model.server_bytes_per_s, 1e8) << name;
    const File file(to_json_text(model));
    EXPECT_EQ(to_json_text(load_network_model(file.path())), to_json_text(model));
  }
  NetworkModel measured = load_network_model("shared-memory");
  measured.wake = Seconds(3e-5);
  measured.poll = Seconds(2e-4);
  measured.poll_core_share = 0.125;
  const File file(to_json_text(measured));
  const NetworkModel again = load_network_model(file.path());
  EXPECT_EQ(again.wake, measured.wake);
  EXPECT_EQ(again.poll, measured.poll);
  EXPECT_EQ(again.poll_core_share, measured.poll_core_share);
  EXPECT_LT(load_network_model("ideal").all_reduce_cost(1000, 1e9).count(), 1e-8);
  EXPECT_EQ(load_network_model("pcie3").bytes_per_s, 12e9);
  EXPECT_EQ(load_network_model("pcie3").latency, 10us);
}

}  // namespace
}  // namespace hetsgd
