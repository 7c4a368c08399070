// The products of a layer and the kernels around them on one core, against the best that the core
// could do. (What vectors and small layers cost is in the steps of model_bench.)
//
// Counters, per second of CPU time: GFLOP_per_s, GB_per_s, and floor_ratio = floor time / time
// taken (1 is the floor), where the floor is the larger of operations / peak FMA rate and bytes /
// memory bandwidth, both measured in this process (support.hpp); what fits in a cache can beat the
// bandwidth.
// gemm/... runs beside openblas/...: OpenBLAS picks its kernels by CPU model and may not know a new
// one (OPENBLAS_CORETYPE=SkylakeX names the AVX-512 kernels by hand).
// Pin it: taskset -c 0 kernels_bench.
#include <cblas.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/random.hpp"
#include "linalg/device.hpp"
#include "linalg/output_layer_kernels.hpp"
#include "linalg/sparse_kernels.hpp"
#include "support.hpp"

extern "C" void openblas_set_num_threads(int threads);

namespace hetsgd {
namespace {

OutputLayerKernels& output_kernels(Device& device) { return kernels<OutputLayerKernels>(device); }

using bench::random_floats;

// Device memory with random contents.
Buffer random_buffer(Device& device, std::size_t n) {
  const auto host = random_floats(n);
  Buffer buffer(device, n);
  device.upload(buffer.data(), host.data(), n * sizeof(float));
  return buffer;
}

// `per_row` distinct columns per row, ascending.
struct Csr {
  Csr(std::size_t row_count, std::size_t columns, std::size_t per_row)
      : rows(row_count), width(columns) {
    RandomStream random(columns, Purpose::test);
    for (std::size_t r = 0; r < rows; ++r) {
      std::vector<std::uint32_t> chosen;
      while (chosen.size() < per_row) {
        const auto c = static_cast<std::uint32_t>(random.below(columns));
        if (std::find(chosen.begin(), chosen.end(), c) == chosen.end()) chosen.push_back(c);
      }
      std::sort(chosen.begin(), chosen.end());
      index.insert(index.end(), chosen.begin(), chosen.end());
      begin.push_back(index.size());
    }
    value = random_floats(index.size());
  }
  SparseRows<float> view(bool values) const {
    return {rows, width, nullptr, begin.data(), index.data(), values ? value.data() : nullptr};
  }

  std::size_t rows, width;
  std::vector<std::uint64_t> begin{0};
  std::vector<std::uint32_t> index;
  std::vector<float> value;
};

double numbers(std::size_t n) { return static_cast<double>(n); }

// --- dense ------------------------------------------------------------------------------------

// The products of a layer [128 -> outputs] at a batch size, plus a square one.
struct Product {
  const char* name;
  Transpose a, b;
  std::size_t m, n, k;
};
const Product kProducts[] = {
    {"forward_64x983x128", Transpose::no, Transpose::yes, 64, 983, 128},
    {"input_gradient_64x128x983", Transpose::no, Transpose::no, 64, 128, 983},
    {"weight_gradient_983x128x64", Transpose::yes, Transpose::no, 983, 128, 64},
    {"forward_256x983x128", Transpose::no, Transpose::yes, 256, 983, 128},
    {"input_gradient_256x128x983", Transpose::no, Transpose::no, 256, 128, 983},
    {"weight_gradient_983x128x256", Transpose::yes, Transpose::no, 983, 128, 256},
    {"forward_256x67009x128", Transpose::no, Transpose::yes, 256, 67009, 128},
    {"square_1024", Transpose::no, Transpose::no, 1024, 1024, 1024},
};

void gemm(benchmark::State& state, const Product& p, bool openblas) {
  const auto device = make_cpu_device<float>(1);
  Buffer A = random_buffer(*device, p.m * p.k), B = random_buffer(*device, p.k * p.n),
         C(*device, p.m * p.n);
  const bool at = p.a == Transpose::yes, bt = p.b == Transpose::yes;
  const std::size_t lda = at ? p.m : p.k, ldb = bt ? p.k : p.n;
  openblas_set_num_threads(1);
  for (auto _ : state) {
    if (openblas) {
      cblas_sgemm(CblasRowMajor, at ? CblasTrans : CblasNoTrans, bt ? CblasTrans : CblasNoTrans,
                  static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k), 1.0F,
                  A.data(), static_cast<int>(lda), B.data(), static_cast<int>(ldb), 0.0F, C.data(),
                  static_cast<int>(p.n));
    } else {
      device->gemm(p.a, p.b, p.m, p.n, p.k, 1, A.data(), lda, B.data(), ldb, 0, C.data(), p.n);
    }
  }
  bench::count_work(state, 2 * numbers(p.m * p.n * p.k),
                    4 * numbers(p.m * p.k + p.k * p.n + p.m * p.n));
}

// Three products, softmax between them; the weights are read twice and written once at least.
void softmax_layer(benchmark::State& state) {
  const auto rows = static_cast<std::size_t>(state.range(0)),
             outputs = static_cast<std::size_t>(state.range(1));
  constexpr std::size_t kInputs = 128;
  const auto device = make_cpu_device<float>(1);
  const Csr labels(rows, outputs, 5);
  Buffer A = random_buffer(*device, rows * kInputs), W = random_buffer(*device, outputs * kInputs),
         b = random_buffer(*device, outputs), dA(*device, rows * kInputs);
  const SoftmaxLayer<float> layer{.inputs = kInputs,
                                  .outputs = outputs,
                                  .input = A.data(),
                                  .weight = W.data(),
                                  .bias = b.data(),
                                  .scale = 1.0F / static_cast<float>(rows),
                                  .alpha = -0.1F,
                                  .beta = 1,
                                  .weight_gradient = W.data(),
                                  .bias_gradient = b.data(),
                                  .input_gradient = dA.data()};
  for (auto _ : state)
    benchmark::DoNotOptimize(output_kernels(*device).softmax_layer(labels.view(false), layer));
  bench::count_work(state, 6 * numbers(rows * outputs * kInputs),
                    4 * numbers(3 * outputs * kInputs + 2 * rows * outputs));
}
BENCHMARK(softmax_layer)->Args({64, 983})->Args({256, 983})->Args({256, 67009});

// --- sparse -----------------------------------------------------------------------------------

// rows, columns of X (= rows of W), nonzeros per row; n = 128
void sparse(benchmark::State& state, bool update) {
  const auto rows = static_cast<std::size_t>(state.range(0));
  constexpr std::size_t kWidth = 128;
  const auto device = make_cpu_device<float>(1);
  const Csr X(rows, static_cast<std::size_t>(state.range(1)),
              static_cast<std::size_t>(state.range(2)));
  Buffer W = random_buffer(*device, X.width * kWidth), b = random_buffer(*device, kWidth),
         Y = random_buffer(*device, rows * kWidth);
  SparseKernels& layer = kernels<SparseKernels>(*device);
  for (auto _ : state) {
    if (update) {
      layer.update(X.view(true), kWidth, -1e-6F, Y.data(), W.data());
    } else {
      layer.forward(X.view(true), kWidth, W.data(), b.data(), true, Y.data());
    }
  }
  const double products = numbers(X.index.size() * kWidth);
  bench::count_work(
      state, 2 * products,
      (update ? 8 : 4) * products + 8 * numbers(X.index.size()) + 4 * numbers(rows * kWidth));
}
void of_sparse(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({256, 500, 18})->Args({256, 13591, 76})->Args({256, 1'000'000, 76});
}
BENCHMARK_CAPTURE(sparse, forward, false)->Apply(of_sparse);
BENCHMARK_CAPTURE(sparse, update, true)->Apply(of_sparse);

[[maybe_unused]] const bool registered = [] {
  for (const Product& p : kProducts) {
    for (const bool openblas : {false, true}) {
      benchmark::RegisterBenchmark((std::string(openblas ? "openblas/" : "gemm/") + p.name).c_str(),
                                   gemm, p, openblas);
    }
  }
  return true;
}();

}  // namespace
}  // namespace hetsgd
