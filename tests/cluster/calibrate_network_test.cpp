#include "cluster/calibrate_network.hpp"

#include "support/failure.hpp"

namespace hetsgd {
namespace {

constexpr std::size_t kNetworkSizes[] = {64, 4096, 65'536, 1 << 20, 16 << 20};

NetworkModel network(double latency_s, double bytes_per_s, double server_latency_s,
                     double server_bytes_per_s) {
  NetworkModel model;
  model.latency = Seconds(latency_s);
  model.bytes_per_s = bytes_per_s;
  model.server_latency = Seconds(server_latency_s);
  model.server_bytes_per_s = server_bytes_per_s;
  return model;
}

std::vector<NetworkSample> samples_of(const NetworkModel& model, int workers) {
  std::vector<NetworkSample> samples;
  for (const NetworkCall call : {NetworkCall::all_reduce, NetworkCall::service}) {
    for (const std::size_t bytes : kNetworkSizes) {
      samples.push_back({call, bytes, workers, Seconds(0)});
      samples.back().time = predicted(model, samples.back());
    }
  }
  return samples;
}

TEST(CalibrateNetwork, RecoversAnExactNetwork) {
  for (const int workers : {2, 3, 8}) {
    const NetworkModel truth = network(3e-6, 4e9, 5e-6, 2e9);
    const NetworkFit fit = fit_network_model(samples_of(truth, workers));
    EXPECT_NEAR(fit.network.latency / truth.latency, 1, 1e-9);
    EXPECT_NEAR(fit.network.bytes_per_s / truth.bytes_per_s, 1, 1e-9);
    EXPECT_NEAR(fit.network.server_latency / truth.server_latency, 1, 1e-9);
    EXPECT_NEAR(fit.network.server_bytes_per_s / truth.server_bytes_per_s, 1, 1e-9);
    EXPECT_LT(fit.max_error, 1e-9);
  }
}

TEST(CalibrateNetwork, WhatTheSamplesDoNotNeedIsFree) {
  const NetworkFit no_latency = fit_network_model(samples_of(network(0, 1e9, 0, 1e9), 2));
  EXPECT_EQ(no_latency.network.latency.count(), 0);
  EXPECT_NEAR(no_latency.network.bytes_per_s, 1e9, 1);
  const NetworkFit no_transfer = fit_network_model(samples_of(network(1e-5, 1e30, 1e-5, 1e30), 2));
  EXPECT_EQ(no_transfer.network.bytes_per_s, kUnlimitedPerSecond);
  EXPECT_NEAR(no_transfer.network.latency.count(), 1e-5, 1e-12);
}

// Times that fall with the size have a negative bandwidth as their best fit, so only the latency is
// fitted.
TEST(CalibrateNetwork, NothingIsNegative) {
  std::vector<NetworkSample> samples = samples_of(network(1e-5, 1e30, 1e-5, 1e30), 2);
  for (NetworkSample& sample : samples) {
    if (sample.bytes < 1000) sample.time *= 3;
  }
  const NetworkFit fit = fit_network_model(samples);
  EXPECT_EQ(fit.network.bytes_per_s, kUnlimitedPerSecond);
  EXPECT_GT(fit.network.latency.count(), 0);
  EXPECT_GT(fit.max_error, 0.1);
}

TEST(CalibrateNetwork, TooFewSamplesAreRefused) {
  const auto all = samples_of(network(1e-5, 1e9, 1e-5, 1e9), 2);
  const std::vector<NetworkSample> one_size{all[0], all[5], all[6]};
  EXPECT_THAT(test::failure_of([&] { fit_network_model(one_size); }).message,
              HasSubstr("found 1 samples of all_reduce in one size"));
  auto broken = all;
  broken[6].time = Seconds(0);
  EXPECT_THAT(test::failure_of([&] { fit_network_model(broken); }).message,
              HasSubstr("found a time of 0 s"));
}

// The simulated cluster charges exactly what the model says, so measuring it gives the model back.
TEST(CalibrateNetwork, MeasuringASimulationGivesItsModel) {
  ClusterOptions options;
  options.workers = 3;
  options.profiles[0].operations_per_s = options.profiles[0].bytes_per_s = 1e12;
  options.network = network(2e-5, 1e9, 3e-5, 5e8);
  const auto samples = measure_network("sim", options, {{kNetworkSizes[0], kNetworkSizes[3]}});
  ASSERT_EQ(samples.size(), 4U);
  const NetworkFit fit = fit_network_model(samples);
  EXPECT_NEAR(fit.network.latency / options.network.latency, 1, 1e-6);
  EXPECT_NEAR(fit.network.bytes_per_s / options.network.bytes_per_s, 1, 1e-6);
  // A request has some bytes of its own beside the payload.
  EXPECT_NEAR(fit.network.server_latency / options.network.server_latency, 1, 1e-3);
  EXPECT_NEAR(fit.network.server_bytes_per_s / options.network.server_bytes_per_s, 1, 1e-3);
}

TEST(CalibrateNetwork, MeasuringTheWaitsOfASimulatedHostGivesItsWakeUp) {
  ClusterOptions options;
  options.workers = 2;
  options.host_cores = 2;
  options.profiles[0].operations_per_s = options.profiles[0].bytes_per_s = 1e12;
  options.network = network(2e-5, 1e9, 3e-5, 5e8);
  options.network.wake = Seconds(5e-4);
  NetworkModel waits;
  measure_waits("sim", options, waits);
  EXPECT_NEAR(waits.wake.count(), 5e-4, 1e-9);
  EXPECT_EQ(waits.poll, Seconds(0));  // its ranks poll for nothing
}

TEST(CalibrateNetwork, TheWaitsOfThreadsCanBeMeasured) {
  ClusterOptions options;
  options.workers = 2;
  NetworkModel waits;
  measure_waits("threads", options, waits);
  EXPECT_GT(waits.wake, Seconds(0));
  EXPECT_EQ(waits.poll, Seconds(0));
}

TEST(CalibrateNetwork, ThreadsCanBeMeasured) {
  ClusterOptions options;
  options.workers = 2;
  const auto samples = measure_network(
      "threads", options, {.sizes_bytes = {64, 1 << 20}, .point_time = Seconds(0.005)});
  for (const NetworkSample& sample : samples) EXPECT_GT(sample.time.count(), 0);
  EXPECT_GT(fit_network_model(samples).network.bytes_per_s, 0);
}

}  // namespace
}  // namespace hetsgd
