// The embedding kernels of a GPU.
#include "linalg/cuda/backend.hpp"
#include "linalg/cuda/block.cuh"
#include "linalg/cuda/lookups.cuh"
#include "linalg/cuda/resources.hpp"
#include "linalg/embedding_kernels.hpp"

namespace hetsgd::cuda {

namespace {

template <class Real>
class CudaEmbeddingKernels final : public BasicEmbeddingKernels<Real> {
 public:
  explicit CudaEmbeddingKernels(Backend& backend) : backend_(backend), sums_(backend.stream) {}

  void gather_rows(const FieldRows<Real>& X, const TableShape& table, const Real* W, Real* Y,
                   Real* z) override {
    backend_.batches.check(X);
    look_up_rows(backend_.use(), X, table, X.category, W, Y, z, "kernel gather_rows");
  }

  void update_rows(const FieldRows<Real>& X, const TableShape& table, Real alpha, const Real* D,
                   const Real* d, Real* G) override {
    const ByColumn sorted = backend_.batches.by_column(X);
    const cudaStream_t stream = backend_.use();
    const std::size_t C = table.row();
    auto* const sums =
        sums_.reserve<Real>(lookup_sums(sorted.nonzeros, C), "the sums of hot categories");
    update_looked_up_rows<Real>(stream, {X, sorted, table.embedding, C, alpha, D, d, sums, G});
  }

 private:
  Backend& backend_;
  DeviceMemory sums_;
};

const RegisterKernels<Backend, BasicEmbeddingKernels, CudaEmbeddingKernels> embedding_kernels;

}  // namespace

}  // namespace hetsgd::cuda
