// Dense products by cuBLAS.
//
// The library is loaded when the first GPU is used, not when the program starts. Mapping its 600 MB
// takes a tenth of a second, which `hetsgd --version` and every run on CPUs would pay. A machine
// without the library can run everything else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "linalg/cuda/resources.hpp"
#include "linalg/operands.hpp"

namespace hetsgd::cuda {

class Blas {
 public:
  // Throws Error(device) if the library is missing or does not work.
  Blas(const Stream& stream, Precision precision);
  ~Blas();

  // The version, "13.0.2". Throws Error(device) if the library is missing.
  static std::string version();

  // C[m x n] = alpha op(A)[m x k] op(B)[k x n] + beta C, row-major, any sizes. Computed in the
  // precision of Real (no TF32) unless Real is float and another precision was requested. The same
  // operands give the same bits, because there is one stream, a workspace of its own, and no atomic
  // addition.
  template <class Real>
  void gemm(Transpose a, Transpose b, std::size_t m, std::size_t n, std::size_t k, Real alpha,
            const Real* A, std::size_t lda, const Real* B, std::size_t ldb, Real beta, Real* C,
            std::size_t ldc);
  // Y[m x n] = A[m x k] B[n x k]^T with rows of Y `ldy` apart, as one call of n / width products of
  // `width` columns, which must divide n. A single product of many columns is slower, because
  // cuBLAS chooses other kernels for it (on an H200, for 256 x 128 by 128 x 670,091 by up to a
  // seventh).
  template <class Real>
  void gemm_by_columns(std::size_t m, std::size_t n, std::size_t k, std::size_t width,
                       const Real* A, const Real* B, Real* Y, std::size_t ldy);
  // C_i[m x n] = alpha op(A_i)[m x k] op(B_i)[k x n] + beta C_i for each i of a batch, with
  // operands in FP16 (the numbers' bits) and sums in FP32. alpha and beta lie in device memory.
  struct HalfOperand {
    Transpose transpose = Transpose::no;
    const std::uint16_t* data = nullptr;
    std::size_t ld = 0, step = 0;  // from one product of the batch to the next
  };
  struct FloatResult {
    float* data = nullptr;
    std::size_t ld = 0, step = 0;
    const float *alpha = nullptr, *beta = nullptr;
  };
  void gemm_halves(std::size_t m, std::size_t n, std::size_t k, const HalfOperand& A,
                   const HalfOperand& B, const FloatResult& C, std::size_t batch = 1);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hetsgd::cuda
