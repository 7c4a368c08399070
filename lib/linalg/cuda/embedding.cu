// The embedding kernels of a GPU.
#include "linalg/cuda/backend.hpp"
#include "linalg/cuda/lookups.cuh"
#include "linalg/cuda/resources.hpp"
#include "linalg/cuda/block.cuh"
#include "linalg/embedding_kernels.hpp"

namespace hetsgd::cuda {

namespace {

// The gradients of lookups, sorted by category. A run is kWarp of them in that order. Hot
// categories have many lookups, and runs divide them among threads.
template <class Real>
struct Lookups {
  FieldRows<Real> X;
  ByColumn sorted;
  std::size_t embedding, row;
  Real alpha;
  const Real* D;
  const Real* d;
  Real* sums;  // [2 runs x row]: of categories that extend beyond a run
  Real* G;

  // Column j of the sum over the lookups first, first + 1, ... below `end` that have the category
  // of `first`.
  __device__ Real sum(std::size_t first, std::size_t end, std::size_t j) const {
    const std::uint32_t category = sorted.columns[first];
    const std::size_t width = X.columns + X.fields * embedding;
    const Real* from = d;
    std::size_t stride = 1;
    if (j < embedding) {
      const std::uint32_t* const mine = X.category + sorted.entries[first].row * X.fields;
      std::size_t f = 0;
      while (mine[f] != category) ++f;
      from = D + X.columns + f * embedding + j;
      stride = width;
    }
    Real total = 0;
    for (std::size_t i = first; i < end && sorted.columns[i] == category; ++i) {
      total += from[sorted.entries[i].row * stride];
    }
    return total;
  }
  __device__ void update(std::uint32_t category, std::size_t j, Real total) const {
    Real& g = G[category * row + j];
    g = std::fma(alpha, total, g);
  }
};

// A thread works if lookup `first` is the first of its category, or of a run. A category within one
// run is updated at once. For a longer one every run leaves its sum for LongCategories, at 2 run +
// 1 where the category begins and at 2 run in later runs.
template <class Real>
struct Runs {
  Lookups<Real> lookups;
  __device__ void operator()(std::size_t first, std::size_t j) const {
    const ByColumn& X = lookups.sorted;
    const std::uint32_t category = X.columns[first];
    const bool begins = first == 0 || X.columns[first - 1] != category;
    if (!begins && first % kWarp != 0) return;
    const std::size_t run = first / kWarp, end = smaller((run + 1) * kWarp, X.nonzeros);
    const Real total = lookups.sum(first, end, j);
    const bool ends =
        X.columns[end - 1] != category || end == X.nonzeros || X.columns[end] != category;
    if (begins && ends) return lookups.update(category, j, total);
    lookups.sums[(2 * run + (begins ? 1 : 0)) * lookups.row + j] = total;
  }
};

// Adds up the category that begins in the run and does not end there, if there is one, in the order
// of its runs.
template <class Real>
struct LongCategories {
  Lookups<Real> lookups;
  __device__ void operator()(std::size_t run, std::size_t j) const {
    const ByColumn& X = lookups.sorted;
    const std::size_t next = (run + 1) * kWarp;
    if (next >= X.nonzeros) return;
    const std::uint32_t category = X.columns[next];
    if (X.columns[next - 1] != category) return;
    if (run > 0 && X.columns[run * kWarp - 1] == category) return;  // it began earlier
    Real total = lookups.sums[(2 * run + 1) * lookups.row + j];
    for (std::size_t r = run + 1; r * kWarp < X.nonzeros && X.columns[r * kWarp] == category; ++r) {
      total += lookups.sums[2 * r * lookups.row + j];
    }
    lookups.update(category, j, total);
  }
};

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
    const std::size_t C = table.row(), runs = ceil_divide(sorted.nonzeros, kWarp);
    auto* const sums = sums_.reserve<Real>(2 * runs * C, "the sums of hot categories");
    const Lookups<Real> lookups{X, sorted, table.embedding, C, alpha, D, d, sums, G};
    launch_rowwise(stream, sorted.nonzeros, C, Runs<Real>{lookups}, "kernel sum_rows");
    launch_rowwise(stream, runs, C, LongCategories<Real>{lookups}, "kernel update_rows");
  }

 private:
  Backend& backend_;
  DeviceMemory sums_;
};

const RegisterKernels<Backend, BasicEmbeddingKernels, CudaEmbeddingKernels> embedding_kernels;

}  // namespace

}  // namespace hetsgd::cuda
