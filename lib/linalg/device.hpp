// ONE device: its memory, transfers, vectors and dense matrices. Models and algorithms are written
// against this interface, which linalg/cpu and linalg/cuda implement. Operations that only some
// models need are kernel families, interfaces of their own that a device is asked for (kernels(),
// at the end).
//
// Shapes  : row-major; `rows x cols`, leading dimension = cols unless a parameter says otherwise.
// Memory  : every pointer is device memory of this device, except where a comment says host.
// Order   : calls of one device, those of its kernel families included, run in order. On a GPU they
//           are asynchronous: numbers and arrays that come back to the host (dot, apply_norm,
//           top_k, download) synchronise, nothing else does; losses are waited for when they are
//           read (DeferredSum).
// Threads : several devices work at the same time; one device takes one call at a time, from any
//           thread.
// Numbers : Real is float in training and double in gradient checks. Reductions that leave the
//           device (dot, products, apply_norm, loss) accumulate in double.
// Throws  : CheckFailure for programming errors; Error(device) without memory, on a GPU MemoryError
// Exact   : a kernel's result is the same bits for the same inputs on the same machine, whatever
//           the load.
// NaN     : passes through every kernel (ReLU included) into the loss: a diverged run shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <typeindex>
#include <utility>

#include "core/error.hpp"
#include "linalg/element_rules.hpp"
#include "linalg/kernel_family.hpp"
#include "linalg/operands.hpp"

namespace hetsgd {

// A GPU's memory is used up. The message names the device, how much was needed and what for.
class MemoryError : public Error {
 public:
  MemoryError(std::string message, std::string hint, std::size_t available)
      : Error(ExitCode::device, std::move(message), std::move(hint)), available_(available) {}
  // Bytes that a smaller batch could use: free ones, and those that the device holds only for the
  // current batch.
  std::size_t available() const { return available_; }

 private:
  std::size_t available_;
};

template <class Real>
class BasicStreams;

template <class Real>
class BasicDevice {
 public:
  virtual ~BasicDevice() = default;

  virtual std::string name() const = 0;  // "cpu:2", "cuda:0 (NVIDIA H200)"

  // --- memory ------------------------------------------------------------------------------------
  virtual void* allocate(std::size_t bytes) = 0;  // 64-byte aligned, not initialised; never null
  virtual void release(void* memory) noexcept = 0;
  virtual void upload(void* device, const void* host, std::size_t bytes) = 0;
  virtual void download(void* host, const void* device, std::size_t bytes) = 0;
  virtual void synchronize() = 0;
  // True if the host reads and writes `memory` in place. On a CPU this holds for all memory, on a
  // GPU for memory that no GPU has allocated.
  virtual bool host_accessible(const void* memory) const = 0;
  // A batch in host memory in the form that this device's kernels read. On a CPU it is used in
  // place. On a GPU it is copied beside its kernels, and the host may reuse its arrays afterwards.
  // A copy is valid until the second call of stage() after it, so that features and labels of a
  // batch can be staged.
  virtual SparseRows<Real> stage(const SparseRows<Real>& batch) = 0;
  // The same for dense columns and categories.
  virtual FieldRows<Real> stage(const FieldRows<Real>& batch) = 0;
  // True if stage() copies. Then it pays to stage the next batch while kernels run.
  virtual bool stages_copies() const = 0;

  // --- vectors of n ------------------------------------------------------------------------------
  virtual void copy(std::size_t n, const Real* x, Real* y) = 0;  // y = x
  virtual double dot(std::size_t n, const Real* x, const Real* y) = 0;
  double squared_norm(std::size_t n, const Real* x) { return dot(n, x, x); }
  // x.y, ||x||^2 and ||y||^2 in one pass over both.
  virtual Products products(std::size_t n, const Real* x, const Real* y) = 0;

  // --- element by element ------------------------------------------------------------------------
  // Applies a rule of element_rules.hpp to n elements, in one pass over its operands. They are
  // given in the order of the rule's parameters, followed by the operand for its return value:
  //   device.apply(n, rule::MomentumMerge<Real>{gamma}, merged, w, previous);
  template <class Rule, class... Pointers>
  void apply(std::size_t n, const Rule& rule, Pointers... operands) {
    run_rule(n, element_call(rule, operands...));
  }
  // The same for some rows of matrices [. x n]; `rows` is host memory, without repetitions.
  template <class Rule, class... Pointers>
  void apply_rows(std::span<const std::uint32_t> rows, std::size_t n, const Rule& rule,
                  Pointers... operands) {
    run_rule_on_rows(rows, n, element_call(rule, operands...));
  }
  // Applies a rule and returns the sum of squares of its return values.
  template <class Rule, class... Pointers>
  double apply_norm(std::size_t n, const Rule& rule, Pointers... operands) {
    static_assert(std::is_constructible_v<NormRule<Real>, ElementCall<Rule>>,
                  "the rule must be listed in NormRule (linalg/element_rules.hpp)");
    return run_norm_rule(n, ElementCall<Rule>(rule, operands...));
  }

  void fill(std::size_t n, Real a, Real* y) { apply(n, rule::Fill<Real>{a}, y); }  // y = a
  // y = a x + b y; b = 0 never reads y.
  void axpby(std::size_t n, Real a, const Real* x, Real b, Real* y) {
    if (b == Real(0)) return apply(n, rule::Scale<Real>{a}, x, y);
    if (b == Real(1)) return apply(n, rule::AddScaled<Real>{a}, x, y);
    apply(n, rule::Axpby<Real>{a, b}, x, y);
  }

  // --- dense matrices ----------------------------------------------------------------------------
  // C[m x n] = alpha op(A)[m x k] op(B)[k x n] + beta C. lda, ldb, ldc are the stored row lengths.
  virtual void gemm(Transpose a, Transpose b, std::size_t m, std::size_t n, std::size_t k,
                    Real alpha, const Real* A, std::size_t lda, const Real* B, std::size_t ldb,
                    Real beta, Real* C, std::size_t ldc) = 0;
  // Y[rows x n] = max(Y + bias, 0) in place.
  virtual void bias_relu(std::size_t rows, std::size_t n, const Real* bias, Real* Y) = 0;
  // A dense layer, with the bits of gemm() and bias_relu(): Y[rows x n] = max(X W^T + bias, 0) for
  // X[rows x k] and W[n x k].
  virtual void dense_relu(std::size_t rows, std::size_t n, std::size_t k, const Real* X,
                          const Real* W, const Real* bias, Real* Y) {
    gemm(Transpose::no, Transpose::yes, rows, n, k, Real(1), X, k, W, k, Real(0), Y, n);
    bias_relu(rows, n, bias, Y);
  }
  // b[n] += alpha * sum over rows of D[rows x n].
  virtual void column_sums(std::size_t rows, std::size_t n, Real alpha, const Real* D, Real* b) = 0;
  // The backward pass of bias_relu() from its output Y: D[rows x n] <- 0 where Y <= 0, then
  // column_sums() of it, with the bits of the two calls. On a GPU this is one launch.
  virtual void relu_gradient_sums(std::size_t rows, std::size_t n, Real alpha, const Real* Y,
                                  Real* D, Real* b) {
    apply(rows * n, rule::ReluGradient<Real>(), Y, D);
    column_sums(rows, n, alpha, D, b);
  }
  // The backward pass from a dense layer to the one below, with the bits of gemm() and
  // relu_gradient_sums(). Y[rows x n] are the activations of the layer below: dY[rows x n] = D W
  // for D[rows x k] and W[k x n], 0 where Y <= 0, and b[n] += alpha * sum over rows of dY.
  virtual void dense_relu_backward(std::size_t rows, std::size_t n, std::size_t k, const Real* D,
                                   const Real* W, const Real* Y, Real* dY, Real alpha, Real* b) {
    gemm(Transpose::no, Transpose::no, rows, n, k, Real(1), D, k, W, n, Real(0), dY, n);
    relu_gradient_sums(rows, n, alpha, Y, dY, b);
  }

  // --- kernel families ---------------------------------------------------------------------------
  // The device's implementation of a kernel family, or null; see kernels() below.
  virtual KernelFamily* family(std::type_index interface) = 0;

  // --- streams -----------------------------------------------------------------------------------
  // Parts of this device for `tasks` computations at once (linalg/streams.hpp). The device itself
  // must get no work while they run. Throws what making a device throws.
  virtual std::unique_ptr<BasicStreams<Real>> streams(std::size_t tasks) = 0;

 private:
  virtual void run_rule(std::size_t n, const ElementRule<Real>& rule) = 0;
  virtual void run_rule_on_rows(std::span<const std::uint32_t> rows, std::size_t n,
                                const ElementRule<Real>& rule) = 0;
  virtual double run_norm_rule(std::size_t n, const NormRule<Real>& rule) = 0;

  template <class Rule, class... Pointers>
  static ElementRule<Real> element_call(const Rule& rule, Pointers... operands) {
    using Call = ElementCall<Rule>;
    static_assert(std::is_constructible_v<ElementRule<Real>, Call>,
                  "the rule must be listed in ElementRule (linalg/element_rules.hpp)");
    static_assert(sizeof...(Pointers) == Call::kParameters + (Call::kReturns ? 1 : 0),
                  "a rule takes a pointer per parameter and one for what it returns");
    return Call(rule, operands...);
  }
};

// The device's kernels of a family, valid as long as the device. Ask once and keep the reference:
//   BasicSparseKernels<Real>& sparse = kernels<BasicSparseKernels<Real>>(device);
// Error(device) if the device's backend has no such family.
template <class Family, class Real>
Family& kernels(BasicDevice<Real>& device) {
  if (KernelFamily* const family = device.family(typeid(Family))) {
    return static_cast<Family&>(*family);
  }
  throw with_hint(device_error("{}: this device has no {}", device.name(), Family::kName),
                  "use another device (--devices), or implement them for this one: "
                  "lib/linalg/README.md");
}

using Device = BasicDevice<float>;

// Owning device memory for `size` elements. Move-only; grows by reset(), never shrinks.
template <class Real>
class BasicBuffer {
 public:
  BasicBuffer() = default;
  BasicBuffer(BasicDevice<Real>& device, std::size_t size) { reset(device, size); }
  BasicBuffer(BasicBuffer&& other) noexcept { swap(other); }
  BasicBuffer& operator=(BasicBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~BasicBuffer() {
    if (data_) device_->release(data_);
  }

  // Makes room for at least `size` elements. Contents are undefined afterwards if it had to grow.
  void reset(BasicDevice<Real>& device, std::size_t size) {
    if (device_ == &device && size <= capacity_) {
      size_ = size;
      return;
    }
    if (data_) device_->release(std::exchange(data_, nullptr));
    size_ = capacity_ = 0;
    device_ = &device;
    data_ = static_cast<Real*>(device.allocate(size * sizeof(Real)));
    size_ = capacity_ = size;
  }

  Real* data() { return data_; }
  const Real* data() const { return data_; }
  std::size_t size() const { return size_; }
  BasicDevice<Real>* device() const { return device_; }  // null: it never had memory
  std::span<Real> span() { return {data_, size_}; }
  std::span<const Real> span() const { return {data_, size_}; }

 private:
  void swap(BasicBuffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  BasicDevice<Real>* device_ = nullptr;
  Real* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

using Buffer = BasicBuffer<float>;

// A CPU device that uses `cores` cores (1..1024, else Error(device)). With one core everything runs
// on the calling thread and scratch belongs to that thread, so that a thousand simulated workers on
// two threads need scratch only twice. With several cores scratch belongs to the device. Scratch
// grows to the largest call (softmax_layer: as much as the logits) and stays, so that steady state
// allocates nothing. Instantiated for float and double.
//
// `precision` bf16 rounds the factors of dense products of floats as they are packed; fp32 is for
// everything else. There is no tf32 on CPUs.
template <class Real>
std::unique_ptr<BasicDevice<Real>> make_cpu_device(int cores,
                                                   Precision precision = Precision::fp32);

}  // namespace hetsgd
