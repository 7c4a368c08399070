// The kernels of ONE device, and memory on it. Models and algorithms are written against this
// interface, which linalg/cpu and linalg/cuda implement.
//
// Shapes  : row-major; `rows x cols`, leading dimension = cols unless a parameter says otherwise.
// Memory  : every pointer is device memory of this device, except where a comment says host.
// Order   : calls of one device run in order. On a GPU they are asynchronous: numbers and arrays
//           that come back to the host (dot, squared_norm, top_k, download) synchronise, nothing
//           else does; losses are waited for when they are read (DeferredSum).
// Threads : several devices work at the same time; one device takes one call at a time, from any
//           thread.
// Numbers : Real is float in training and double in gradient checks. Reductions that leave the
//           device (dot, squared_norm, products, loss) accumulate in double.
// Errors  : programming errors only (checks); out of memory is Error(device), MemoryError on a GPU.
// Exact   : a kernel's result is the same bits for the same inputs on the same machine, whatever
//           the load.
// NaN     : passes through every kernel (ReLU included) into the loss: a diverged run shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "linalg/operands.hpp"

namespace hetsgd {

enum class Transpose { no, yes };

// What dense products of floats are computed with. Operands and results stay floats and sums have
// 24 bits; tf32 and bf16 let a GPU's tensor cores round the factors to 11 and 8 bits. cuBLAS may
// keep more of them than it was asked for: on an H200 it takes TF32 for BF16.
enum class Precision { fp32, tf32, bf16 };

// A sum that its device may still be working on. Reading it (as a double) waits for it, but not for
// what the device was given after it. Good until the device's next call that returns one.
class DeferredSum {
 public:
  class Source {
   public:
    virtual ~Source() = default;
    // The sum of the `call`-th call. Checked: that was the last one.
    virtual double await(std::uint64_t call) const = 0;
  };
  DeferredSum(double value) : value_(value) {}  // NOLINT: a sum that is there already
  DeferredSum(const Source& source, std::uint64_t call) : source_(&source), call_(call) {}
  operator double() const { return source_ ? source_->await(call_) : value_; }  // NOLINT

 private:
  const Source* source_ = nullptr;
  std::uint64_t call_ = 0;
  double value_ = 0;
};

// A GPU's memory is used up. The message names the device, how much was needed and what for.
class MemoryError : public Error {
 public:
  MemoryError(std::string message, std::string hint, std::size_t available)
      : Error(ExitCode::device, std::move(message), std::move(hint)), available_(available) {}
  // Bytes that are free, or that the device holds for the batch at hand only: what a smaller batch
  // could use.
  std::size_t available() const { return available_; }

 private:
  std::size_t available_;
};

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
  // True where the host reads and writes `memory` in place: everything on a CPU; on a GPU what none
  // of the GPUs allocated.
  virtual bool host_accessible(const void* memory) const = 0;
  // A batch in host memory as this device's kernels read it: in place on a CPU; a copy on a GPU,
  // made beside its kernels, after which the host may reuse its arrays. A copy is good until the
  // second call of stage() after it: features and labels of a batch.
  virtual SparseRows<Real> stage(const SparseRows<Real>& batch) = 0;
  // True where stage() copies: then it pays to stage the next batch while kernels run.
  virtual bool stages_copies() const = 0;

  // --- vectors of n ------------------------------------------------------------------------------
  virtual void fill(std::size_t n, Real a, Real* y) = 0;         // y = a
  virtual void copy(std::size_t n, const Real* x, Real* y) = 0;  // y = x
  // y = a x + b y; b = 0 never reads y.
  virtual void axpby(std::size_t n, Real a, const Real* x, Real b, Real* y) = 0;
  virtual double dot(std::size_t n, const Real* x, const Real* y) = 0;
  virtual double squared_norm(std::size_t n, const Real* x) = 0;
  // x.y, ||x||^2 and ||y||^2 in one pass over both.
  virtual Products products(std::size_t n, const Real* x, const Real* y) = 0;
  // z = a x + b y, made in double and rounded once; z may be x or y.
  virtual void combine(std::size_t n, double a, const Real* x, double b, const Real* y,
                       Real* z) = 0;
  // w' = merged + gamma (w - previous); previous = w; w = w'. One pass: the momentum merge of paper
  // 000, algorithm 2, lines 11 and 12.
  virtual void momentum_merge(std::size_t n, const Real* merged, Real gamma, Real* w,
                              Real* previous) = 0;

  // --- optimizer updates of n numbers: one pass over their operands, element by element ---------
  virtual void momentum_step(std::size_t n, const MomentumRule<Real>& rule, const Real* g, Real* v,
                             Real* w) = 0;
  // m and v, then w <- w - step r.
  virtual void moment_step(std::size_t n, const MomentRule<Real>& rule, Real step, const Real* g,
                           Real* m, Real* v, Real* w) = 0;
  // The same in two calls, for a step that depends on r: m and v, returns ||r||^2; then w.
  virtual double moment_update(std::size_t n, const MomentRule<Real>& rule, const Real* g,
                               const Real* w, Real* m, Real* v) = 0;
  virtual void moment_apply(std::size_t n, const MomentRule<Real>& rule, Real step, const Real* m,
                            const Real* v, Real* w) = 0;

  // --- some rows of matrices [. x n]; `rows` is host memory, without repetitions ----------------
  virtual void fill_rows(std::span<const std::uint32_t> rows, std::size_t n, Real a, Real* Y) = 0;
  // Y[r] += a X[r] for every r in rows.
  virtual void add_rows(std::span<const std::uint32_t> rows, std::size_t n, Real a, const Real* X,
                        Real* Y) = 0;

  // --- dense -------------------------------------------------------------------------------------
  // C[m x n] = alpha op(A)[m x k] op(B)[k x n] + beta C. lda, ldb, ldc are the stored row lengths.
  virtual void gemm(Transpose a, Transpose b, std::size_t m, std::size_t n, std::size_t k,
                    Real alpha, const Real* A, std::size_t lda, const Real* B, std::size_t ldb,
                    Real beta, Real* C, std::size_t ldc) = 0;

  // --- sparse rows x dense -----------------------------------------------------------------------
  // Y[rows x n] = X W + bias, W is [columns x n]; bias [n] may be null. relu: max(., 0) on the way
  // out.
  virtual void sparse_forward(const SparseRows<Real>& X, std::size_t n, const Real* W,
                              const Real* bias, bool relu, Real* Y) = 0;
  // W += alpha X^T D, D is [rows x n]. Only rows of W that occur in X are touched.
  virtual void sparse_update(const SparseRows<Real>& X, std::size_t n, Real alpha, const Real* D,
                             Real* W) = 0;

  // --- layers ------------------------------------------------------------------------------------
  // Y[rows x n] = max(Y + bias, 0) in place.
  virtual void bias_relu(std::size_t rows, std::size_t n, const Real* bias, Real* Y) = 0;
  // D[rows x n] = 0 where activation Y <= 0 (the gradient of ReLU), in place.
  virtual void relu_backward(std::size_t rows, std::size_t n, const Real* Y, Real* D) = 0;
  // b[n] += alpha * sum over rows of D[rows x n].
  virtual void column_sums(std::size_t rows, std::size_t n, Real alpha, const Real* D, Real* b) = 0;

  // Softmax cross-entropy, forward and gradient in one pass over the logits:
  //   Z[rows x n] holds X W (without bias); Z <- scale * (softmax(Z + bias) - T), T_rl = 1/|Y_r| on
  //   true labels, which ascend; rows without labels: Z <- 0 and no loss. Max-subtracted. bias may
  //   be null. Returns the sum over rows of -sum_l T_rl log softmax_rl.
  virtual DeferredSum softmax_cross_entropy(const SparseRows<Real>& labels, std::size_t n,
                                            const Real* bias, Real scale, Real* Z) = 0;
  // The same without the gradient: Z <- Z + bias, returns the loss sum.
  virtual DeferredSum softmax_loss(const SparseRows<Real>& labels, std::size_t n, const Real* bias,
                                   Real* Z) = 0;
  // Forward, gradient and accumulation of the output layer in one call, the hot path of a model
  // with many labels; the logits never leave the device's scratch:
  //   Z = A W^T + b, D = scale (softmax(Z) - T), dA = D W,
  //   G = beta G + alpha D^T A, g = beta g + alpha D^T 1
  // With G = W, g = b, beta = 1 and alpha = -learning rate it is the SGD step of the layer; dA is
  // taken at the weights before it. Rows without labels: D = 0 and no loss. A row's labels must
  // ascend. beta = 0 never reads G and g. Returns the loss sum over the rows; NaN if any logit of a
  // labelled row is NaN.
  virtual DeferredSum softmax_layer(const SparseRows<Real>& labels,
                                    const SoftmaxLayer<Real>& layer) = 0;
  // Measures the output layer: the loss sum over the rows, as above, and the k best labels of each
  // row, as top_k has them, into `top` [rows x k] in device memory. It works block of labels by
  // block: the scores are never all in memory. Of `layer` it reads inputs, outputs, input, weight
  // and bias.
  virtual DeferredSum softmax_ranks(const SparseRows<Real>& labels, const SoftmaxLayer<Real>& layer,
                                    std::size_t k, std::uint32_t* top) = 0;

  // One logit per row: Z[rows] <- scale * (sigmoid(Z + bias) - t), t = 1 where the row has a label.
  // Returns the sum of log(1 + exp(-+z)) in its stable form.
  virtual DeferredSum sigmoid_cross_entropy(const SparseRows<Real>& labels, const Real* bias,
                                            Real scale, Real* Z) = 0;
  virtual DeferredSum sigmoid_loss(const SparseRows<Real>& labels, const Real* bias, Real* Z) = 0;

  // The 1 <= k <= min(n, 16) largest of each row of Z[rows x n], best first; ties: the smaller
  // label first; NaN ranks last. Host output top[rows x k].
  virtual void top_k(std::size_t rows, std::size_t n, const Real* Z, std::size_t k,
                     std::uint32_t* top) = 0;
};

using Device = BasicDevice<float>;

// Owning device memory for `size` numbers. Move-only; grows by reset(), never shrinks.
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

  // Makes room for at least `size` numbers; contents are undefined afterwards if it had to grow.
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
// two threads need scratch twice; with several cores scratch belongs to the device. Scratch grows
// to the largest call (softmax_layer: as much as the logits) and stays, so that steady state
// allocates nothing. Instantiated for float and double.
template <class Real>
std::unique_ptr<BasicDevice<Real>> make_cpu_device(int cores);

}  // namespace hetsgd
