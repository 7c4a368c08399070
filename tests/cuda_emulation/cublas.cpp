// An emulated libcublas: dense products in double, rounded once; TF32 and BF16 round the operands
// first, as the tensor cores' formats do.
#include "cublas_v2.h"
#include "emulation.hpp"
#include "half_numbers.hpp"
#include "rounding.hpp"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t mode = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
};

namespace hetsgd_emulation {

namespace {

template <class Real>
struct Product {
  cublasOperation_t ta, tb;
  std::int64_t m, n, k;
  Real alpha;
  const Real* A;
  std::int64_t lda;
  const Real* B;
  std::int64_t ldb;
  Real beta;
  Real* C;
  std::int64_t ldc;
  int bits;

  bool valid() const {
    const auto least = [](std::int64_t rows) { return rows > 1 ? rows : 1; };
    return m >= 0 && n >= 0 && k >= 0 && lda >= least(ta == CUBLAS_OP_N ? m : k) &&
           ldb >= least(tb == CUBLAS_OP_N ? k : n) && ldc >= least(m);
  }

  void run() const {
    std::vector<double> a(static_cast<std::size_t>(m * k)), c(static_cast<std::size_t>(m));
    for (std::int64_t p = 0; p < k; ++p) {
      for (std::int64_t i = 0; i < m; ++i) {
        a[static_cast<std::size_t>(p * m + i)] =
            rounded(ta == CUBLAS_OP_N ? A[i + p * lda] : A[p + i * lda], bits);
      }
    }
    for (std::int64_t j = 0; j < n; ++j) {
      std::fill(c.begin(), c.end(), 0.0);
      for (std::int64_t p = 0; p < k; ++p) {
        const double b = rounded(tb == CUBLAS_OP_N ? B[p + j * ldb] : B[j + p * ldb], bits);
        const double* const column = a.data() + p * m;
        for (std::size_t i = 0; i < c.size(); ++i) c[i] += column[i] * b;
      }
      for (std::int64_t i = 0; i < m; ++i) {
        Real& out = C[i + j * ldc];
        const double value = static_cast<double>(alpha) * c[static_cast<std::size_t>(i)];
        out = static_cast<Real>(beta == Real(0) ? value : value + static_cast<double>(beta * out));
      }
    }
  }
};

// FP16 operands, FP32 results; the factors are read when the product runs.
struct HalfProduct {
  cublasOperation_t ta, tb;
  std::int64_t m, n, k;
  const float* alpha;
  const std::uint16_t* A;
  std::int64_t lda;
  const std::uint16_t* B;
  std::int64_t ldb;
  const float* beta;
  float* C;
  std::int64_t ldc;

  void run() const {
    const auto [a, a_ld] = widened(ta == CUBLAS_OP_N ? m : k, ta == CUBLAS_OP_N ? k : m, A, lda);
    const auto [b, b_ld] = widened(tb == CUBLAS_OP_N ? k : n, tb == CUBLAS_OP_N ? n : k, B, ldb);
    Product<float>{ta,   tb,       m,    n,     k, *alpha, a.data(),
                   a_ld, b.data(), b_ld, *beta, C, ldc,    kFloatBits}
        .run();
  }
  static std::pair<std::vector<float>, std::int64_t> widened(std::int64_t rows,
                                                             std::int64_t columns,
                                                             const std::uint16_t* from,
                                                             std::int64_t ld) {
    std::vector<float> to(static_cast<std::size_t>(rows * columns));
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t i = 0; i < rows; ++i) {
        to[static_cast<std::size_t>(j * rows + i)] = from_fp16(from[j * ld + i]);
      }
    }
    return {std::move(to), rows};
  }
};

cublasStatus_t enqueue_halves(cublasHandle_t handle, const HalfProduct& product) {
  if (handle->pointers != CUBLAS_POINTER_MODE_DEVICE) return CUBLAS_STATUS_NOT_SUPPORTED;
  const cudaError_t status = enqueue(handle->stream, [product] { product.run(); });
  return status == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

template <class Real>
cublasStatus_t enqueue_product(cublasHandle_t handle, const Product<Real>& product) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!product.valid()) return CUBLAS_STATUS_INVALID_VALUE;
  const cudaError_t status = enqueue(handle->stream, [product] { product.run(); });
  return status == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace
}  // namespace hetsgd_emulation

using hetsgd_emulation::enqueue_halves;
using hetsgd_emulation::enqueue_product;
using hetsgd_emulation::kBf16Bits;
using hetsgd_emulation::kFloatBits;
using hetsgd_emulation::kTf32Bits;
using hetsgd_emulation::Product;

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void* memory, std::size_t) {
  return reinterpret_cast<std::uintptr_t>(memory) % 256 == 0 ? CUBLAS_STATUS_SUCCESS
                                                             : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  handle->pointers = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t, cublasAtomicsMode_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  *value = type == MAJOR_VERSION ? 13 : 0;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "invalid value";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "execution failed";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "not supported";
  }
  return "unknown status";
}

cublasStatus_t cublasSgemm_v2_64(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                                 std::int64_t m, std::int64_t n, std::int64_t k, const float* alpha,
                                 const float* A, std::int64_t lda, const float* B, std::int64_t ldb,
                                 const float* beta, float* C, std::int64_t ldc) {
  const int bits = handle->mode == CUBLAS_TF32_TENSOR_OP_MATH ? kTf32Bits : kFloatBits;
  return enqueue_product(
      handle, Product<float>{ta, tb, m, n, k, *alpha, A, lda, B, ldb, *beta, C, ldc, bits});
}
cublasStatus_t cublasDgemm_v2_64(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                                 std::int64_t m, std::int64_t n, std::int64_t k,
                                 const double* alpha, const double* A, std::int64_t lda,
                                 const double* B, std::int64_t ldb, const double* beta, double* C,
                                 std::int64_t ldc) {
  return enqueue_product(
      handle, Product<double>{ta, tb, m, n, k, *alpha, A, lda, B, ldb, *beta, C, ldc, kFloatBits});
}

// Float operands with a choice of what they are rounded to, or doubles.
cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                               std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha,
                               const void* A, cudaDataType a_type, std::int64_t lda, const void* B,
                               cudaDataType b_type, std::int64_t ldb, const void* beta, void* C,
                               cudaDataType c_type, std::int64_t ldc, cublasComputeType_t compute,
                               cublasGemmAlgo_t) {
  if (a_type == CUDA_R_16F && b_type == CUDA_R_16F && c_type == CUDA_R_32F) {
    return enqueue_halves(
        handle, {ta, tb, m, n, k, static_cast<const float*>(alpha),
                 static_cast<const std::uint16_t*>(A), lda, static_cast<const std::uint16_t*>(B),
                 ldb, static_cast<const float*>(beta), static_cast<float*>(C), ldc});
  }
  if (a_type != b_type || a_type != c_type) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (a_type == CUDA_R_64F && compute == CUBLAS_COMPUTE_64F) {
    return cublasDgemm_v2_64(handle, ta, tb, m, n, k, static_cast<const double*>(alpha),
                             static_cast<const double*>(A), lda, static_cast<const double*>(B), ldb,
                             static_cast<const double*>(beta), static_cast<double*>(C), ldc);
  }
  if (a_type != CUDA_R_32F || compute == CUBLAS_COMPUTE_64F) return CUBLAS_STATUS_NOT_SUPPORTED;
  const int bits = compute == CUBLAS_COMPUTE_32F_FAST_TF32   ? kTf32Bits
                   : compute == CUBLAS_COMPUTE_32F_FAST_16BF ? kBf16Bits
                   : compute == CUBLAS_COMPUTE_32F && handle->mode == CUBLAS_TF32_TENSOR_OP_MATH
                       ? kTf32Bits
                       : kFloatBits;
  return enqueue_product(
      handle, Product<float>{ta, tb, m, n, k, *static_cast<const float*>(alpha),
                             static_cast<const float*>(A), lda, static_cast<const float*>(B), ldb,
                             *static_cast<const float*>(beta), static_cast<float*>(C), ldc, bits});
}
cublasStatus_t cublasGemmStridedBatchedEx_64(
    cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, std::int64_t m,
    std::int64_t n, std::int64_t k, const void* alpha, const void* A, cudaDataType a_type,
    std::int64_t lda, long long a_stride, const void* B, cudaDataType b_type, std::int64_t ldb,
    long long b_stride, const void* beta, void* C, cudaDataType c_type, std::int64_t ldc,
    long long c_stride, std::int64_t count, cublasComputeType_t compute, cublasGemmAlgo_t algo) {
  const auto size_of = [](cudaDataType type) -> long long {
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
  };
  const auto matrix = [&](const void* first, long long stride, std::int64_t i) {
    return static_cast<const char*>(first) + i * stride * size_of(a_type);
  };
  for (std::int64_t i = 0; i < count; ++i) {
    const cublasStatus_t status = cublasGemmEx_64(
        handle, ta, tb, m, n, k, alpha, matrix(A, a_stride, i), a_type, lda, matrix(B, b_stride, i),
        b_type, ldb, beta, static_cast<char*>(C) + i * c_stride * size_of(c_type), c_type, ldc,
        compute, algo);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
