// Several device profiles in one run, and networks of nodes, as options and files say them.

#include "cluster/profile.hpp"
#include "core/error.hpp"
#include "support/failure.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd {
namespace {

using test::failure_of;
using test::TemporaryFile;

std::vector<std::string> names_of_profiles(const std::string& list, int workers) {
  std::vector<std::string> names;
  for (const DeviceProfile& profile : load_device_profiles(list, workers)) {
    names.push_back(profile.name);
  }
  return names;
}

TEST(ProfileList, IsInTheOrderOfRanks) {
  EXPECT_THAT(names_of_profiles("v100", 4), ElementsAre("v100"));  // the last repeats
  EXPECT_THAT(names_of_profiles("v100,a100", 4), ElementsAre("v100", "a100"));
  EXPECT_THAT(names_of_profiles("k80*2, v100 * 1,cpu", 4),
              ElementsAre("k80", "k80", "v100", "cpu"));
}

TEST(ProfileList, NamesItsFiles) {
  EXPECT_THAT(device_profile_names("v100*3,mine.json,cpu"),
              ElementsAre("v100", "mine.json", "cpu"));
  const TemporaryFolder folder;
  const std::string odd = folder.write("one,two*3.json", to_json_text(load_device_profile("k80")));
  EXPECT_THAT(device_profile_names(odd), ElementsAre(odd));
  EXPECT_THAT(names_of_profiles(odd, 1), ElementsAre("k80"));
}

TEST(ProfileList, ErrorsNameWhatIsWrong) {
  const auto failure = [](const std::string& list) {
    return failure_of([&] { load_device_profiles(list, 4); });
  };
  EXPECT_EQ(failure("v100*4,a100").message,
            "--profile: found 5 profiles for 4 workers, expected at most one for each");
  EXPECT_EQ(failure("v100*4,a100").hint, "set --workers 5");
  EXPECT_EQ(failure("v100*999999").message,
            "--profile: found 999999 profiles for 4 workers, expected at most one for each");
  EXPECT_EQ(failure("v100,a10").hint, "did you mean \"a100\"?");
  EXPECT_THAT(failure("v100*0").message, HasSubstr("--profile: found \"0\", expected"));
  EXPECT_THAT(failure("v100*x").message, HasSubstr("--profile: found \"x\", expected"));
  EXPECT_THAT(failure("v100,").message, HasSubstr("--profile: found \"\", expected"));
}

class NetworkFile : TemporaryFile {
 public:
  // `nodes`: what stands under this key; of a network with latencies of 1 s and 8 bytes/s.
  explicit NetworkFile(const std::string& nodes, const std::string& more = "")
      : TemporaryFile("nodes", R"({"name": "n", "latency_s": 1, "bytes_per_s": 8, )"
                               R"("server_latency_s": 1, "server_bytes_per_s": 8, "nodes": )" +
                                   nodes + more + "}") {}
  NetworkModel load() const { return load_network_model(path()); }
  std::string error() const {
    const std::string message = failure_of([&] { load(); }).message;
    EXPECT_EQ(message.rfind(path() + ": ", 0), 0U) << message;
    return message.substr(std::min(message.size(), path().size() + 2));
  }
};

TEST(NetworkNodes, AreReadAndWritten) {
  const NetworkFile file(R"([
    {"times": 3, "workers": 4, "inside": "nvlink2"},
    {"latency_s": 0.5, "bytes_per_s": 2},
    {"workers": 2, "own_links": true, "inside": {"latency_s": 0.25, "bytes_per_s": 4, "shared_bus": true}}])");
  const NetworkModel network = file.load();
  ASSERT_EQ(network.nodes.size(), 3U);
  const NetworkNode &first = network.nodes[0], &slow = network.nodes[1], &last = network.nodes[2];
  EXPECT_EQ(first.times, 3);
  EXPECT_EQ(first.workers, 4);
  EXPECT_FALSE(first.latency || first.bytes_per_s);
  EXPECT_EQ(first.inside->name, "nvlink2");
  EXPECT_EQ(first.inside->bytes_per_s, load_network_model("nvlink2").bytes_per_s);
  EXPECT_EQ(slow.times * slow.workers, 1);
  EXPECT_EQ(slow.latency, Seconds(0.5));
  EXPECT_EQ(slow.bytes_per_s, 2);
  EXPECT_FALSE(slow.inside);
  EXPECT_TRUE(last.inside->shared_bus);
  EXPECT_TRUE(last.own_links && !first.own_links);
  EXPECT_EQ(last.inside->latency, Seconds(0.25));
  // The written file is complete, and reads back as the same network.
  const std::string text = to_json_text(network);
  const TemporaryFile again("nodes_again", text);
  EXPECT_EQ(to_json_text(load_network_model(again.path())), text);
}

// Eight GPUs of 11 GB/s in four NICs, 250 GB/s inside.
TEST(NetworkNodes, TheDgxA100sGpusHaveLinksOfTheirOwn) {
  for (const char* name : {"dgx-a100", "dgx-a100-grpc"}) {
    const NetworkModel network = load_network_model(name);
    EXPECT_EQ(network.all_reduce, Topology::two_level);
    ASSERT_EQ(network.nodes.size(), 1U);
    EXPECT_EQ(network.nodes[0].workers, 8);
    EXPECT_TRUE(network.nodes[0].own_links);
    EXPECT_EQ(network.nodes[0].inside->bytes_per_s, 250e9);
    EXPECT_EQ(network.bytes_per_s, name == std::string("dgx-a100") ? 11e9 : 5e9);
  }
  EXPECT_EQ(load_network_model("dgx-a100-grpc").server_bytes_per_s, 640e9);
}

TEST(NetworkNodes, ErrorsNameTheNodeAndTheKey) {
  const auto error = [](const std::string& nodes) { return NetworkFile(nodes).error(); };
  EXPECT_EQ(error("[]"), "nodes: found [], expected a list of objects");
  EXPECT_EQ(error("[{}, 4]"), "nodes[1]: found 4, expected an object");
  EXPECT_EQ(error(R"([{"workers": 2}])"),
            "nodes[0].inside: found nothing, expected the network among the 2 workers of the node: "
            "a built-in name or an object");
  EXPECT_EQ(error(R"([{}, {"workers": 1.5}])"),
            "nodes[1].workers: found 1.5, expected a whole number from 1 to 1000000");
  EXPECT_EQ(error(R"([{"times": 0}])"),
            "nodes[0].times: found 0, expected a whole number from 1 to 1000000");
  EXPECT_THAT(error(R"([{"bytes_per_s": -1}])"), HasSubstr("nodes[0].bytes_per_s: found -1, exp"));
  EXPECT_THAT(error(R"([{"inside": "nvlink"}])"),
              HasSubstr("nodes[0].inside: found \"nvlink\", expected ethernet-10g, "));
  EXPECT_EQ(error(R"([{"workers": 2, "inside": {"latency_s": 1}}])"),
            "nodes[0].inside.bytes_per_s: found nothing, expected a number from 1 to 1e+30 "
            "bytes/s");
  EXPECT_THAT(error(R"([{"worker": 2}])"), HasSubstr("nodes[0]: found key \"worker\", expected"));
  EXPECT_THAT(NetworkFile("[{}]", R"(, "shared_bus": true)").error(),
              HasSubstr("nodes: found [{}], expected none with shared_bus"));
}

}  // namespace
}  // namespace hetsgd
