// The factorisation kernels of a GPU.
#include "linalg/cuda/backend.hpp"
#include "linalg/cuda/block.cuh"
#include "linalg/cuda/resources.hpp"
#include "linalg/cuda/sparse.hpp"
#include "linalg/factorization_kernels.hpp"

namespace hetsgd::cuda {

namespace {

// The sum of factor j of row r, and its contribution to the pairwise term.
template <class Real>
struct FactorSums {
  SparseRows<Real> X;
  std::size_t width;
  const Real* V;
  Real* S;
  Real* part;
  __device__ void operator()(std::size_t r, std::size_t j) const {
    Real sum = 0, squares = 0;
    for (std::uint64_t at = X.begin[r]; at < X.begin[r + 1]; ++at) {
      const Real x = X.value != nullptr ? static_cast<Real>(X.value[at]) : Real(1);
      const Real term = x * V[X.index[at] * width + j];
      sum += term;
      squares += term * term;
    }
    S[r * width + j] = sum;
    part[r * width + j] = (sum * sum - squares) / 2;
  }
};

template <class Real>
struct AddParts {
  std::size_t n, K;
  const Real* part;
  Real* Z;
  __device__ void operator()(std::size_t r, std::size_t l) const {
    const Real* const mine = part + (r * n + l) * K;
    Real sum = 0;
    for (std::size_t k = 0; k < K; ++k) sum += mine[k];
    Z[r * n + l] += sum;
  }
};

// The first nonzero of a column adds up the whole column, in the order of the rows. So every
// element of G has one owner and one order of additions.
template <class Real>
struct FactorGradient {
  ByColumn X;
  std::size_t n, K;
  Real alpha;
  const Real* D;
  const Real* S;
  const Real* V;
  Real* G;
  __device__ void operator()(std::size_t first, std::size_t j) const {
    const std::uint32_t column = X.columns[first];
    if (first > 0 && X.columns[first - 1] == column) return;
    const std::size_t width = n * K, l = j / K, at = column * width + j;
    const Real v = V[at];
    Real sum = 0;
    for (std::size_t i = first; i < X.nonzeros && X.columns[i] == column; ++i) {
      const std::size_t row = X.entries[i].row;
      const auto x = static_cast<Real>(X.entries[i].value);
      sum += D[row * n + l] * x * (S[row * width + j] - x * v);
    }
    G[at] += alpha * sum;
  }
};

template <class Real>
class CudaFactorizationKernels final : public BasicFactorizationKernels<Real> {
 public:
  explicit CudaFactorizationKernels(Backend& backend) : backend_(backend), parts_(backend.stream) {}

  void forward(const SparseRows<Real>& X, std::size_t n, std::size_t K, const Real* V, Real* S,
               Real* Z) override {
    backend_.batches.check(X);
    const cudaStream_t stream = backend_.use();
    const std::size_t width = n * K;
    auto* const part = parts_.reserve<Real>(X.rows * width, "the pairwise terms of a batch");
    launch_rowwise(stream, X.rows, width, FactorSums<Real>{X, width, V, S, part},
                   "kernel factor_sums");
    launch_rowwise(stream, X.rows, n, AddParts<Real>{n, K, part, Z}, "kernel add_pairwise");
  }

  void backward(const SparseRows<Real>& X, std::size_t n, std::size_t K, Real alpha, const Real* D,
                const Real* S, const Real* V, Real* G) override {
    const cudaStream_t stream = backend_.use();
    const ByColumn sorted = backend_.batches.by_column(X);
    launch_rowwise(stream, sorted.nonzeros, n * K,
                   FactorGradient<Real>{sorted, n, K, alpha, D, S, V, G}, "kernel factor_gradient");
  }

 private:
  Backend& backend_;
  DeviceMemory parts_;
};

const RegisterKernels<Backend, BasicFactorizationKernels, CudaFactorizationKernels>
    factorization_kernels;

}  // namespace

}  // namespace hetsgd::cuda
