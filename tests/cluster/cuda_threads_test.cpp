// The threads cluster with workers on GPUs: collectives and exchanges of device memory against the
// same calls of workers on cores. Workers share GPUs, so one is enough.

#include "cluster/conformance.hpp"
#include "cluster/cuda/gpu_group.hpp"
#include "cluster/cuda_support.hpp"
#include "support/gpu.hpp"

namespace hetsgd::conformance {
namespace {

int gpu_count() {
  static const int count = static_cast<int>(cuda_platform().gpus.size());
  return count;
}

ClusterOptions on_gpus(int workers, AllReduce method = AllReduce::automatic) {
  ClusterOptions options = options_for(workers);
  for (int r = 0; r < workers; ++r) {
    options.devices.push_back("cuda:" + std::to_string(r % gpu_count()));
  }
  options.all_reduce = method;
  return options;
}

std::vector<std::vector<float>> results_of(const ClusterOptions& options, std::uint64_t seed) {
  std::vector<std::vector<float>> results(static_cast<std::size_t>(options.workers));
  make_cluster("threads", options)->run([&](Endpoint& endpoint) {
    results[static_cast<std::size_t>(endpoint.rank())] = random_collectives(endpoint, seed, 25);
  });
  return results;
}

void expect_like_cores(const ClusterOptions& options, std::uint64_t seed, bool exact) {
  const auto expected = results_of(options_for(options.workers), seed);
  const auto results = results_of(options, seed);
  for (std::size_t r = 0; r < expected.size(); ++r) {
    SCOPED_TRACE(r);
    expect_alike(results[r], expected[r], exact);
  }
}

TEST(GpuThreads, RandomCollectivesAreThoseOfCores) {
  for (const AllReduce method : {AllReduce::ring, AllReduce::host, AllReduce::tree}) {
    for (const int workers : {1, 3, 4, 7}) {
      SCOPED_TRACE(testing::Message()
                   << workers << " workers, method " << static_cast<int>(method));
      expect_like_cores(on_gpus(workers, method), static_cast<std::uint64_t>(workers),
                        method != AllReduce::tree);
    }
  }
  expect_like_cores(on_gpus(4), 9, false);
  const ClusterOptions all = on_gpus(gpu_count());
  expect_like_cores(all, 10, false);
}

// Groups of GPUs alone, of both, and of cores alone, from one list of devices.
TEST(GpuThreads, MixedGroupsGoThroughTheHost) {
  ClusterOptions options = options_for(4);
  options.devices = {"cuda:0", "cpu:1", "cuda:0", "cpu:1"};
  expect_like_cores(options, 11, true);
}

TEST(GpuThreads, SomeRanksMayBringHostMemory) {
  make_cluster("threads", on_gpus(3))->run([](Endpoint& endpoint) {
    for (const std::size_t n : {1U, 5000U, 50'000U}) {
      const std::vector<float> mine(n, static_cast<float>(endpoint.rank() + 1));
      std::vector<float> host = mine;
      Vector device(endpoint, mine);
      endpoint.comm().all_reduce(endpoint.rank() == 1 ? std::span(host) : device.span());
      EXPECT_EQ(endpoint.rank() == 1 ? host : device.content(), std::vector<float>(n, 6.0F));
    }
  });
}

TEST(GpuThreads, ExchangesBetweenGpus) {
  for (const AllReduce method : {AllReduce::automatic, AllReduce::host}) {
    make_cluster("threads", on_gpus(4, method))->run(check_exchanges);
  }
}

TEST(GpuThreads, WaitsForTheKernelsBefore) {
  make_cluster("threads", on_gpus(2))->run(check_order_with_kernels);
}

TEST(GpuThreads, BytesAndTimeAreInTheTimeBreakdown) {
  const ClusterReport report = make_cluster("threads", on_gpus(2))->run([](Endpoint& endpoint) {
    Vector x(endpoint, std::vector<float>(32'000));
    endpoint.comm().all_reduce(x.span(), ReduceOp::sum, Traffic::gradients);
    if (endpoint.rank() == 0) endpoint.sleep(Seconds(0.05));
    endpoint.comm().all_reduce(x.span(), ReduceOp::sum, Traffic::gradients);
  });
  const auto kind = static_cast<std::size_t>(Traffic::gradients);
  for (const WorkerReport& worker : report.workers) {
    EXPECT_EQ(worker.breakdown.bytes_sent[kind], 2U * 128'000);
    EXPECT_EQ(worker.breakdown.bytes_received[kind], 2U * 128'000);
    EXPECT_GT(worker.breakdown.communicate.count(), 0);
  }
  EXPECT_GE(report.workers[1].breakdown.wait.count(), 0.03) << "rank 0 was late";
}

// --- errors --------------------------------------------------------------------------------------

std::string failure(const ClusterOptions& options, const std::function<void(Endpoint&)>& worker) {
  return failure_of<std::exception>("threads", options, worker);
}

TEST(GpuThreads, AnErrorOfOneRankEndsTheOthers) {
  for (const AllReduce method : {AllReduce::automatic, AllReduce::ring, AllReduce::tree}) {
    const std::string text = failure(on_gpus(3, method), [](Endpoint& endpoint) {
      Vector x(endpoint, std::vector<float>(1000));
      for (int i = 0;; ++i) {
        if (endpoint.rank() == 2 && i == 3) throw std::runtime_error("rank 2 gives up");
        endpoint.comm().all_reduce(x.span());
      }
    });
    EXPECT_EQ(text, "rank 2 gives up");
  }
}

TEST(GpuThreads, CallsThatDifferAreFoundOut) {
  const std::string text = failure(on_gpus(2), [](Endpoint& endpoint) {
    Vector x(endpoint, std::vector<float>(endpoint.rank() == 0 ? 1000 : 999));
    endpoint.comm().all_reduce(x.span());
  });
  EXPECT_THAT(text, HasSubstr("differ in one collective"));
}

TEST(GpuThreads, ADeadlockIsFoundOut) {
  const std::string text = failure(on_gpus(2), [](Endpoint& endpoint) {
    Vector x(endpoint, std::vector<float>(1000));
    if (endpoint.rank() == 0) endpoint.comm().all_reduce(x.span());
  });
  EXPECT_THAT(text, HasSubstr("deadlock: no process can go on"));
  EXPECT_THAT(text, HasSubstr("all_reduce (1 of 2 arrived)"));
}

TEST(GpuThreads, RefusesWhatCannotBeDone) {
  ClusterOptions options = options_for(2);
  options.all_reduce = AllReduce::ring;
  EXPECT_THAT(failure(options, [](Endpoint&) {}), HasSubstr("where no worker has one"));
  options = options_for(2);
  options.devices = {"cuda:0"};
  options.all_reduce = AllReduce::nccl;
  EXPECT_THAT(failure(options, [](Endpoint&) {}), HasSubstr("share cuda:0"));
}

}  // namespace
}  // namespace hetsgd::conformance
