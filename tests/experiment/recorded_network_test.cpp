// The network of a record: latency and bandwidth come back from calls whose costs are known.

#include "cluster/cluster.hpp"
#include "cluster/trace/trace.hpp"
#include "support/plain_cluster.hpp"
#include "support/recorded.hpp"
#include "training/replay/replay_profile.hpp"

namespace hetsgd::test {
namespace {

// 100 us and 1 GB/s between workers; 200 us and 500 MB/s each way to and from a service.
ClusterOptions known_network(int workers) {
  ClusterOptions options = plain_cluster(workers, 1e12, 1e11);
  options.host_threads = 1;
  options.network.latency = Seconds(1e-4);
  options.network.server_latency = Seconds(2e-4);
  options.network.server_bytes_per_s = 5e8;
  return options;
}

NetworkModel fitted(int workers, const std::function<void(Endpoint&)>& work) {
  Trace trace(TraceDetail::causes);
  make_cluster("sim", known_network(workers))->run([&](Endpoint& endpoint) {
    endpoint.note_calls(trace);
    work(endpoint);
  });
  Timeline timeline{.path = "traced", .workers = workers};
  for (const TraceLine* line : trace.lines()) timeline.processes.push_back(*line);
  const auto network = fit_recorded_network(timeline);
  EXPECT_TRUE(network);
  return network.value_or(NetworkModel());
}

// A ring over P workers takes 2 (P - 1) (latency + bytes / (P bandwidth)), and vectors of three
// lengths tell latency and bandwidth apart. A worker that comes late costs others only waiting.
TEST(RecordedNetwork, CollectivesGiveLatencyAndBandwidth) {
  for (const int workers : {2, 3, 4}) {
    SCOPED_TRACE(workers);
    const NetworkModel network = fitted(workers, [](Endpoint& endpoint) {
      for (const std::size_t length : {1'000, 60'000, 600'000}) {
        endpoint.sleep(Seconds(1e-3 * endpoint.rank()));
        std::vector<float> vector(length);
        endpoint.comm().all_reduce(std::span(vector));
      }
    });
    EXPECT_NEAR(network.latency.count(), 1e-4, 1e-10);
    EXPECT_NEAR(network.bytes_per_s, 1e9, 1e3);
  }
}

TEST(RecordedNetwork, MessagesGiveLatencyAndBandwidth) {
  const TemporaryFolder folder;
  std::string text =
      R"({"hetsgd_timeline":1,"config":{},"cluster":"threads","virtual":false,)"
      R"("clock_resolution_s":1e-9,"workers":2,"elapsed_s":9,"processes":[)"
      R"({"rank":0,"name":"worker 0","main":true},{"rank":1,"name":"worker 1","main":true}]})"
      "\n";
  // Message i of i MB is sent at i seconds and takes 10 ms + 5 ms per MB.
  for (int i = 1; i <= 3; ++i) {
    const double end = i + 0.01 + 0.005 * i;
    text += fmt::format(
        R"({{"p":0,"c":"communicate","n":"send","b":{},"e":{},"y":{},"k":"send","o":1}})"
        "\n"
        R"({{"p":1,"c":"communicate","n":"receive","b":{},"e":{},"y":{},"k":"receive","r":1,"o":0}})"
        "\n",
        i, end, i * 1'000'000, i - 0.5, end, i * 1'000'000);
  }
  const auto network =
      fit_recorded_network(read_timeline(folder.write("run.jsonl", text + "{\"lines\":6}\n")));
  ASSERT_TRUE(network);
  EXPECT_NEAR(network->latency.count(), 0.01, 1e-6);
  EXPECT_NEAR(network->bytes_per_s, 2e8, 1e4);
}

struct Ask {
  std::int32_t number = 0;
};
class Echo final : public Service<Ask, Ask> {
 public:
  void handle(int, const Ask& ask, std::span<const float> payload, Responder<Ask> reply) override {
    reply(ask, payload, Traffic::parameters);
  }
  Work work(const Ask&, std::size_t) const override { return {}; }
};

// A request and its answer take a latency each, and their payloads the bandwidth. The 8 bytes of
// Ask are in no record.
TEST(RecordedNetwork, RequestsGiveTheLinkOfTheServer) {
  const NetworkModel network = fitted(1, [](Endpoint& endpoint) {
    ServiceClient<Ask, Ask> echo(
        endpoint.open_service("echo", {[] { return std::make_unique<Echo>(); }}));
    for (const std::size_t length : {1'000, 60'000, 600'000}) {
      std::vector<float> vector(length);
      echo.call({}, vector, vector);
    }
  });
  EXPECT_NEAR(network.server_latency.count(), 2e-4, 1e-7);
  EXPECT_NEAR(network.server_bytes_per_s, 5e8, 5e4);
}

}  // namespace
}  // namespace hetsgd::test
