// The emulated cuBLAS: see ../cublas.cpp.
#pragma once

#include <cstdint>

#include "cuda_runtime_api.h"
#include "library_types.h"

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasMath_t {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3,
};
enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 };
enum cublasAtomicsMode_t { CUBLAS_ATOMICS_NOT_ALLOWED = 0, CUBLAS_ATOMICS_ALLOWED = 1 };
enum cublasComputeType_t {
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_PEDANTIC = 69,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
struct cublasContext;
using cublasHandle_t = cublasContext*;

extern "C" {
cublasStatus_t cublasCreate_v2(cublasHandle_t* handle);
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle);
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* memory, std::size_t bytes);
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode);
const char* cublasGetStatusString(cublasStatus_t status);
cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value);
cublasStatus_t cublasSgemm_v2_64(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                                 std::int64_t m, std::int64_t n, std::int64_t k, const float* alpha,
                                 const float* A, std::int64_t lda, const float* B, std::int64_t ldb,
                                 const float* beta, float* C, std::int64_t ldc);
cublasStatus_t cublasDgemm_v2_64(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                                 std::int64_t m, std::int64_t n, std::int64_t k,
                                 const double* alpha, const double* A, std::int64_t lda,
                                 const double* B, std::int64_t ldb, const double* beta, double* C,
                                 std::int64_t ldc);
cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                               std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha,
                               const void* A, cudaDataType a_type, std::int64_t lda, const void* B,
                               cudaDataType b_type, std::int64_t ldb, const void* beta, void* C,
                               cudaDataType c_type, std::int64_t ldc, cublasComputeType_t compute,
                               cublasGemmAlgo_t algorithm);
cublasStatus_t cublasGemmStridedBatchedEx_64(
    cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, std::int64_t m,
    std::int64_t n, std::int64_t k, const void* alpha, const void* A, cudaDataType a_type,
    std::int64_t lda, long long a_stride, const void* B, cudaDataType b_type, std::int64_t ldb,
    long long b_stride, const void* beta, void* C, cudaDataType c_type, std::int64_t ldc,
    long long c_stride, std::int64_t count, cublasComputeType_t compute, cublasGemmAlgo_t algo);
}
