#include "cluster/calibrate_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

constexpr int kFewestCalls = 10;
constexpr int kMostCalls = 100'000;
constexpr int kWarmUp = 3;
constexpr double kKept = 0.95;  // share of the times that counts, the shortest first

// --- fit -----------------------------------------------------------------------------------------

struct Line {
  double latency_s = 0, seconds_per_byte = 0;
};

// time = fixed * latency + moved * seconds_per_byte
Line fit_line(std::span<const NetworkSample> samples, NetworkCall call) {
  std::vector<double> fixed, moved, times;
  std::vector<std::size_t> sizes;
  for (const NetworkSample& sample : samples) {
    if (sample.call != call) continue;
    const double time_s = sample.time.count();
    if (!(time_s > 0) || !std::isfinite(time_s)) {
      throw runtime_failure("calibration: found a time of {} s, expected one above 0", time_s);
    }
    const double n = static_cast<double>(sample.bytes), p = sample.workers;
    fixed.push_back(call == NetworkCall::service ? 2 : 2 * (p - 1));
    moved.push_back(call == NetworkCall::service ? 2 * n : 2 * (p - 1) / p * n);
    times.push_back(time_s);
    sizes.push_back(sample.bytes);
  }
  if (std::ranges::adjacent_find(sizes, std::ranges::not_equal_to()) == sizes.end()) {
    throw runtime_failure("calibration: found {} samples of {} in one size, expected two sizes",
                          sizes.size(),
                          call == NetworkCall::service ? "service calls" : "all_reduce");
  }
  const std::vector<double> c = fit_times({std::move(fixed), std::move(moved)}, times);
  return {c[0], c[1]};
}

// --- measurement ---------------------------------------------------------------------------------

struct Ask {
  std::int32_t answer_count = 0;
};
struct Done {
  std::int32_t unused = 0;
};

// Sends back as many numbers as the caller wants.
class Echo final : public Service<Ask, Done> {
 public:
  void handle(int, const Ask& ask, std::span<const float>, Responder<Done> reply) override {
    const auto count = static_cast<std::size_t>(ask.answer_count);
    if (numbers_.size() < count) numbers_.resize(count);
    reply({}, std::span<const float>(numbers_).first(count));
  }
  Work work(const Ask&, std::size_t) const override { return {}; }

 private:
  std::vector<float> numbers_;
};

double mean_of_most(std::vector<double>& times) {
  std::ranges::sort(times);
  const auto kept =
      std::max<std::size_t>(1, static_cast<std::size_t>(kKept * static_cast<double>(times.size())));
  double sum = 0;
  for (std::size_t i = 0; i < kept; ++i) sum += times[i];
  return sum / static_cast<double>(kept);
}

// One worker's part of the measurement of one size: its mean time of `call`, at most that of the
// slowest worker.
template <class Call>
Seconds measure_size(Endpoint& endpoint, Seconds point_time, Call call) {
  std::vector<double> times;
  std::int64_t left = kMostCalls;  // all ranks agree on it
  for (int i = -kWarmUp; i < left; ++i) {
    endpoint.comm().barrier();
    const Seconds start = endpoint.now();
    call();
    double time_s = (endpoint.now() - start).count();
    endpoint.comm().all_reduce(std::span(&time_s, 1), ReduceOp::max);
    if (i == -1) {  // the last of the warm-up says how many calls fill the time
      const double fit = point_time.count() / std::max(time_s, 1e-9);
      left = static_cast<std::int64_t>(std::clamp<double>(fit, kFewestCalls, kMostCalls));
    }
    if (i >= 0) times.push_back(time_s);
  }
  return Seconds(mean_of_most(times));
}

}  // namespace

Seconds predicted(const NetworkModel& network, const NetworkSample& sample) {
  const double bytes = static_cast<double>(sample.bytes);
  if (sample.call == NetworkCall::all_reduce) return network.all_reduce_cost(sample.workers, bytes);
  const double rate_of_call = std::min(network.bytes_per_s, network.server_bytes_per_s);
  return 2 * (network.server_latency + Seconds(bytes / rate_of_call));
}

NetworkFit fit_network_model(std::span<const NetworkSample> samples) {
  NetworkFit fit;
  const Line link = fit_line(samples, NetworkCall::all_reduce);
  const Line server = fit_line(samples, NetworkCall::service);
  fit.network.latency = Seconds(link.latency_s);
  fit.network.bytes_per_s = rate_of(link.seconds_per_byte);
  fit.network.server_latency = Seconds(server.latency_s);
  fit.network.server_bytes_per_s = rate_of(server.seconds_per_byte);
  std::vector<double> errors;
  for (const NetworkSample& sample : samples) {
    errors.push_back(predicted(fit.network, sample) / sample.time - 1);
  }
  static_cast<FitErrors&>(fit) = FitErrors(std::move(errors));
  return fit;
}

std::vector<NetworkSample> measure_network(const std::string& cluster,
                                           const ClusterOptions& options,
                                           const NetworkMeasurement& measurement) {
  HETSGD_CHECK_GE(options.workers, 2);
  std::vector<NetworkSample> samples;
  for (const NetworkCall call : {NetworkCall::all_reduce, NetworkCall::service}) {
    for (const std::size_t bytes : measurement.sizes_bytes) {
      if (measurement.status) {
        measurement.status(fmt::format("{} of {}",
                                       call == NetworkCall::service ? "service call" : "all_reduce",
                                       format_bytes(static_cast<double>(bytes))));
      }
      NetworkSample sample{.call = call, .bytes = bytes, .workers = options.workers};
      const auto made = make_cluster(cluster, options);
      made->run([&](Endpoint& endpoint) {
        std::vector<float> x(bytes / sizeof(float)), reply(x.size());
        auto echo = serve<Echo>(endpoint, "echo");
        const bool calls =
            endpoint.rank() == endpoint.size() - 1;  // far from rank 0, where services are
        const Ask ask{static_cast<std::int32_t>(x.size())};
        const Seconds time = measure_size(endpoint, measurement.point_time, [&] {
          if (call == NetworkCall::all_reduce) {
            endpoint.comm().all_reduce(std::span(x), ReduceOp::sum, Traffic::gradients);
          } else if (calls) {
            echo.call(ask, x, reply);
          }
        });
        // Every process keeps a time: that of rank 0 where it runs here, else that of its own
        // worker.
        if (endpoint.rank() == 0 || !made->runs_here(0)) sample.time = time;
      });
      samples.push_back(sample);
    }
  }
  return samples;
}

}  // namespace hetsgd
