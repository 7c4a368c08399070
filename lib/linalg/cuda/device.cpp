// A GPU as a device: the kernels of this folder behind BasicDevice.
//
// Everything goes to one stream (but batches on their way: a second one); the current GPU is set at
// each call, since calls may come from any thread.
//
// No CUDA graphs. They would save the host a few microseconds per launch, but the host does not
// wait inside a step: it launches the next kernels while the GPU is at work on those before, for
// milliseconds with many labels. (On an H200 kernels run in 98 % of the time of an Amazon-670k step
// of 256 samples with TF32. A step of 0.2 ms, as for Delicious, waits for launches.) And a graph
// fixes every size and address, where a step has new ones each time: the number of nonzeros (the
// grid of the sparse update), the memory of the staged batch, the learning rate inside of products.
// Captured anew and updated for each step, a graph costs the host about what the launches cost.
#include <cuda_runtime_api.h>

#include <limits>

#include "linalg/cuda/adasum.hpp"
#include "linalg/cuda/batch.hpp"
#include "linalg/cuda/blas.hpp"
#include "linalg/cuda/check.hpp"
#include "linalg/cuda/cuda_device.hpp"
#include "linalg/cuda/index.hpp"
#include "linalg/cuda/layers.hpp"
#include "linalg/cuda/resources.hpp"
#include "linalg/cuda/softmax.hpp"
#include "linalg/cuda/softmax_layer.hpp"
#include "linalg/cuda/sparse.hpp"
#include "linalg/cuda/transfer.hpp"
#include "linalg/cuda/vectors.hpp"

namespace hetsgd {

namespace {

// One number on its way back to the host.
class Result final : public DeferredSum::Source {
 public:
  explicit Result(const cuda::Stream& stream)
      : stream_(stream),
        memory_(stream),
        device_(memory_.reserve<double>(1, kPurpose)),
        host_(reinterpret_cast<double*>(pinned_.reserve(sizeof(double), kPurpose))) {}

  double* device() const { return device_; }
  // Sends the number after what the stream has been given so far.
  DeferredSum send() {
    HETSGD_CUDA(
        cudaMemcpyAsync(host_, device_, sizeof(double), cudaMemcpyDeviceToHost, stream_.get()));
    sent_.record(stream_);
    return {*this, ++calls_};
  }
  double await(std::uint64_t call) const override {
    HETSGD_CHECK_EQ(call, calls_);
    sent_.wait();
    return *host_;
  }

 private:
  static constexpr const char* kPurpose = "a result";
  const cuda::Stream& stream_;
  cuda::DeviceMemory memory_;
  cuda::Pinned pinned_;
  cuda::Event sent_;
  std::uint64_t calls_ = 0;
  double* device_;
  double* host_;
};

template <class Real>
class CudaDevice final : public BasicDevice<Real> {
 public:
  // `ordinal` is the current device.
  CudaDevice(int ordinal, std::string name, Precision precision, std::size_t logit_budget,
             std::size_t logit_block)
      : ordinal_(ordinal),
        name_(std::move(name)),
        blas_(stream_, precision),
        transfer_(stream_),
        batches_(stream_),
        result_(stream_),
        softmax_(stream_),
        ranking_(stream_),
        layer_(stream_, blas_, ranking_, logit_budget, logit_block),
        partials_(stream_),
        reals_(stream_),
        rows_(stream_) {
    stream_.keep_what_is_held();
  }

  ~CudaDevice() override {
    cudaSetDevice(ordinal_);
    cudaStreamSynchronize(stream_.get());  // before what kernels still use goes
  }

  std::string name() const override { return name_; }

  void* allocate(std::size_t bytes) override {
    use();
    void* memory = nullptr;
    const std::size_t size = std::max(bytes, std::size_t{1});
    const cudaError_t status = cudaMallocAsync(&memory, size, stream_.get());
    if (status != cudaSuccess) {
      stream_.synchronize();  // what was given back before is free then
      cuda::fail_pool(status, size, "a vector", stream_.batch_bytes(), stream_.get());
    }
    stream_.synchronize();  // other devices of this GPU may use it too: a companion's
    return memory;
  }
  void release(void* memory) noexcept override {
    cudaSetDevice(ordinal_);
    cudaFreeAsync(memory, stream_.get());
  }
  void upload(void* device, const void* host, std::size_t bytes) override {
    use();
    transfer_.upload(device, host, bytes);
  }
  void download(void* host, const void* device, std::size_t bytes) override {
    use();
    transfer_.download(host, device, bytes);
  }
  void synchronize() override {
    use();
    stream_.synchronize();
  }
  bool host_accessible(const void* memory) const override {
    if (memory == nullptr) return true;
    cudaPointerAttributes attributes;
    HETSGD_CUDA(cudaPointerGetAttributes(&attributes, memory));
    return attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged;
  }
  SparseRows<Real> stage(const SparseRows<Real>& batch) override {
    use();
    return batches_.stage(batch);
  }
  bool stages_copies() const override { return true; }

  void fill(std::size_t n, Real a, Real* y) override { cuda::fill(use(), n, a, y); }
  void copy(std::size_t n, const Real* x, Real* y) override {
    use();
    if (n == 0 || x == y) return;
    HETSGD_CUDA(cudaMemcpyAsync(y, x, n * sizeof(Real), cudaMemcpyDeviceToDevice, stream_.get()));
  }
  void axpby(std::size_t n, Real a, const Real* x, Real b, Real* y) override {
    cuda::axpby(use(), n, a, x, b, y);
  }
  double dot(std::size_t n, const Real* x, const Real* y) override {
    cuda::dot(use(), n, x, y, sums(cuda::kMostPartials), result_.device());
    return fetch();
  }
  double squared_norm(std::size_t n, const Real* x) override { return dot(n, x, x); }
  Products products(std::size_t n, const Real* x, const Real* y) override {
    double* const partials = sums(3 * cuda::kMostPartials + 3);
    double* const totals = partials + 3 * cuda::kMostPartials;
    cuda::products(use(), n, x, y, partials, totals);
    double sum[3];
    transfer_.download(sum, totals, sizeof(sum));
    return {sum[0], sum[1], sum[2]};
  }
  void combine(std::size_t n, double a, const Real* x, double b, const Real* y, Real* z) override {
    cuda::combine(use(), n, a, x, b, y, z);
  }
  void momentum_merge(std::size_t n, const Real* merged, Real gamma, Real* w,
                      Real* previous) override {
    cuda::momentum_merge(use(), n, merged, gamma, w, previous);
  }

  void momentum_step(std::size_t n, const MomentumRule<Real>& rule, const Real* g, Real* v,
                     Real* w) override {
    cuda::momentum_step(use(), n, rule, g, v, w);
  }
  void moment_step(std::size_t n, const MomentRule<Real>& rule, Real step, const Real* g, Real* m,
                   Real* v, Real* w) override {
    cuda::moment_step(use(), n, rule, step, g, m, v, w);
  }
  double moment_update(std::size_t n, const MomentRule<Real>& rule, const Real* g, const Real* w,
                       Real* m, Real* v) override {
    cuda::moment_update(use(), n, rule, g, w, m, v, sums(cuda::kMostPartials), result_.device());
    return fetch();
  }
  void moment_apply(std::size_t n, const MomentRule<Real>& rule, Real step, const Real* m,
                    const Real* v, Real* w) override {
    cuda::moment_apply(use(), n, rule, step, m, v, w);
  }

  void fill_rows(std::span<const std::uint32_t> rows, std::size_t n, Real a, Real* Y) override {
    cuda::fill_rows(use(), rows.size(), bring(rows), n, a, Y);
  }
  void add_rows(std::span<const std::uint32_t> rows, std::size_t n, Real a, const Real* X,
                Real* Y) override {
    cuda::add_rows(use(), rows.size(), bring(rows), n, a, X, Y);
  }

  void gemm(Transpose a, Transpose b, std::size_t m, std::size_t n, std::size_t k, Real alpha,
            const Real* A, std::size_t lda, const Real* B, std::size_t ldb, Real beta, Real* C,
            std::size_t ldc) override {
    use();
    blas_.gemm(a, b, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
  }

  void sparse_forward(const SparseRows<Real>& X, std::size_t n, const Real* W, const Real* bias,
                      bool relu, Real* Y) override {
    batches_.check(X);
    cuda::sparse_forward(use(), X, n, W, bias, relu, Y);
  }
  void sparse_update(const SparseRows<Real>& X, std::size_t n, Real alpha, const Real* D,
                     Real* W) override {
    use();
    const cuda::ByColumn sorted = batches_.by_column(X);
    auto* const sums = reals_.reserve<Real>(cuda::update_sums(sorted.nonzeros, n),
                                            "the sums of frequent features");
    cuda::sparse_update(stream_.get(), sorted, n, alpha, D, W, sums);
  }

  void bias_relu(std::size_t rows, std::size_t n, const Real* bias, Real* Y) override {
    cuda::bias_relu(use(), rows, n, bias, Y);
  }
  void relu_backward(std::size_t rows, std::size_t n, const Real* Y, Real* D) override {
    cuda::relu_backward(use(), rows, n, Y, D);
  }
  void column_sums(std::size_t rows, std::size_t n, Real alpha, const Real* D, Real* b) override {
    use();
    auto* const partials =
        reals_.reserve<Real>(cuda::row_groups(rows, n) * n, "the sums of columns");
    cuda::column_sums(stream_.get(), rows, n, alpha, D, Real(1), b, partials);
  }

  DeferredSum softmax_cross_entropy(const SparseRows<Real>& labels, std::size_t n, const Real* bias,
                                    Real scale, Real* Z) override {
    const cuda::LogitBlock<Real> block{.columns = n, .stride = n, .Z = Z, .bias = bias};
    const cuda::SoftmaxRows<Real> rows = softmax_forward(labels, block, false, scale);
    const DeferredSum loss = result_.send();
    cuda::softmax_gradient(stream_.get(), labels, block, scale, rows,
                           cuda::gradient_groups(labels.rows, n), n, static_cast<Real*>(nullptr));
    return loss;
  }
  DeferredSum softmax_loss(const SparseRows<Real>& labels, std::size_t n, const Real* bias,
                           Real* Z) override {
    softmax_forward(labels, {.columns = n, .stride = n, .Z = Z, .bias = bias}, true, Real(1));
    return result_.send();
  }
  DeferredSum softmax_layer(const SparseRows<Real>& labels,
                            const SoftmaxLayer<Real>& layer) override {
    batches_.check(labels);
    use();
    const double* const losses = layer_.forward(labels, layer);
    cuda::add_up(stream_.get(), labels.rows, losses, result_.device());
    const DeferredSum loss = result_.send();
    layer_.backward(labels, layer);
    return loss;
  }
  DeferredSum softmax_ranks(const SparseRows<Real>& labels, const SoftmaxLayer<Real>& layer,
                            std::size_t k, std::uint32_t* top) override {
    check_top(layer.outputs, k);
    batches_.check(labels);
    use();
    const double* const losses = layer_.rank(labels, layer, k, top);
    cuda::add_up(stream_.get(), labels.rows, losses, result_.device());
    return result_.send();
  }
  DeferredSum sigmoid_cross_entropy(const SparseRows<Real>& labels, const Real* bias, Real scale,
                                    Real* Z) override {
    return sigmoid(labels, bias, true, scale, Z);
  }
  DeferredSum sigmoid_loss(const SparseRows<Real>& labels, const Real* bias, Real* Z) override {
    return sigmoid(labels, bias, false, Real(1), Z);
  }

  void top_k(std::size_t rows, std::size_t n, const Real* Z, std::size_t k,
             std::uint32_t* top) override {
    check_top(n, k);
    if (rows == 0) return;
    use();
    const cuda::Candidates<Real> candidates = ranking_.reserve(rows, cuda::top_parts(n), k);
    const cuda::LogitBlock<const Real> block{.columns = n, .stride = n, .Z = Z};
    cuda::top_of_block(stream_.get(), rows, block, 0, candidates);
    auto* const best = rows_.reserve<std::uint32_t>(rows * k, "the best labels of a batch");
    cuda::top_of_all(stream_.get(), rows, candidates, k, best);
    transfer_.download(top, best, rows * k * sizeof(std::uint32_t));
  }

 private:
  cudaStream_t use() const {
    HETSGD_CUDA(cudaSetDevice(ordinal_));
    return stream_.get();
  }
  double* sums(std::size_t count) { return partials_.reserve<double>(count, "partial sums"); }
  double fetch() { return result_.send(); }
  static void check_top(std::size_t n, std::size_t k) {
    HETSGD_CHECK_LE(std::size_t{1}, k);
    HETSGD_CHECK_LE(k, std::size_t{16});
    HETSGD_CHECK_LE(k, n);
    HETSGD_CHECK_LT(n, std::size_t{cuda::kNoLabel});
  }
  const std::uint32_t* bring(std::span<const std::uint32_t> rows) {
    auto* const device = rows_.reserve<std::uint32_t>(rows.size(), "the numbers of some rows");
    transfer_.upload(device, rows.data(), rows.size_bytes());
    return device;
  }

  // Statistics and losses of logits that are all in one block; the loss is in result_ afterwards.
  cuda::SoftmaxRows<Real> softmax_forward(const SparseRows<Real>& labels,
                                          const cuda::LogitBlock<Real>& block, bool keep_bias,
                                          Real scale) {
    batches_.check(labels);
    use();
    const cuda::SoftmaxRows<Real> rows =
        softmax_.reserve(labels.rows, cuda::ceil_divide(block.columns, cuda::kPart));
    cuda::softmax_statistics(stream_.get(), labels, block, keep_bias, rows);
    cuda::softmax_combine(stream_.get(), labels, scale, rows);
    cuda::add_up(stream_.get(), labels.rows, rows.loss, result_.device());
    return rows;
  }

  DeferredSum sigmoid(const SparseRows<Real>& labels, const Real* bias, bool gradient, Real scale,
                      Real* Z) {
    batches_.check(labels);
    use();
    double* const losses = sums(labels.rows);
    cuda::sigmoid_rows(stream_.get(), labels, bias, gradient, scale, Z, losses);
    cuda::add_up(stream_.get(), labels.rows, losses, result_.device());
    return result_.send();
  }

  const int ordinal_;
  const std::string name_;
  cuda::Stream stream_;
  cuda::Blas blas_;
  cuda::Transfer transfer_;
  cuda::BatchStage batches_;
  Result result_;
  cuda::SoftmaxScratch<Real> softmax_;
  cuda::Ranking<Real> ranking_;
  cuda::SoftmaxLayerRun<Real> layer_;
  // Working memory of single calls; the stream's order lets them share it.
  cuda::DeviceMemory partials_, reals_, rows_;
};

// The pool keeps what was given back to it: steady state asks the driver for nothing.
void keep_pool(int ordinal) {
  int pools = 0;
  HETSGD_CUDA(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, ordinal));
  if (pools == 0) {
    throw with_hint(device_error("cuda:{}: the driver offers no memory pools", ordinal),
                    "some virtual GPUs have none; use a whole GPU or cpu:N");
  }
  cudaMemPool_t pool = nullptr;
  HETSGD_CUDA(cudaDeviceGetDefaultMemPool(&pool, ordinal));
  std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
  HETSGD_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
}

// Of a GPU's memory, for the logits that a device keeps between the passes of softmax_layer. A
// fixed share, so that what else is on the GPU has no say in the order of computing.
constexpr std::size_t kLogitShare = 8;

}  // namespace

template <class Real>
std::unique_ptr<BasicDevice<Real>> make_cuda_device(int ordinal, const CudaDeviceOptions& options) {
  std::string name = cuda_device_name(ordinal);
  HETSGD_CUDA(cudaSetDevice(ordinal));
  cuda::check_kernels();
  keep_pool(ordinal);
  std::size_t free = 0, total = 0;
  HETSGD_CUDA(cudaMemGetInfo(&free, &total));
  return std::make_unique<CudaDevice<Real>>(
      ordinal, std::move(name), options.precision,
      options.logit_bytes > 0 ? options.logit_bytes : total / kLogitShare,
      options.logit_block_bytes > 0 ? options.logit_block_bytes : cuda::kBlockBytes);
}

template std::unique_ptr<BasicDevice<float>> make_cuda_device<float>(int, const CudaDeviceOptions&);
template std::unique_ptr<BasicDevice<double>> make_cuda_device<double>(int,
                                                                       const CudaDeviceOptions&);

}  // namespace hetsgd
