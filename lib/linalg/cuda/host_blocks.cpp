// Blocks of host memory of a GPU: pinned, so that kernels reach them (with unified addresses, which
// every 64-bit system has, under the host's pointer) and copies run by themselves.
#include "linalg/host_blocks.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "linalg/cuda/backend.hpp"
#include "linalg/cuda/check.hpp"

namespace hetsgd::cuda {

namespace {

template <class Real>
class CudaHostBlocks final : public BasicHostBlocks<Real> {
 public:
  explicit CudaHostBlocks(Backend& backend) : backend_(backend) {}

  void* allocate(std::size_t bytes) override {
    backend_.use();
    void* memory = nullptr;
    const std::size_t size = std::max(bytes, std::size_t{1});
    const cudaError_t status =
        cudaHostAlloc(&memory, size, cudaHostAllocPortable | cudaHostAllocMapped);
    if (status != cudaSuccess) fail_memory(status, size, "pinned host memory", 0);
    return memory;
  }
  void release(void* memory) noexcept override {
    cudaSetDevice(backend_.ordinal);
    cudaStreamSynchronize(backend_.stream.get());
    cudaStreamSynchronize(copy_.get());
    cudaFreeHost(memory);
  }

  std::uint64_t copy_out(std::size_t n, const Real* x, Real* block) override {
    return copy(block, x, n * sizeof(Real), cudaMemcpyDeviceToHost);
  }
  std::uint64_t copy_in(std::size_t n, const Real* block, Real* x) override {
    return copy(x, block, n * sizeof(Real), cudaMemcpyHostToDevice);
  }
  // The mark of an early copy may have been reused by a later one, which ends after it.
  void wait(std::uint64_t copy) override {
    HETSGD_CHECK_LE(copy, copies_);
    backend_.use();
    done_[copy % kMarks].hold(backend_.stream);
  }

 private:
  static constexpr std::size_t kMarks = 64;  // copies that have separate marks

  std::uint64_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    backend_.use();
    begin_.record(backend_.stream);
    begin_.hold(copy_);
    HETSGD_CUDA(cudaMemcpyAsync(to, from, bytes, kind, copy_.get()));
    done_[++copies_ % kMarks].record(copy_);
    return copies_;
  }

  Backend& backend_;
  Stream copy_;
  Event begin_;  // in the compute stream
  std::array<Event, kMarks> done_;
  std::uint64_t copies_ = 0;
};

const RegisterKernels<Backend, BasicHostBlocks, CudaHostBlocks> host_blocks;

}  // namespace

}  // namespace hetsgd::cuda
