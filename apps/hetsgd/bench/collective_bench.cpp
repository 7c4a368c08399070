#include "collective_bench.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>

#include "core/error.hpp"

namespace hetsgd {

namespace {

constexpr int kExchangeTag = 1;

std::uint64_t unchecked(Endpoint&, std::span<const float>) { return 0; }

double largest(std::span<const float> x) {
  double most = 0;
  for (const float number : x) most = std::max(most, std::abs(static_cast<double>(number)));
  return most;
}

}  // namespace

std::vector<float> bench_input(int rank, std::size_t count) {
  std::vector<float> x(count);
  auto state = static_cast<std::uint32_t>(rank) * 0x9E3779B9U + 1;
  for (float& number : x) {
    state = state * 1664525U + 1013904223U;
    number = static_cast<float>(static_cast<int>(state >> 25) - 64) / 64;
  }
  return x;
}

std::uint64_t count_wrong(std::span<const float> x, std::span<const float> expected,
                          double tolerance) {
  HETSGD_CHECK_EQ(x.size(), expected.size());
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = std::abs(static_cast<double>(x[i]) - static_cast<double>(expected[i]));
    wrong += !(error <= tolerance);
  }
  return wrong;
}

CollectiveBench::CollectiveBench(std::string cluster, ClusterOptions options, int iterations,
                                 int warmup)
    : cluster_(std::move(cluster)),
      options_(std::move(options)),
      iterations_(iterations),
      warmup_(warmup) {
  HETSGD_CHECK_GE(iterations, 1);
  HETSGD_CHECK_GE(warmup, 0);
}

template <class SetUp, class CountErrors>
BenchTimes CollectiveBench::run(AllReduce method, std::size_t count, SetUp set_up,
                                CountErrors count_errors) const {
  BenchTimes result;
  std::mutex mutex;
  ClusterOptions options = options_;
  options.all_reduce = method;
  make_cluster(cluster_, options)->run([&](Endpoint& endpoint) {
    const BenchOperation operation = set_up(endpoint);
    const std::vector<float> mine = bench_input(endpoint.rank(), count);
    Buffer x(endpoint.device(), count);
    std::vector<double> time_s, in_call_s;
    for (int i = -warmup_; i < iterations_; ++i) {
      endpoint.device().upload(x.data(), mine.data(), count * sizeof(float));
      endpoint.device().synchronize();
      endpoint.comm().barrier();
      const Seconds start = endpoint.now();
      if (options.scenario) endpoint.compute({}, ComputeKind::step, [] {});
      const Seconds arrival = endpoint.now();
      operation(x.span());
      const Seconds end = endpoint.now();
      if (i < 0) continue;
      time_s.push_back((end - start).count());
      in_call_s.push_back((end - arrival).count() / endpoint.size());
    }
    std::vector<float> content(count);
    endpoint.device().download(content.data(), x.data(), count * sizeof(float));
    auto wrong = static_cast<std::int64_t>(count_errors(endpoint, content));
    endpoint.comm().all_reduce(std::span(time_s), ReduceOp::max);
    endpoint.comm().all_reduce(std::span(in_call_s));
    endpoint.comm().all_reduce(std::span(&wrong, 1));
    const std::lock_guard lock(mutex);  // all ranks have the same value
    result = {.time_s = std::move(time_s),
              .in_call_s = std::move(in_call_s),
              .wrong = static_cast<std::uint64_t>(wrong)};
  });
  return result;
}

BenchTimes CollectiveBench::measure(const BenchCollective& collective, const BenchOperator& op,
                                    std::size_t count, bool check) const {
  HETSGD_CHECK(!collective.in_parts || count % static_cast<std::size_t>(options_.workers) == 0);
  std::vector<float> expected;
  if (check) {
    std::vector<std::vector<float>> inputs;
    for (int rank = 0; rank < options_.workers; ++rank) inputs.push_back(bench_input(rank, count));
    expected = op.expected(inputs);
  }
  // The tolerance is a unit in the last place of the largest element for each of up to `workers`
  // combinations.
  const double tolerance = op.exact ? 0 : options_.workers * 0x1p-23 * largest(expected);
  return run(
      op.method, count, [&](Endpoint& endpoint) { return op.make(endpoint, count); },
      [&](Endpoint& endpoint, std::span<const float> content) {
        if (!check) return std::uint64_t{0};
        const BenchCollective::Part part =
            collective.part(endpoint.rank(), options_.workers, count);
        return count_wrong(content.subspan(part.begin, part.size),
                           std::span(expected).subspan(part.expected_begin, part.size), tolerance);
      });
}

CollectiveBench CollectiveBench::with_nobody_late() const {
  ClusterOptions options = options_;
  options.scenario = nullptr;
  return {cluster_, std::move(options), iterations_, warmup_};
}

BenchTimes CollectiveBench::floor(std::size_t count) const {
  const auto set_up = [](Endpoint&) {
    return [](std::span<float> x) {
      for (float& number : x) number += 1;
    };
  };
  return with_nobody_late().run(AllReduce::automatic, count, set_up, unchecked);
}

BenchTimes CollectiveBench::sendrecv(std::size_t count) const {
  const auto set_up = [&](Endpoint& endpoint) {
    const auto incoming = std::make_shared<Buffer>(endpoint.device(), count);
    return [&comm = endpoint.comm(), incoming](std::span<float> x) {
      const int peer = comm.rank() ^ 1;
      if (peer < comm.size()) comm.sendrecv<float>(peer, kExchangeTag, x, incoming->span());
    };
  };
  return with_nobody_late().run(AllReduce::automatic, count, set_up, unchecked);
}

}  // namespace hetsgd
