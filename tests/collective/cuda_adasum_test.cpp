// Adasum with vectors in the memory of GPUs. Workers share GPUs, so one is enough.

#include "collective/adasum.hpp"
#include "collective/gradients.hpp"
#include "support/gpu.hpp"
#include "support/plain_cluster.hpp"

namespace hetsgd {
namespace {

using Vector = std::vector<float>;

ClusterOptions on_gpus(int workers) {
  ClusterOptions options = plain_cluster(workers, 1e12, 1e12);
  const int gpus = static_cast<int>(cuda_platform().gpus.size());
  for (int r = 0; r < workers; ++r) options.devices.push_back("cuda:" + std::to_string(r % gpus));
  return options;
}

std::vector<Vector> reduce(const ClusterOptions& options, std::vector<Vector> g,
                           const std::vector<std::size_t>& bounds, AdasumShape shape,
                           bool on_device) {
  make_cluster("threads", options)->run([&](Endpoint& endpoint) {
    Vector& x = g[static_cast<std::size_t>(endpoint.rank())];
    AdasumAllReduce all_reduce(endpoint, endpoint.comm(), bounds, shape);
    if (!on_device) return all_reduce(x, 5);
    Buffer memory(endpoint.device(), x.size());
    for (int call = 0; call < 2; ++call) {  // the second with the memory of the first
      endpoint.device().upload(memory.data(), x.data(), x.size() * sizeof(float));
      all_reduce(memory.span(), 5);
    }
    endpoint.device().download(x.data(), memory.data(), x.size() * sizeof(float));
  });
  return g;
}

void expect_adasum(const std::vector<Vector>& results, const Vector& expected) {
  for (const Vector& x : results) {
    ASSERT_EQ(x, results.front()) << "ranks differ";
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], expected[i], 1e-6) << i;
  }
}

TEST(CudaAdasum, IsThatOfTheHost) {
  for (const AdasumShape shape : {AdasumShape::tree, AdasumShape::linear}) {
    for (const int workers : {2, 3, 4, 7}) {
      for (const std::size_t n : {0U, 1U, 5003U}) {
        SCOPED_TRACE(testing::Message() << workers << " workers, " << n << " numbers");
        const std::vector<std::size_t> bounds{0, n / 5, n / 5, n / 2, n};
        const std::vector<Vector> g = inputs(workers, n);
        expect_adasum(reduce(on_gpus(workers), g, bounds, shape, true),
                      adasum_of(g, bounds, shape));
      }
    }
  }
}

TEST(CudaAdasum, TakesHostMemoryAndMixedWorkersToo) {
  const std::vector<std::size_t> bounds{0, 300, 1001};
  const std::vector<Vector> g = inputs(4, 1001);
  ClusterOptions mixed = on_gpus(4);
  mixed.devices[1] = mixed.devices[2] = "cpu:1";
  for (const AdasumShape shape : {AdasumShape::tree, AdasumShape::linear}) {
    const Vector expected = adasum_of(g, bounds, shape);
    expect_adasum(reduce(on_gpus(4), g, bounds, shape, false), expected);
    expect_adasum(reduce(mixed, g, bounds, shape, true), expected);
  }
}

TEST(CudaAdasum, NormsOfTensors) {
  const auto device = make_cuda_device<float>(0);
  const Vector x = inputs(1, 1000).front();
  Buffer memory(*device, x.size());
  device->upload(memory.data(), x.data(), x.size() * sizeof(float));
  const std::vector<std::size_t> bounds{0, 10, 10, 1000};
  const auto norms = squared_norms(*device, bounds, memory.span());
  const auto expected = squared_norms(*make_cpu_device<float>(1), bounds, x);
  for (std::size_t t = 0; t < expected.size(); ++t) EXPECT_NEAR(norms[t], expected[t], 1e-10);
}

}  // namespace
}  // namespace hetsgd
