// A GPU as a device: the kernels of this folder behind BasicDevice.
//
// No CUDA graphs. They would save the host a few microseconds per launch, but the host does not
// wait inside a step. It launches the next kernels while the GPU works on the previous ones, for
// milliseconds with many labels. (On an H200 kernels run in 98 % of the time of an Amazon-670k step
// of 256 samples with TF32. A step of 0.2 ms, as for Delicious, waits for launches.) A graph also
// fixes every size and address, while each step has new ones: the number of nonzeros (the grid of
// the sparse update), the memory of the staged batch, the learning rate inside of products. If it
// is captured anew and updated for each step, a graph costs the host about as much as the launches.
#include <cuda_runtime_api.h>

#include <limits>
#include <vector>

#include "linalg/cuda/backend.hpp"
#include "linalg/cuda/check.hpp"
#include "linalg/cuda/cuda_device.hpp"
#include "linalg/cuda/index.hpp"
#include "linalg/cuda/vectors.hpp"
#include "linalg/streams.hpp"

namespace hetsgd {

namespace {

template <class Real>
class CudaDevice final : public BasicDevice<Real> {
 public:
  // `ordinal` must be the current device. All sizes in `options` must be set.
  CudaDevice(int ordinal, std::string name, const CudaDeviceOptions& options)
      : name_(std::move(name)),
        options_(options),
        backend_(ordinal, options.precision, options.convolution_library, options.logit_bytes,
                 options.logit_block_bytes, options.split_from_logits),
        partials_(backend_.stream),
        reals_(backend_.stream),
        rows_(backend_.stream),
        counters_(backend_.stream) {}

  ~CudaDevice() override {
    cudaSetDevice(backend_.ordinal);
    cudaStreamSynchronize(backend_.stream.get());  // before memory that kernels still use is freed
  }

  std::string name() const override { return name_; }

  void* allocate(std::size_t bytes) override {
    use();
    void* memory = nullptr;
    const std::size_t size = std::max(bytes, std::size_t{1});
    const cudaError_t status = cudaMallocAsync(&memory, size, backend_.stream.get());
    if (status != cudaSuccess) {
      backend_.stream.synchronize();  // memory that was given back earlier is free then
      cuda::fail_pool(status, size, "a vector", backend_.stream.batch_bytes(),
                      backend_.stream.get());
    }
    // Other devices of this GPU may use the memory too, such as a background task's.
    backend_.stream.synchronize();
    return memory;
  }
  void release(void* memory) noexcept override {
    cudaSetDevice(backend_.ordinal);
    cudaFreeAsync(memory, backend_.stream.get());
  }
  void upload(void* device, const void* host, std::size_t bytes) override {
    use();
    backend_.transfer.upload(device, host, bytes);
  }
  void download(void* host, const void* device, std::size_t bytes) override {
    use();
    backend_.transfer.download(host, device, bytes);
  }
  void synchronize() override {
    use();
    backend_.stream.synchronize();
  }
  bool host_accessible(const void* memory) const override {
    if (memory == nullptr) return true;
    cudaPointerAttributes attributes;
    HETSGD_CUDA(cudaPointerGetAttributes(&attributes, memory));
    return attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged;
  }
  SparseRows<Real> stage(const SparseRows<Real>& batch) override {
    use();
    return backend_.batches.stage(batch);
  }
  FieldRows<Real> stage(const FieldRows<Real>& batch) override {
    use();
    return backend_.batches.stage(batch);
  }
  bool stages_copies() const override { return true; }

  void copy(std::size_t n, const Real* x, Real* y) override {
    use();
    if (n == 0 || x == y) return;
    HETSGD_CUDA(
        cudaMemcpyAsync(y, x, n * sizeof(Real), cudaMemcpyDeviceToDevice, backend_.stream.get()));
  }
  double dot(std::size_t n, const Real* x, const Real* y) override {
    cuda::dot(use(), n, x, y, sums(cuda::kMostPartials), backend_.result.device());
    return backend_.result.send();
  }
  Products products(std::size_t n, const Real* x, const Real* y) override {
    double* const partials = sums(3 * cuda::kMostPartials + 3);
    double* const totals = partials + 3 * cuda::kMostPartials;
    cuda::products(use(), n, x, y, partials, totals);
    double sum[3];
    backend_.transfer.download(sum, totals, sizeof(sum));
    return {sum[0], sum[1], sum[2]};
  }

  void gemm(Transpose a, Transpose b, std::size_t m, std::size_t n, std::size_t k, Real alpha,
            const Real* A, std::size_t lda, const Real* B, std::size_t ldb, Real beta, Real* C,
            std::size_t ldc) override {
    use();
    backend_.blas.gemm(a, b, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
  }

  void bias_relu(std::size_t rows, std::size_t n, const Real* bias, Real* Y) override {
    cuda::bias_relu(use(), rows, n, bias, Y);
  }
  void column_sums(std::size_t rows, std::size_t n, Real alpha, const Real* D, Real* b) override {
    cuda::column_sums(use(), rows, n, alpha, D, b, column_scratch(rows, n));
  }
  void relu_gradient_sums(std::size_t rows, std::size_t n, Real alpha, const Real* Y, Real* D,
                          Real* b) override {
    cuda::relu_gradient_sums(use(), rows, n, alpha, Y, D, b, column_scratch(rows, n));
  }

  KernelFamily* family(std::type_index interface) override {
    use();
    return families_.find(backend_, interface);
  }

  std::unique_ptr<BasicStreams<Real>> streams(std::size_t tasks) override;
  const cuda::Stream& stream() const { return backend_.stream; }

 private:
  void run_rule(std::size_t n, const ElementRule<Real>& rule) override {
    cuda::run_rule(use(), n, rule);
  }
  void run_rule_on_rows(std::span<const std::uint32_t> rows, std::size_t n,
                        const ElementRule<Real>& rule) override {
    use();
    auto* const device = rows_.reserve<std::uint32_t>(rows.size(), "the numbers of some rows");
    backend_.transfer.upload(device, rows.data(), rows.size_bytes());
    cuda::run_rule_on_rows(backend_.stream.get(), rows.size(), device, n, rule);
  }
  double run_norm_rule(std::size_t n, const NormRule<Real>& rule) override {
    cuda::run_norm_rule(use(), n, rule, sums(cuda::kMostPartials), backend_.result.device());
    return backend_.result.send();
  }

  cudaStream_t use() const { return backend_.use(); }
  cuda::ColumnScratch<Real> column_scratch(std::size_t rows, std::size_t n) {
    return {reals_.reserve<Real>(cuda::row_groups(rows, n) * n, "the sums of columns"),
            counters_.reserve(cuda::ceil_divide(n, cuda::kThreads))};
  }
  double* sums(std::size_t count) { return partials_.reserve<double>(count, "partial sums"); }

  const std::string name_;
  const CudaDeviceOptions options_;
  cuda::Backend backend_;
  // Working memory of single calls, which can share it because the stream orders them.
  cuda::DeviceMemory partials_, reals_, rows_;
  cuda::Counters counters_;
  KernelFamilies<cuda::Backend> families_;
};

// Each stream is a device of the same GPU: a CUDA stream, a cuBLAS handle, scratch and a copy
// stream. Two events order them. Streams begin when the earlier work of the device is done, and its
// later work begins when they are done.
template <class Real>
class CudaStreams final : public BasicStreams<Real> {
 public:
  using typename BasicStreams<Real>::Task;

  CudaStreams(const cuda::Stream& own, std::vector<std::unique_ptr<CudaDevice<Real>>> devices)
      : own_(own), devices_(std::move(devices)), done_(devices_.size()) {}

  std::size_t count() const override { return devices_.size(); }
  BasicDevice<Real>& device(std::size_t stream) override { return *devices_.at(stream); }

  void run(std::size_t tasks, const Task& start, const Task& finish) override {
    HETSGD_CHECK_LE(tasks, count());
    begin_.record(own_);
    for (const auto& device : devices_) begin_.hold(device->stream());
    try {
      for (std::size_t j = 0; j < tasks; ++j) start(j);
      for (std::size_t j = 0; j < tasks; ++j) finish(j);
    } catch (...) {
      end();
      throw;
    }
    end();
  }

 private:
  void end() {
    for (std::size_t s = 0; s < count(); ++s) {
      done_[s].record(devices_[s]->stream());
      done_[s].hold(own_);
    }
  }

  const cuda::Stream& own_;
  std::vector<std::unique_ptr<CudaDevice<Real>>> devices_;
  cuda::Event begin_;
  std::vector<cuda::Event> done_;  // by stream
};

// Streams share the budget that the device may keep of logits; their number does not affect the
// bits.
template <class Real>
std::unique_ptr<BasicStreams<Real>> CudaDevice<Real>::streams(std::size_t tasks) {
  HETSGD_CHECK_LT(0U, tasks);
  use();
  CudaDeviceOptions options = options_;
  options.logit_bytes /= tasks;
  std::vector<std::unique_ptr<CudaDevice>> devices;
  for (std::size_t s = 0; s < tasks; ++s) {
    devices.push_back(std::make_unique<CudaDevice>(backend_.ordinal, name_, options));
  }
  return std::make_unique<CudaStreams<Real>>(backend_.stream, std::move(devices));
}

// Makes the pool keep memory that was given back, so that steady state asks the driver for nothing.
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

// The divisor of a GPU's memory for the logits that a device keeps between the passes of
// softmax_layer. It is fixed, so that other users of the GPU do not affect the order of computing.
constexpr std::size_t kLogitShare = 8;

// Products of halves take three times the operations at the rate of FP16: worth it on the GPUs of
// data centres, 8.0, 9.0 and 10.0, whose tensor cores are 12 to 16 times as fast as FP32 units, and
// for layers whose products take longer than the launches that are added.
constexpr std::size_t kSplitFromLogits = std::size_t{1} << 24;

std::size_t split_from(int ordinal, const CudaDeviceOptions& options) {
  constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  if (options.precision != Precision::fp32) return kNever;
  if (options.split_from_logits > 0) return options.split_from_logits;
  int major = 0, minor = 0;
  HETSGD_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal));
  HETSGD_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal));
  const bool gains = minor == 0 && major >= 8 && major <= 10;
  return gains ? kSplitFromLogits : kNever;
}

}  // namespace

template <class Real>
std::unique_ptr<BasicDevice<Real>> make_cuda_device(int ordinal, const CudaDeviceOptions& options) {
  std::string name = cuda_device_name(ordinal);
  HETSGD_CUDA(cudaSetDevice(ordinal));
  cuda::check_kernels();
  keep_pool(ordinal);
  std::size_t free = 0, total = 0;
  HETSGD_CUDA(cudaMemGetInfo(&free, &total));
  CudaDeviceOptions all = options;
  if (all.logit_bytes == 0) all.logit_bytes = total / kLogitShare;
  if (all.logit_block_bytes == 0) all.logit_block_bytes = cuda::kBlockBytes;
  all.split_from_logits = split_from(ordinal, all);
  return std::make_unique<CudaDevice<Real>>(ordinal, std::move(name), all);
}

template std::unique_ptr<BasicDevice<float>> make_cuda_device<float>(int, const CudaDeviceOptions&);
template std::unique_ptr<BasicDevice<double>> make_cuda_device<double>(int,
                                                                       const CudaDeviceOptions&);

}  // namespace hetsgd
