// The mpi cluster with ranks on GPUs, under mpirun: each way of device buffers between processes
// against the same calls of workers on cores, and how runs end in which a rank fails.

#include "cluster/conformance.hpp"
#include "cluster/cuda/rank_gpu.hpp"
#include "cluster/cuda_support.hpp"
#include "support/gpu.hpp"

namespace hetsgd::mpi {
namespace {

using conformance::options_for;
using conformance::Vector;
using test::uniform_numbers;

constexpr std::size_t kLarge = 100'000;

ProcessGroup& ranks() { return processes_of("mpi"); }
int size() { return ranks().size(); }
int me() { return ranks().rank(); }
int last() { return size() - 1; }

ClusterOptions on_gpus(AllReduce method = AllReduce::automatic) {
  ClusterOptions options = options_for(size());
  options.devices = {"cuda:auto"};
  options.all_reduce = method;
  return options;
}

bool gpus_are_shared() { return size() > static_cast<int>(cuda_platform().gpus.size()); }
// The path of large collectives if all ranks share a GPU, or none do.
GpuPath expected_path(AllReduce method) {
  if (method == AllReduce::mpi) return GpuPath::mpi;
  return method == AllReduce::automatic && !gpus_are_shared() ? GpuPath::nccl : GpuPath::host;
}
// The methods that this MPI library can run.
std::vector<AllReduce> methods() {
  if (!ranks().takes_gpu_memory()) return {AllReduce::automatic, AllReduce::host};
  return {AllReduce::automatic, AllReduce::mpi, AllReduce::host};
}

std::string failure(const ClusterOptions& options, const std::function<void(Endpoint&)>& worker) {
  return conformance::failure_of<std::exception>("mpi", options, worker);
}

void expect_like_cores(const ClusterOptions& options, std::uint64_t seed, bool exact) {
  std::vector<float> expected, results;
  make_cluster("threads", options_for(size()))->run([&](Endpoint& endpoint) {
    auto mine = conformance::random_collectives(endpoint, seed, 40);
    if (endpoint.rank() == me()) expected = std::move(mine);
  });
  make_cluster("mpi", options)->run([&](Endpoint& endpoint) {
    results = conformance::random_collectives(endpoint, seed, 40);
  });
  ASSERT_EQ(results.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(results[i], expected[i], exact ? 0 : 1e-5) << "rank " << me() << " at " << i;
  }
}

TEST(GpuMpi, RandomCollectivesAreThoseOfCores) {
  std::uint64_t seed = 0;
  for (const AllReduce method : methods()) {
    SCOPED_TRACE(testing::Message() << "method " << static_cast<int>(method));
    for (int i = 0; i < 3; ++i) {  // NCCL adds in an order of its own
      expect_like_cores(on_gpus(method), ++seed, expected_path(method) != GpuPath::nccl);
    }
  }
}

TEST(GpuMpi, RanksOnCoresAndGpus) {
  ClusterOptions options = options_for(size());
  options.devices = {"cpu:1", "cuda:0"};
  expect_like_cores(options, 11, false);
}

TEST(GpuMpi, LargeBuffersTravelByTheExpectedWay) {
  for (const AllReduce method : methods()) {
    const ClusterReport report = make_cluster("mpi", on_gpus(method))->run([](Endpoint& endpoint) {
      Vector x(endpoint, std::vector<float>(kLarge, 1));
      endpoint.comm().all_reduce(x.span(), ReduceOp::sum, Traffic::gradients);
      endpoint.comm().broadcast(x.span(), 0);
    });
    if (me() != 0) continue;
    for (const WorkerReport& worker : report.workers) {
      for (std::size_t path = 0; path < kGpuPathNames.size(); ++path) {
        EXPECT_EQ(worker.breakdown.gpu_buffers[path] > 0,
                  path == static_cast<std::size_t>(expected_path(method)))
            << kGpuPathNames[path] << ", method " << static_cast<int>(method);
      }
    }
  }
}

// The memory of the other side does not matter.
TEST(GpuMpi, MessagesBetweenGpusAndHosts) {
  for (const AllReduce method : methods()) {
    make_cluster("mpi", on_gpus(method))->run([](Endpoint& endpoint) {
      for (const std::size_t n :
           {std::size_t{0}, std::size_t{300}, std::size_t{5000}, kLarge, 11 * kLarge}) {
        const int to = conformance::next_of(endpoint), from = conformance::previous_of(endpoint);
        for (const int way : {0, 1, 2, 3}) {
          const auto mine = uniform_numbers(n, static_cast<std::uint64_t>(endpoint.rank()));
          const auto theirs = uniform_numbers(n, static_cast<std::uint64_t>(from));
          Vector out(endpoint, mine), in(endpoint, std::vector<float>(n));
          std::vector<float> host_in(n);
          const bool from_host = way % 2 == 1, to_host = way / 2 == 1;
          endpoint.comm().send(to, 1, from_host ? std::span<const float>(mine) : out.span());
          endpoint.comm().receive(from, 1, to_host ? std::span(host_in) : in.span());
          EXPECT_EQ(to_host ? host_in : in.content(), theirs) << n << " numbers, way " << way;
        }
      }
    });
  }
}

TEST(GpuMpi, GathersBetweenGpusAndHosts) {
  for (const AllReduce method : methods()) {
    make_cluster("mpi", on_gpus(method))->run([](Endpoint& endpoint) {
      const auto p = static_cast<std::size_t>(endpoint.size());
      std::vector<float> expected;
      for (std::size_t r = 0; r < p; ++r) {
        const auto part = uniform_numbers(kLarge, r);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      const auto mine = uniform_numbers(kLarge, static_cast<std::uint64_t>(endpoint.rank()));
      for (const int way : {0, 1, 2, 3}) {
        Vector in(endpoint, mine), out(endpoint, std::vector<float>(p * kLarge));
        std::vector<float> host_out(p * kLarge);
        const bool from_host = way % 2 == 1, to_host = way / 2 == 1;
        endpoint.comm().all_gather(from_host ? std::span<const float>(mine) : in.span(),
                                   to_host ? std::span(host_out) : out.span());
        EXPECT_EQ(to_host ? host_out : out.content(), expected) << "way " << way;
      }
    });
  }
}

TEST(GpuMpi, ExchangesBetweenGpus) {
  if (size() % 2 != 0) GTEST_SKIP() << "needs pairs";
  for (const AllReduce method : methods()) {
    make_cluster("mpi", on_gpus(method))->run(conformance::check_exchanges);
  }
}

TEST(GpuMpi, WaitsForTheKernelsBefore) {
  for (const AllReduce method : methods()) {
    make_cluster("mpi", on_gpus(method))->run(conformance::check_order_with_kernels);
  }
}

// Two groups of the same ranks at once, from two processes of each.
TEST(GpuMpi, ABackgroundTaskReducesBesideItsWorker) {
  for (const AllReduce method : methods()) {
    make_cluster("mpi", on_gpus(method))->run([](Endpoint& endpoint) {
      const auto reduce = [](Endpoint& self, Comm& comm, int calls) {
        for (int i = 0; i < calls; ++i) {
          Vector x(self, std::vector<float>(8000U * static_cast<unsigned>(i % 3 + 1), 1.0F));
          comm.all_reduce(x.span());
          ASSERT_EQ(x.content(), std::vector<float>(x.span().size(), static_cast<float>(size())));
        }
      };
      std::shared_ptr<Comm> own = endpoint.comm().split(0, endpoint.rank());
      endpoint.background_task("reduce",
                               [&reduce, own](Endpoint& self) { reduce(self, *own, 10); });
      reduce(endpoint, endpoint.comm(), 20);
      endpoint.comm().barrier();
      own.reset();
    });
  }
}

// --- errors --------------------------------------------------------------------------------------

TEST(GpuMpi, AnErrorOfOneRankEndsTheOthers) {
  for (const AllReduce method : methods()) {
    for (const int calls : {0, 1, 3}) {
      const std::string text = failure(on_gpus(method), [&](Endpoint& endpoint) {
        Vector x(endpoint, std::vector<float>(kLarge));
        for (int i = 0;; ++i) {
          if (endpoint.rank() == last() && i == calls) throw data_error("rank {} gives up", last());
          endpoint.comm().all_reduce(x.span());
        }
      });
      const std::string whose = size() == 1 ? "" : fmt::format("rank {}: ", last());
      EXPECT_EQ(text, fmt::format("{}rank {} gives up", whose, last()));
    }
    // The next run is a run like any other.
    make_cluster("mpi", on_gpus(method))->run([](Endpoint& endpoint) {
      Vector x(endpoint, std::vector<float>(kLarge, 1));
      endpoint.comm().all_reduce(x.span());
      EXPECT_EQ(x.content(), std::vector<float>(kLarge, static_cast<float>(size())));
    });
  }
}

// Wherever the workers are just then: in the messages before a transfer, or in the transfer.
TEST(GpuMpi, AnErrorBesideATransferEndsIt) {
  const auto begin = std::chrono::steady_clock::now();
  for (const AllReduce method : methods()) {
    for (const double pause_s : {0.0, 0.003, 0.01}) {
      const std::string text = failure(on_gpus(method), [&](Endpoint& endpoint) {
        if (endpoint.rank() == last()) {
          endpoint.background_task("failing", [&](Endpoint& self) {
            self.sleep(Seconds(pause_s));
            throw runtime_failure("the background task gives up");
          });
        }
        Vector x(endpoint, std::vector<float>(4 * kLarge));
        while (true) endpoint.comm().all_reduce(x.span());
      });
      EXPECT_THAT(text, HasSubstr("the background task gives up"));
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, Seconds(30));
}

TEST(GpuMpi, CallsThatDifferAreFoundOut) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  for (const AllReduce method : methods()) {
    const std::string text = failure(on_gpus(method), [](Endpoint& endpoint) {
      Vector x(endpoint, std::vector<float>(endpoint.rank() == 0 ? kLarge : kLarge - 1));
      Vector same(endpoint, std::vector<float>(kLarge));
      endpoint.comm().all_reduce(same.span());
      endpoint.comm().all_reduce(x.span());
    });
    EXPECT_THAT(text, HasSubstr(fmt::format("calls all_reduce (sum) of {} float32", kLarge - 1)));
  }
}

TEST(GpuMpi, ARankThatStaysAwayIsADeadlock) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  ClusterOptions options = on_gpus();
  options.peer_timeout = Seconds(1);
  const std::string text = failure(options, [](Endpoint& endpoint) {
    Vector x(endpoint, std::vector<float>(kLarge));
    endpoint.comm().all_reduce(x.span());
    if (endpoint.rank() != 0) return endpoint.comm().all_reduce(x.span());
    float never = 0;
    endpoint.comm().receive(last(), 9, std::span(&never, 1));
  });
  EXPECT_THAT(text, HasSubstr("deadlock: no rank can go on"));
}

TEST(GpuMpi, RefusesWhatCannotBeDone) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  const auto reduce = [](Endpoint& endpoint) {
    Vector x(endpoint, std::vector<float>(kLarge));
    endpoint.comm().all_reduce(x.span());
  };
  if (gpus_are_shared()) {
    EXPECT_THAT(failure(on_gpus(AllReduce::nccl), reduce), HasSubstr("share a GPU"));
  } else {
    make_cluster("mpi", on_gpus(AllReduce::nccl))->run(reduce);
  }
  if (!ranks().takes_gpu_memory()) {
    EXPECT_THAT(failure(on_gpus(AllReduce::mpi), reduce), HasSubstr("--all-reduce mpi"));
  }
}

}  // namespace
}  // namespace hetsgd::mpi

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  hetsgd::processes_of("mpi");
  int result = hetsgd::test::kSkipped;
  if (const auto platform = hetsgd::cuda_platform(); platform.gpus.empty()) {
    fmt::print("skipped: {}\n", platform.problem);
  } else {
    result = RUN_ALL_TESTS();
  }
  return hetsgd::processes_of("mpi").leave(result);
}
