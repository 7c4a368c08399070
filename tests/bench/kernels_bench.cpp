// The products of a layer on one core beside OpenBLAS, against the best that the core could do.
// (What other kernels cost is in the steps of model_bench.)
//
// Counters, per second of CPU time: GFLOP_per_s, GB_per_s, and floor_ratio = floor time / time
// taken (1 is the floor), where the floor is the larger of operations / peak FMA rate and bytes /
// memory bandwidth, both measured in this process (support.hpp); what fits in a cache can beat the
// bandwidth.
// gemm/... runs beside openblas/...: OpenBLAS picks its kernels by CPU model and may not know a new
// one (OPENBLAS_CORETYPE=SkylakeX names the AVX-512 kernels by hand).
// Pin it: taskset -c 0 kernels_bench.
#include <cblas.h>

#include "linalg/device.hpp"
#include "support.hpp"

extern "C" void openblas_set_num_threads(int threads);

namespace hetsgd {
namespace {

using bench::random_floats;

// Device memory with random contents.
Buffer random_buffer(Device& device, std::size_t n) {
  const auto host = random_floats(n);
  Buffer buffer(device, n);
  device.upload(buffer.data(), host.data(), n * sizeof(float));
  return buffer;
}

double numbers(std::size_t n) { return static_cast<double>(n); }

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
