// Launchers of the softmax layer whose logits are never written, for GPUs of compute capability 9.0
// and 128 inputs. Four kernels:
//   prepare   A in 16 bits, as the operand tiles of the next two (tensor_core.cuh)
//   scores    per 256 rows and range of labels: Z = A W^T + b tile by tile in registers, its
//             maximum m and the sum of e = exp(z - m) so far, and E W, the sum over labels that are
//             not the row's own; all as in an online softmax
//   combine   per row: the ranges together, in their order -> loss, log of the sum, and dA = D W;
//             the row's own labels are added to dA in FP32
//   update    per 64 labels: Z once more, D = scale (exp(z - log sum) - T) in registers,
//             G = beta G + alpha D^T A, g = beta g + alpha D^T 1
// A row's own labels are kept out of the second product because their D = p - T is a difference
// that may be small: it is computed before it is rounded to 16 bits.
//
// Floor of a call with n rows and b labels: 8 n 128 b operations, W read twice and G written once
// (with beta also read). The scores, 4 n b bytes, exist in registers alone.
//
// Precision. Operands have 16 bits, sums are FP32. `bf16` rounds to 8 significant bits. `tf32`
// takes FP16, whose 11 significant bits are those of TF32, and scales by powers of two what could
// leave its range: A by its largest element, W by 16, exp(z - m) by 2^14. Elements of A and
// exponentials that are 2^-28 of the largest, which lose bits, would vanish beside it in a sum.
// Weights below 4e-6 have fewer than 11 bits, with an absolute error of 2e-9; weights beyond 4,094
// become infinite and end in a loss that is not finite; no model that learns has such weights.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "linalg/cuda/fused_plan.hpp"
#include "linalg/cuda/sparse.hpp"
#include "linalg/output_layer_kernels.hpp"

namespace hetsgd::cuda {

// Scratch in device memory; rows are rounded up to whole groups.
struct FusedScratch {
  std::size_t ranges = 0;           // of labels
  unsigned char* groups = nullptr;  // [groups x 64 KiB] operand tiles of 256 rows
  unsigned char* chunks = nullptr;  // [chunks x kChunkTileBytes] the same rows, 64 at a time
  float* log_sum = nullptr;         // [rows] base 2; infinity: a row without labels
  float* facts = nullptr;           // [2]: A's scale, 1 / A's scale
  float* part_max = nullptr;        // [ranges x rows] base 2
  float* part_sum = nullptr;        // [ranges x rows]
  float* part_product = nullptr;    // [ranges x rows x 128]
  float* true_logit = nullptr;      // [nonzeros of the labels] base 2
  std::uint32_t* own_begin =
      nullptr;             // [tiles of the update + 1] in the labels of the batch by label
  double* loss = nullptr;  // [rows]
};

// Whether this GPU has what the kernels need.
bool has_fused_softmax(int major, int minor);

// precise: FP16 operands, else BF16.
void fused_scores(cudaStream_t stream, bool precise, const SparseRows<float>& labels,
                  const ByColumn& by_label, const SoftmaxLayer<float>& layer, const FusedPlan& plan,
                  const FusedScratch& scratch);
void fused_update(cudaStream_t stream, bool precise, const SparseRows<float>& labels,
                  const ByColumn& by_label, const SoftmaxLayer<float>& layer, const FusedPlan& plan,
                  const FusedScratch& scratch);

}  // namespace hetsgd::cuda
