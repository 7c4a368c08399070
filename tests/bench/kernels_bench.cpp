// Every kernel of the CPU device on one core, against the best that the core could do.
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

// --- layers: rows, columns --------------------------------------------------------------------

// reads and writes: how often each number of the matrix moves.
template <class Call>
void matrix(benchmark::State& state, double operations, double moves, Call&& call) {
  const auto rows = static_cast<std::size_t>(state.range(0)),
             n = static_cast<std::size_t>(state.range(1));
  const auto device = make_cpu_device<float>(1);
  Buffer Z = random_buffer(*device, rows * n), D = random_buffer(*device, rows * n),
         b = random_buffer(*device, n);
  const Csr labels(rows, n, 5);
  for (auto _ : state) call(*device, labels.view(false), rows, n, Z.data(), D.data(), b.data());
  bench::count_work(state, operations * numbers(rows * n), 4 * moves * numbers(rows * n));
}

void bias_relu(benchmark::State& state) {
  matrix(state, 2, 2, [](Device& device, auto, auto rows, auto n, float* Z, float*, float* b) {
    device.bias_relu(rows, n, b, Z);
  });
}
void relu_backward(benchmark::State& state) {
  matrix(state, 1, 3, [](Device& device, auto, auto rows, auto n, float* Z, float* D, float*) {
    device.apply(rows * n, rule::ReluGradient<float>(), Z, D);
  });
}
void column_sums(benchmark::State& state) {
  matrix(state, 1, 1, [](Device& device, auto, auto rows, auto n, float* Z, float*, float* b) {
    device.column_sums(rows, n, 1e-9F, Z, b);
  });
}
void softmax_cross_entropy(benchmark::State& state) {
  matrix(state, 5, 2, [](Device& device, auto labels, auto, auto n, float* Z, float*, float* b) {
    benchmark::DoNotOptimize(output_kernels(device).softmax_cross_entropy(labels, n, b, 1.0F, Z));
  });
}
void softmax_loss(benchmark::State& state) {
  matrix(state, 4, 2, [](Device& device, auto labels, auto, auto n, float* Z, float*, float* b) {
    device.axpby(n, 0, b, 0, b);  // the bias is added on every call: keep the logits bounded
    benchmark::DoNotOptimize(output_kernels(device).softmax_loss(labels, n, b, Z));
  });
}
void top_5(benchmark::State& state) {
  std::vector<std::uint32_t> top(5 * static_cast<std::size_t>(state.range(0)));
  matrix(state, 1, 1, [&](Device& device, auto, auto rows, auto n, float* Z, float*, float*) {
    output_kernels(device).top_k(rows, n, Z, 5, top.data());
  });
}
void sigmoid_cross_entropy(benchmark::State& state) {
  const auto rows = static_cast<std::size_t>(state.range(0));
  const auto device = make_cpu_device<float>(1);
  const Csr labels(rows, 1, 1);
  Buffer Z = random_buffer(*device, rows);
  for (auto _ : state) {
    benchmark::DoNotOptimize(output_kernels(*device).sigmoid_cross_entropy(
        labels.view(false), 1, nullptr, 1.0F, Z.data()));
  }
  bench::count_work(state, 6 * numbers(rows), 8 * numbers(rows));
}
BENCHMARK(bias_relu)->Args({256, 128})->Args({256, 1024});
BENCHMARK(relu_backward)->Args({256, 128})->Args({256, 1024});
BENCHMARK(column_sums)->Args({256, 128})->Args({256, 67009});
BENCHMARK(softmax_cross_entropy)->Args({256, 983})->Args({64, 67009});
BENCHMARK(softmax_loss)->Args({256, 983})->Args({64, 67009});
BENCHMARK(top_5)->Args({256, 983})->Args({64, 67009});
BENCHMARK(sigmoid_cross_entropy)->Arg(256);

// --- vectors of n: the sizes of the two models of model_bench -----------------------------------

template <class Call>
void vectors(benchmark::State& state, double operations, double moves, Call&& call) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const auto device = make_cpu_device<float>(1);
  Buffer x = random_buffer(*device, n), y = random_buffer(*device, n),
         z = random_buffer(*device, n);
  for (auto _ : state) call(*device, n, x.data(), y.data(), z.data());
  bench::count_work(state, operations * numbers(n), 4 * moves * numbers(n));
}

void fill(benchmark::State& state) {
  vectors(state, 0, 1,
          [](Device& device, auto n, float* x, float*, float*) { device.fill(n, 1.0F, x); });
}
void copy(benchmark::State& state) {
  vectors(state, 0, 2,
          [](Device& device, auto n, float* x, float* y, float*) { device.copy(n, x, y); });
}
void axpby(benchmark::State& state) {
  vectors(state, 3, 3, [](Device& device, auto n, float* x, float* y, float*) {
    device.axpby(n, 0.5F, x, 0.5F, y);
  });
}
void dot(benchmark::State& state) {
  vectors(state, 2, 2, [](Device& device, auto n, float* x, float* y, float*) {
    benchmark::DoNotOptimize(device.dot(n, x, y));
  });
}
void squared_norm(benchmark::State& state) {
  vectors(state, 2, 1, [](Device& device, auto n, float* x, float*, float*) {
    benchmark::DoNotOptimize(device.squared_norm(n, x));
  });
}
void momentum_merge(benchmark::State& state) {
  vectors(state, 3, 5, [](Device& device, auto n, float* x, float* y, float* z) {
    device.apply(n, rule::MomentumMerge<float>{0.9F}, x, y, z);
  });
}
// Every fourth row of 128 numbers, as a batch touches layer 0.
template <class Call>
void some_rows(benchmark::State& state, double operations, double moves, Call&& call) {
  const auto n = static_cast<std::size_t>(state.range(0));
  std::vector<std::uint32_t> rows(n / 128 / 4);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint32_t>(4 * i);
  vectors(state, operations / 4, moves / 4,
          [&](Device& device, auto, float* x, float* y, float*) { call(device, rows, x, y); });
}
void add_rows(benchmark::State& state) {
  some_rows(state, 2, 3, [](Device& device, const auto& rows, float* x, float* y) {
    device.apply_rows(rows, 128, rule::AddScaled<float>{-1e-6F}, x, y);
  });
}
void fill_rows(benchmark::State& state) {
  some_rows(state, 0, 1, [](Device& device, const auto& rows, float* x, float*) {
    device.apply_rows(rows, 128, rule::Fill<float>{0}, x);
  });
}
constexpr long kDelicious = 190'807, kAmazon = 10'383'737;
[[maybe_unused]] const bool registered = [] {
  const std::pair<const char*, void (*)(benchmark::State&)> of_vectors[] = {
      {"fill", fill},
      {"copy", copy},
      {"axpby", axpby},
      {"dot", dot},
      {"squared_norm", squared_norm},
      {"momentum_merge", momentum_merge},
      {"add_rows", add_rows},
      {"fill_rows", fill_rows}};
  for (const auto& [name, run] : of_vectors) {
    benchmark::RegisterBenchmark(name, run)->Arg(kDelicious)->Arg(kAmazon);
  }
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
