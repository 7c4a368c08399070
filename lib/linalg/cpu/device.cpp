// The CPU as a device: the kernels of this folder behind BasicDevice.
#include "linalg/device.hpp"

#include <cstring>

#include "linalg/cpu/cores.hpp"
#include "linalg/cpu/gemm.hpp"
#include "linalg/cpu/layers.hpp"
#include "linalg/cpu/memory.hpp"
#include "linalg/cpu/softmax_layer.hpp"
#include "linalg/cpu/softmax_ranks.hpp"
#include "linalg/cpu/sparse.hpp"
#include "linalg/cpu/updates.hpp"
#include "linalg/cpu/vectors.hpp"

namespace hetsgd {

namespace {

template <class Real>
struct CpuScratch {
  cpu::Scratch<Real> pack;
  cpu::Scratch<double> doubles;
  cpu::SoftmaxLayerKernel<Real> softmax_layer;
  cpu::SoftmaxRanksKernel<Real> softmax_ranks;
};

template <class Real>
class CpuDevice final : public BasicDevice<Real> {
 public:
  explicit CpuDevice(int cores) : cores_(cores) {
    if (cores > 1) shared_ = std::make_unique<CpuScratch<Real>>();
  }

  std::string name() const override { return fmt::format("cpu:{}", cores_.count()); }

  void* allocate(std::size_t bytes) override { return cpu::allocate_aligned(bytes); }
  void release(void* memory) noexcept override { cpu::release_aligned(memory); }
  void upload(void* device, const void* host, std::size_t bytes) override {
    transfer(device, host, bytes);
  }
  void download(void* host, const void* device, std::size_t bytes) override {
    transfer(host, device, bytes);
  }
  void synchronize() override {}
  bool host_accessible(const void*) const override { return true; }
  SparseRows<Real> stage(const SparseRows<Real>& batch) override { return batch; }
  bool stages_copies() const override { return false; }

  void fill(std::size_t n, Real a, Real* y) override { cpu::fill(cores_, n, a, y); }
  void copy(std::size_t n, const Real* x, Real* y) override { transfer(y, x, n * sizeof(Real)); }
  void axpby(std::size_t n, Real a, const Real* x, Real b, Real* y) override {
    cpu::axpby(cores_, n, a, x, b, y);
  }
  double dot(std::size_t n, const Real* x, const Real* y) override {
    return cpu::dot(cores_, n, x, y, scratch().doubles);
  }
  double squared_norm(std::size_t n, const Real* x) override {
    return cpu::dot(cores_, n, x, x, scratch().doubles);
  }
  Products products(std::size_t n, const Real* x, const Real* y) override {
    return cpu::products(cores_, n, x, y, scratch().doubles);
  }
  void combine(std::size_t n, double a, const Real* x, double b, const Real* y, Real* z) override {
    cpu::combine(cores_, n, a, x, b, y, z);
  }
  void momentum_merge(std::size_t n, const Real* merged, Real gamma, Real* w,
                      Real* previous) override {
    cpu::momentum_merge(cores_, n, merged, gamma, w, previous);
  }

  void momentum_step(std::size_t n, const MomentumRule<Real>& rule, const Real* g, Real* v,
                     Real* w) override {
    cpu::momentum_step(cores_, n, rule, g, v, w);
  }
  void moment_step(std::size_t n, const MomentRule<Real>& rule, Real step, const Real* g, Real* m,
                   Real* v, Real* w) override {
    cpu::moment_step(cores_, n, rule, step, g, m, v, w);
  }
  double moment_update(std::size_t n, const MomentRule<Real>& rule, const Real* g, const Real* w,
                       Real* m, Real* v) override {
    return cpu::moment_update(cores_, n, rule, g, w, m, v, scratch().doubles);
  }
  void moment_apply(std::size_t n, const MomentRule<Real>& rule, Real step, const Real* m,
                    const Real* v, Real* w) override {
    cpu::moment_apply(cores_, n, rule, step, m, v, w);
  }

  void fill_rows(std::span<const std::uint32_t> rows, std::size_t n, Real a, Real* Y) override {
    cpu::fill_rows(cores_, rows, n, a, Y);
  }
  void add_rows(std::span<const std::uint32_t> rows, std::size_t n, Real a, const Real* X,
                Real* Y) override {
    cpu::add_rows(cores_, rows, n, a, X, Y);
  }

  void gemm(Transpose a, Transpose b, std::size_t m, std::size_t n, std::size_t k, Real alpha,
            const Real* A, std::size_t lda, const Real* B, std::size_t ldb, Real beta, Real* C,
            std::size_t ldc) override {
    const bool at = a == Transpose::yes, bt = b == Transpose::yes;
    cpu::gemm(cores_,
              cpu::GemmArguments<Real>{m, n, k, alpha, A, at ? 1 : lda, at ? lda : 1, B,
                                       bt ? 1 : ldb, bt ? ldb : 1, beta, C, ldc},
              scratch().pack);
  }

  void sparse_forward(const SparseRows<Real>& X, std::size_t n, const Real* W, const Real* bias,
                      bool relu, Real* Y) override {
    cpu::sparse_forward(cores_, X, n, W, bias, relu, Y);
  }
  void sparse_update(const SparseRows<Real>& X, std::size_t n, Real alpha, const Real* D,
                     Real* W) override {
    cpu::sparse_update(cores_, X, n, alpha, D, W);
  }

  void bias_relu(std::size_t rows, std::size_t n, const Real* bias, Real* Y) override {
    cpu::bias_relu(cores_, rows, n, bias, Y);
  }
  void relu_backward(std::size_t rows, std::size_t n, const Real* Y, Real* D) override {
    cpu::relu_backward(cores_, rows, n, Y, D);
  }
  void column_sums(std::size_t rows, std::size_t n, Real alpha, const Real* D, Real* b) override {
    cpu::column_sums(cores_, rows, n, alpha, D, b);
  }

  DeferredSum softmax_cross_entropy(const SparseRows<Real>& labels, std::size_t n, const Real* bias,
                                    Real scale, Real* Z) override {
    return cpu::softmax_rows(cores_, labels, n, bias, true, scale, Z, scratch().doubles);
  }
  DeferredSum softmax_loss(const SparseRows<Real>& labels, std::size_t n, const Real* bias,
                           Real* Z) override {
    return cpu::softmax_rows(cores_, labels, n, bias, false, Real(1), Z, scratch().doubles);
  }
  DeferredSum softmax_layer(const SparseRows<Real>& labels,
                            const SoftmaxLayer<Real>& layer) override {
    return scratch().softmax_layer.run(cores_, labels, layer);
  }
  DeferredSum softmax_ranks(const SparseRows<Real>& labels, const SoftmaxLayer<Real>& layer,
                            std::size_t k, std::uint32_t* top) override {
    return scratch().softmax_ranks.run(cores_, labels, layer, k, top);
  }
  DeferredSum sigmoid_cross_entropy(const SparseRows<Real>& labels, const Real* bias, Real scale,
                                    Real* Z) override {
    return cpu::sigmoid_rows(labels, bias, true, scale, Z);
  }
  DeferredSum sigmoid_loss(const SparseRows<Real>& labels, const Real* bias, Real* Z) override {
    return cpu::sigmoid_rows(labels, bias, false, Real(1), Z);
  }

  void top_k(std::size_t rows, std::size_t n, const Real* Z, std::size_t k,
             std::uint32_t* top) override {
    cpu::top_k(cores_, rows, n, Z, k, top);
  }

 private:
  void transfer(void* to, const void* from, std::size_t bytes) const {
    cores_.split(bytes, 64, std::size_t{1} << 17, [&](cpu::Range r) {
      std::memcpy(static_cast<char*>(to) + r.begin, static_cast<const char*>(from) + r.begin,
                  r.size());
    });
  }

  // No call keeps anything in scratch for the next one, so devices of one core share their
  // thread's.
  CpuScratch<Real>& scratch() {
    if (shared_) return *shared_;
    thread_local CpuScratch<Real> own;
    return own;
  }

  cpu::Cores cores_;
  std::unique_ptr<CpuScratch<Real>> shared_;  // of a device with several cores
};

}  // namespace

template <class Real>
std::unique_ptr<BasicDevice<Real>> make_cpu_device(int cores) {
  if (cores < 1 || cores > 1024) {
    throw device_error("cpu:{}: a CPU device takes 1 to 1024 cores", cores);
  }
  return std::make_unique<CpuDevice<Real>>(cores);
}

template std::unique_ptr<BasicDevice<float>> make_cpu_device<float>(int);
template std::unique_ptr<BasicDevice<double>> make_cpu_device<double>(int);

}  // namespace hetsgd
