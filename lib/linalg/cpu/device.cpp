// The CPU as a device: memory, vectors, element-wise rules and dense products. Vectors are
// memory-bound, one pass each. Sums are in double over fixed chunks, added in order, so that the
// bits are the same for every number of cores.
#include "linalg/device.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <vector>

#include "linalg/cores/memory.hpp"
#include "linalg/cpu/backend.hpp"
#include "linalg/cpu/gemm.hpp"
#include "linalg/cpu/lane_codes.hpp"
#include "linalg/cpu/simd.hpp"
#include "linalg/kernel_set.hpp"
#include "linalg/streams.hpp"

namespace hetsgd::cpu {

namespace {

constexpr std::size_t kChunk = std::size_t{1} << 16;  // elements per partial sum
constexpr std::size_t kBlock = 1024;                  // elements that stay in the first cache

template <class Real>
HETSGD_INLINE Vec<double> widen(const Real* p) {
  if constexpr (sizeof(Real) == sizeof(double)) {
    return load(p);
  } else {
    typedef float Half __attribute__((vector_size(kRegisterBytes / 2)));
    Vec<double> v;
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kRegisters; ++i) {
      Half half;
      std::memcpy(&half, p + i * kRegisterLanes<double>, sizeof(half));
      v.part[i] = __builtin_convertvector(half, Register<double>);
    }
    return v;
  }
}

template <class Real>
double chunk_dot(std::size_t n, const Real* x, const Real* y) {
  constexpr std::size_t kWidth = kLanes<double>;
  constexpr std::size_t kSums = 4;  // independent sums, to hide the latency of the additions
  Vec<double> sum[kSums] = {};
  std::size_t i = 0;
  for (; i + kSums * kWidth <= n; i += kSums * kWidth) {
#pragma GCC unroll 4
    for (std::size_t s = 0; s < kSums; ++s) {
      sum[s] = fused(widen(x + i + s * kWidth), widen(y + i + s * kWidth), sum[s]);
    }
  }
  double rest = 0;
  for (; i < n; ++i) rest = fused(static_cast<double>(x[i]), static_cast<double>(y[i]), rest);
  return horizontal_sum<double>((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest;
}

Products& operator+=(Products& sum, const Products& more) {
  sum.xy += more.xy;
  sum.xx += more.xx;
  sum.yy += more.yy;
  return sum;
}

// Six independent sums hide the latency of the additions.
template <class Real>
Products chunk_products(std::size_t n, const Real* x, const Real* y) {
  constexpr std::size_t kWidth = kLanes<double>;
  constexpr std::size_t kSums = 2;
  Vec<double> xy[kSums] = {}, xx[kSums] = {}, yy[kSums] = {};
  std::size_t i = 0;
  for (; i + kSums * kWidth <= n; i += kSums * kWidth) {
#pragma GCC unroll 2
    for (std::size_t s = 0; s < kSums; ++s) {
      const Vec<double> a = widen(x + i + s * kWidth), b = widen(y + i + s * kWidth);
      xy[s] = fused(a, b, xy[s]);
      xx[s] = fused(a, a, xx[s]);
      yy[s] = fused(b, b, yy[s]);
    }
  }
  Products sum{horizontal_sum<double>(xy[0] + xy[1]), horizontal_sum<double>(xx[0] + xx[1]),
               horizontal_sum<double>(yy[0] + yy[1])};
  for (; i < n; ++i) {
    const auto a = static_cast<double>(x[i]), b = static_cast<double>(y[i]);
    sum.xy = fused(a, b, sum.xy);
    sum.xx = fused(a, a, sum.xx);
    sum.yy = fused(b, b, sum.yy);
  }
  return sum;
}

// A call is taken by value, so that the compiler knows that no store changes its factors. Element i
// depends on elements i alone (ivdep), also if operands are the same memory.
template <class Call>
void run_range(const Call call, Range range) {
#pragma GCC ivdep
  for (std::size_t i = range.begin; i < range.end; ++i) call.store(i, call.load(i));
}

// Four sums hide the latency of the additions.
template <class Real>
double sum_of_squares(std::size_t n, const Real* r) {
  double sum[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::size_t s = 0; s < 4; ++s) {
      const auto x = static_cast<double>(r[i + s]);
      sum[s] = fused(x, x, sum[s]);
    }
  }
  for (; i < n; ++i) {
    const auto x = static_cast<double>(r[i]);
    sum[0] = fused(x, x, sum[0]);
  }
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

template <class Real, class Call>
double norm_of_range(const Call call, Range range) {
  Real r[kBlock];
  double sum = 0;
  for (std::size_t begin = range.begin; begin < range.end; begin += kBlock) {
    const std::size_t count = std::min(kBlock, range.end - begin);
#pragma GCC ivdep
    for (std::size_t j = 0; j < count; ++j) r[j] = call.update(begin + j, call.load(begin + j));
    sum += sum_of_squares(count, r);
  }
  return sum;
}

template <class Real>
class CpuDevice final : public BasicDevice<Real> {
 public:
  template <class... Args>
  explicit CpuDevice(const Args&... cores) : cores_(cores...), pack_(cores_), partial_(cores_) {}

  const Backend& cores() const { return cores_; }

  std::string name() const override { return fmt::format("cpu:{}", cores_.count()); }

  void* allocate(std::size_t bytes) override { return allocate_aligned(bytes); }
  void release(void* memory) noexcept override { release_aligned(memory); }
  void upload(void* device, const void* host, std::size_t bytes) override {
    transfer(device, host, bytes);
  }
  void download(void* host, const void* device, std::size_t bytes) override {
    transfer(host, device, bytes);
  }
  void synchronize() override {}
  bool host_accessible(const void*) const override { return true; }
  SparseRows<Real> stage(const SparseRows<Real>& batch) override { return batch; }
  FieldRows<Real> stage(const FieldRows<Real>& batch) override { return batch; }
  bool stages_copies() const override { return false; }

  void copy(std::size_t n, const Real* x, Real* y) override { transfer(y, x, n * sizeof(Real)); }
  double dot(std::size_t n, const Real* x, const Real* y) override {
    return add_chunks<double>(
        n, [&](std::size_t at, std::size_t count) { return chunk_dot(count, x + at, y + at); });
  }
  Products products(std::size_t n, const Real* x, const Real* y) override {
    return add_chunks<Products>(n, [&](std::size_t at, std::size_t count) {
      return chunk_products(count, x + at, y + at);
    });
  }

  void gemm(Transpose a, Transpose b, std::size_t m, std::size_t n, std::size_t k, Real alpha,
            const Real* A, std::size_t lda, const Real* B, std::size_t ldb, Real beta, Real* C,
            std::size_t ldc) override {
    const bool at = a == Transpose::yes, bt = b == Transpose::yes;
    multiply({m, n, k, alpha, A, at ? 1 : lda, at ? lda : 1, B, bt ? 1 : ldb, bt ? ldb : 1, beta, C,
              ldc});
  }

  void bias_relu(std::size_t rows, std::size_t n, const Real* bias, Real* Y) override {
    cores_.split(rows, 1, kWorthACore / std::max<std::size_t>(n, 1) + 1, [&](Range range) {
      for (std::size_t r = range.begin; r < range.end; ++r) {
        Real* y = Y + r * n;
        for (std::size_t j = 0; j < n; ++j) {
          const Real x = y[j] + bias[j];
          y[j] = x < Real(0) ? Real(0) : x;  // NaN stays NaN
        }
      }
    });
  }
  void dense_relu(std::size_t rows, std::size_t n, std::size_t k, const Real* X, const Real* W,
                  const Real* bias, Real* Y) override {
    multiply({rows, n, k, Real(1), X, k, 1, W, 1, k, Real(0), Y, n, bias});
  }
  void dense_relu_backward(std::size_t rows, std::size_t n, std::size_t k, const Real* D,
                           const Real* W, const Real* Y, Real* dY, Real alpha, Real* b) override {
    multiply({rows, n, k, Real(1), D, k, 1, W, n, 1, Real(0), dY, n, nullptr, Y});
    column_sums(rows, n, alpha, dY, b);
  }
  void column_sums(std::size_t rows, std::size_t n, Real alpha, const Real* D, Real* b) override {
    constexpr std::size_t kColumns = 1024;  // columns whose sums stay in L1
    cores_.split(n, 16, kWorthACore / (rows + 1) + 16, [&](Range columns) {
      Real sum[kColumns];
      for (std::size_t j0 = columns.begin; j0 < columns.end; j0 += kColumns) {
        const std::size_t width = std::min(kColumns, columns.end - j0);
        std::fill_n(sum, width, Real(0));
        for (std::size_t r = 0; r < rows; ++r) {
          const Real* d = D + r * n + j0;
          for (std::size_t j = 0; j < width; ++j) sum[j] += d[j];
        }
        for (std::size_t j = 0; j < width; ++j) b[j0 + j] += alpha * sum[j];
      }
    });
  }

  KernelFamily* family(std::type_index interface) override {
    return families_.find(cores_, interface);
  }

  std::unique_ptr<BasicStreams<Real>> streams(std::size_t tasks) override;

 private:
  void multiply(const GemmArguments<Real>& g) {
    if constexpr (std::is_same_v<Real, float>) {
      if (cores_.precision() == Precision::bf16) return gemm_bf16(cores_, g, pack_.get());
    }
    cpu::gemm(cores_, g, pack_.get());
  }

  void run_rule(std::size_t n, const ElementRule<Real>& rule) override {
    std::visit(
        [&](const auto& call) {
          cores_.split(n, 16, kWorthACore, [&](Range range) { run_range(call, range); });
        },
        rule);
  }
  void run_rule_on_rows(std::span<const std::uint32_t> rows, std::size_t n,
                        const ElementRule<Real>& rule) override {
    std::visit(
        [&](const auto& call) {
          cores_.split(rows.size(), 1, kWorthACore / (n + 1) + 1, [&](Range range) {
            for (std::size_t i = range.begin; i < range.end; ++i) {
              run_range(call, {rows[i] * n, (rows[i] + std::size_t{1}) * n});
            }
          });
        },
        rule);
  }
  double run_norm_rule(std::size_t n, const NormRule<Real>& rule) override {
    return add_chunks<double>(n, [&](std::size_t at, std::size_t count) {
      return std::visit(
          [&](const auto& call) {
            return norm_of_range<Real>(call, {at, at + count});
          },
          rule);
    });
  }

  // Calls chunk(at, count) for every chunk of 0..n, and adds up the results in their order.
  template <class Sum, class Chunk>
  Sum add_chunks(std::size_t n, const Chunk& chunk) {
    const std::size_t chunks = (n + kChunk - 1) / kChunk;
    const auto sum_of = [&](std::size_t c) {
      return chunk(c * kChunk, std::min(kChunk, n - c * kChunk));
    };
    Sum sum{};
    if (cores_.count() == 1 || chunks < 2) {
      for (std::size_t c = 0; c < chunks; ++c) sum += sum_of(c);
      return sum;
    }
    auto* const sums = reinterpret_cast<Sum*>(partial_.get().reserve(chunks * sizeof(Sum)));
    cores_.split(chunks, 1, 1, [&](Range r) {
      for (std::size_t c = r.begin; c < r.end; ++c) sums[c] = sum_of(c);
    });
    for (std::size_t c = 0; c < chunks; ++c) sum += sums[c];
    return sum;
  }

  void transfer(void* to, const void* from, std::size_t bytes) const {
    cores_.split(bytes, 64, std::size_t{1} << 17, [&](Range r) {
      std::memcpy(static_cast<char*>(to) + r.begin, static_cast<const char*>(from) + r.begin,
                  r.size());
    });
  }

  Backend cores_;
  DeviceScratch<Scratch<Real>> pack_;
  DeviceScratch<Scratch<std::byte>> partial_;
  KernelFamilies<Backend> families_;
};

// Stream s of c cores each has the cores [s c, (s + 1) c). The first one runs the tasks and leads
// the others.
template <class Real>
class CpuStreams final : public BasicStreams<Real> {
 public:
  using typename BasicStreams<Real>::Task;

  CpuStreams(const Backend& cores, std::size_t tasks)
      : cores_(cores), errors_(std::clamp<std::size_t>(tasks, 1, cores.count())) {
    for (std::size_t s = 0; s < errors_.size(); ++s) {
      devices_.push_back(std::make_unique<CpuDevice<Real>>(cores, cores.count() / errors_.size()));
    }
  }

  std::size_t count() const override { return devices_.size(); }
  BasicDevice<Real>& device(std::size_t stream) override { return *devices_.at(stream); }

  void run(std::size_t tasks, const Task& start, const Task& finish) override {
    const std::size_t each = team(0).count();
    for (std::size_t s = 0; s < count(); ++s) team(s).gather();
    cores_.run(each * count(), [&](std::size_t part) {
      const std::size_t stream = part / each;
      if (part % each > 0) return team(stream).follow(part % each);
      errors_[stream] = run_tasks(stream, tasks, start, finish);
      team(stream).dismiss();
    });
    for (const std::exception_ptr& error : errors_) {
      if (error) std::rethrow_exception(error);
    }
  }

 private:
  const Backend& team(std::size_t stream) const { return devices_[stream]->cores(); }

  std::exception_ptr run_tasks(std::size_t stream, std::size_t tasks, const Task& start,
                               const Task& finish) const {
    try {
      for (std::size_t j = stream; j < tasks; j += count()) {
        start(j);
        finish(j);
      }
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  const Backend& cores_;
  std::vector<std::exception_ptr> errors_;  // by stream, of the last run()
  std::vector<std::unique_ptr<CpuDevice<Real>>> devices_;
};

template <class Real>
std::unique_ptr<BasicStreams<Real>> CpuDevice<Real>::streams(std::size_t tasks) {
  return std::make_unique<CpuStreams<Real>>(cores_, tasks);
}

template <class Real>
std::unique_ptr<BasicDevice<Real>> make_device(int cores, Precision precision) {
  return std::make_unique<CpuDevice<Real>>(cores, precision);
}

}  // namespace

}  // namespace hetsgd::cpu

// The set's table (linalg/kernel_set.hpp); the build names it.
extern "C" {
#ifdef HETSGD_CONSTRUCTORS  // the section that the build moves them to
[[gnu::visibility("hidden")]] extern const hetsgd::KernelSet::Constructor HETSGD_CONSTRUCTORS[];
[[gnu::visibility("hidden")]] extern const hetsgd::KernelSet::Constructor HETSGD_CONSTRUCTORS_END[];
#else
#define HETSGD_CONSTRUCTORS nullptr
#define HETSGD_CONSTRUCTORS_END nullptr
#endif
extern const hetsgd::KernelSet HETSGD_TABLE;
constinit const hetsgd::KernelSet HETSGD_TABLE = {
    .fp32 = hetsgd::cpu::kRegisterBytes == 64   ? "avx512"
            : hetsgd::cpu::kRegisterBytes == 32 ? "avx2"
                                                : "generic",
    .make_float = hetsgd::cpu::make_device<float>,
    .make_double = hetsgd::cpu::make_device<double>,
    .codes = &hetsgd::cpu::kLaneCodes,
    .constructors = HETSGD_CONSTRUCTORS,
    .constructors_end = HETSGD_CONSTRUCTORS_END};
}
