#include "linalg/cuda/blas.hpp"

#include <cublas_v2.h>

#include <cstdint>
#include <string>

#include "core/error.hpp"
#include "linalg/cuda/library.hpp"
#include "linalg/cuda/vectors.hpp"
#include "linalg/device.hpp"

namespace hetsgd::cuda {

namespace {

// The size that cuBLAS recommends for Hopper GPUs.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

// The functions of libcublas that are used. Their names carry the version of their interface.
struct Library {
  static const Library& get() {
    static const Library library;
    return library;
  }

  void check(cublasStatus_t status, const char* call) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    const char* const hint = status == CUBLAS_STATUS_ALLOC_FAILED
                                 ? "the GPU has no memory left for cuBLAS; use fewer workers on it"
                                 : "";
    throw with_hint(device_error("{}: {}", call, status_string(status)), hint);
  }

  const SharedLibrary library{"cuBLAS",
                              {"libcublas.so." HETSGD_CUBLAS_MAJOR},
                              "install the CUDA libraries or name their folder in LD_LIBRARY_PATH"};
  decltype(&cublasCreate_v2) create = library.function("cublasCreate_v2");
  decltype(&cublasDestroy_v2) destroy = library.function("cublasDestroy_v2");
  decltype(&cublasSetStream_v2) set_stream = library.function("cublasSetStream_v2");
  decltype(&cublasSetWorkspace_v2) set_workspace = library.function("cublasSetWorkspace_v2");
  decltype(&cublasSetPointerMode_v2) set_pointer_mode = library.function("cublasSetPointerMode_v2");
  decltype(&cublasSetMathMode) set_math_mode = library.function("cublasSetMathMode");
  decltype(&cublasSetAtomicsMode) set_atomics_mode = library.function("cublasSetAtomicsMode");
  decltype(&cublasGetStatusString) status_string = library.function("cublasGetStatusString");
  decltype(&cublasGetProperty) property = library.function("cublasGetProperty");
  decltype(&cublasSgemm_v2_64) sgemm = library.function("cublasSgemm_v2_64");
  decltype(&cublasDgemm_v2_64) dgemm = library.function("cublasDgemm_v2_64");
  decltype(&cublasGemmEx_64) gemm_ex = library.function("cublasGemmEx_64");
  decltype(&cublasGemmStridedBatchedEx_64) gemm_batched_ex =
      library.function("cublasGemmStridedBatchedEx_64");
};

cublasOperation_t operation(Transpose transpose) {
  return transpose == Transpose::yes ? CUBLAS_OP_T : CUBLAS_OP_N;
}

std::int64_t whole(std::size_t x) { return static_cast<std::int64_t>(x); }

cublasComputeType_t float_type(Precision precision) {
  return precision == Precision::fp32   ? CUBLAS_COMPUTE_32F
         : precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                        : CUBLAS_COMPUTE_32F_FAST_16BF;
}

}  // namespace

std::string Blas::version() {
  const Library& blas = Library::get();
  int numbers[3] = {};
  for (const libraryPropertyType part : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL}) {
    blas.check(blas.property(part, &numbers[part]), "cublasGetProperty");
  }
  return fmt::format("{}.{}.{}", numbers[0], numbers[1], numbers[2]);
}

struct Blas::Impl {
  Impl(const Stream& its_stream, Precision its_precision)
      : stream(its_stream), precision(its_precision), workspace(its_stream) {
    blas.check(blas.create(&handle), "cublasCreate");
    try {
      blas.check(blas.set_stream(handle, stream.get()), "cublasSetStream");
      void* const memory = workspace.reserve<std::byte>(kWorkspaceBytes, "cuBLAS' workspace");
      blas.check(blas.set_workspace(handle, memory, kWorkspaceBytes), "cublasSetWorkspace");
      blas.check(blas.set_math_mode(handle, CUBLAS_DEFAULT_MATH), "cublasSetMathMode");
      blas.check(blas.set_atomics_mode(handle, CUBLAS_ATOMICS_NOT_ALLOWED), "cublasSetAtomicsMode");
    } catch (...) {
      blas.destroy(handle);
      throw;
    }
  }
  ~Impl() { blas.destroy(handle); }

  const Library& blas = Library::get();
  const Stream& stream;
  const Precision precision;
  DeviceMemory workspace;
  cublasHandle_t handle = nullptr;
};

Blas::Blas(const Stream& stream, Precision precision)
    : impl_(std::make_unique<Impl>(stream, precision)) {}
Blas::~Blas() = default;

// cuBLAS stores columns, so it sees a row-major matrix as its transpose: C^T = op(B)^T op(A)^T.
template <class Real>
void Blas::gemm(Transpose a, Transpose b, std::size_t m, std::size_t n, std::size_t k, Real alpha,
                const Real* A, std::size_t lda, const Real* B, std::size_t ldb, Real beta, Real* C,
                std::size_t ldc) {
  if (m == 0 || n == 0) return;
  // The behaviour of cuBLAS for k = 0 is not documented.
  if (k == 0) return scale_matrix(impl_->stream.get(), m, n, beta, C, ldc);
  const Library& blas = impl_->blas;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  if (sizeof(Real) == sizeof(float) && impl_->precision != Precision::fp32) {
    status =
        blas.gemm_ex(impl_->handle, operation(b), operation(a), whole(n), whole(m), whole(k),
                     &alpha, B, CUDA_R_32F, whole(ldb), A, CUDA_R_32F, whole(lda), &beta, C,
                     CUDA_R_32F, whole(ldc), float_type(impl_->precision), CUBLAS_GEMM_DEFAULT);
  } else if constexpr (sizeof(Real) == sizeof(float)) {
    status = blas.sgemm(impl_->handle, operation(b), operation(a), whole(n), whole(m), whole(k),
                        &alpha, B, whole(ldb), A, whole(lda), &beta, C, whole(ldc));
  } else {
    status = blas.dgemm(impl_->handle, operation(b), operation(a), whole(n), whole(m), whole(k),
                        &alpha, B, whole(ldb), A, whole(lda), &beta, C, whole(ldc));
  }
  blas.check(status, "cublasGemm");
}

template <class Real>
void Blas::gemm_by_columns(std::size_t m, std::size_t n, std::size_t k, std::size_t width,
                           const Real* A, const Real* B, Real* Y, std::size_t ldy) {
  if (m == 0 || n == 0) return;
  HETSGD_CHECK_EQ(n % width, std::size_t{0});
  const bool floats = sizeof(Real) == sizeof(float);
  const cudaDataType type = floats ? CUDA_R_32F : CUDA_R_64F;
  const Real one = 1, zero = 0;
  const auto stride = [](std::size_t x) { return static_cast<long long>(x); };
  const Library& blas = impl_->blas;
  blas.check(blas.gemm_batched_ex(
                 impl_->handle, CUBLAS_OP_T, CUBLAS_OP_N, whole(width), whole(m), whole(k), &one, B,
                 type, whole(k), stride(width * k), A, type, whole(k), 0, &zero, Y, type,
                 whole(ldy), stride(width), whole(n / width),
                 floats ? float_type(impl_->precision) : CUBLAS_COMPUTE_64F, CUBLAS_GEMM_DEFAULT),
             "cublasGemmStridedBatchedEx");
}

void Blas::gemm_halves(std::size_t m, std::size_t n, std::size_t k, const HalfOperand& A,
                       const HalfOperand& B, const FloatResult& C, std::size_t batch) {
  if (m == 0 || n == 0 || batch == 0) return;
  HETSGD_CHECK_LT(std::size_t{0}, k);
  const Library& blas = impl_->blas;
  const auto step = [](std::size_t x) { return static_cast<long long>(x); };
  const cublasOperation_t a = operation(A.transpose), b = operation(B.transpose);
  blas.check(blas.set_pointer_mode(impl_->handle, CUBLAS_POINTER_MODE_DEVICE),
             "cublasSetPointerMode");
  const cublasStatus_t status =
      batch == 1
          ? blas.gemm_ex(impl_->handle, b, a, whole(n), whole(m), whole(k), C.alpha, B.data,
                         CUDA_R_16F, whole(B.ld), A.data, CUDA_R_16F, whole(A.ld), C.beta, C.data,
                         CUDA_R_32F, whole(C.ld), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT)
          : blas.gemm_batched_ex(impl_->handle, b, a, whole(n), whole(m), whole(k), C.alpha, B.data,
                                 CUDA_R_16F, whole(B.ld), step(B.step), A.data, CUDA_R_16F,
                                 whole(A.ld), step(A.step), C.beta, C.data, CUDA_R_32F, whole(C.ld),
                                 step(C.step), whole(batch), CUBLAS_COMPUTE_32F,
                                 CUBLAS_GEMM_DEFAULT);
  blas.check(blas.set_pointer_mode(impl_->handle, CUBLAS_POINTER_MODE_HOST),
             "cublasSetPointerMode");
  blas.check(status, "cublasGemm of halves");
}

#define HETSGD_INSTANTIATE(Real)                                                                 \
  template void Blas::gemm<Real>(Transpose, Transpose, std::size_t, std::size_t, std::size_t,    \
                                 Real, const Real*, std::size_t, const Real*, std::size_t, Real, \
                                 Real*, std::size_t);                                            \
  template void Blas::gemm_by_columns<Real>(std::size_t, std::size_t, std::size_t, std::size_t,  \
                                            const Real*, const Real*, Real*, std::size_t);
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd::cuda
