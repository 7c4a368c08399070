#include "linalg/cuda/softmax_layer.hpp"

#include <type_traits>

#include "linalg/cuda/vectors.hpp"
#include "linalg/device.hpp"

namespace hetsgd::cuda {

template <class Real>
SoftmaxRows<Real> SoftmaxScratch<Real>::reserve(std::size_t rows, std::size_t parts, Real smoothing,
                                                std::size_t labels) {
  const char* const purpose = "the softmax of a batch";
  const bool smooth = smoothing != Real(0);
  auto* const of_parts = parts_.reserve<Real>((smooth ? 3 : 2) * rows * parts, purpose);
  auto* const row_reals = row_reals_.reserve<Real>(2 * rows, purpose);
  auto* const row_doubles = row_doubles_.reserve<double>(2 * rows, purpose);
  return {.parts = parts,
          .part_max = of_parts,
          .part_sum = of_parts + rows * parts,
          .part_total = smooth ? of_parts + 2 * rows * parts : nullptr,
          .true_logit = row_doubles,
          .max = row_reals,
          .factor = row_reals + rows,
          .loss = row_doubles + rows,
          .smoothing = smoothing,
          .labels = labels};
}

template <class Real>
LogitBlock<Real> SoftmaxLayerRun<Real>::block_at(const SoftmaxLayer<Real>& layer, std::size_t rows,
                                                 std::size_t block) const {
  const Range labels = block_labels(plan_, layer.outputs, block);
  return {.first_label = labels.begin,
          .columns = labels.size(),
          .stride = block_stride(labels.size()),
          .Z = Z_ + block_offset(plan_, rows, block),
          .bias = layer.bias};
}

// The plan of a call, with room for the logits. `rows_back`: those whose gradient is wanted.
template <class Real>
void SoftmaxLayerRun<Real>::begin(std::size_t rows, std::size_t rows_back,
                                  const SoftmaxLayer<Real>& layer, std::size_t budget,
                                  std::size_t block) {
  if constexpr (std::is_same_v<Real, float>) is_split_ = split_.takes(rows, layer);
  if (is_split_) {
    const std::size_t labels = SplitLayer::block_labels(rows_back, layer.inputs);
    block = smaller(block, labels * rows * sizeof(Real));
  }
  plan_ = plan_layer(rows, layer.outputs, sizeof(Real), budget, block);
  rows_ =
      scratch_.reserve(rows, plan_.parts, rows_back > 0 ? layer.smoothing : Real(0), layer.outputs);
  Z_ = logits_.reserve<Real>(plan_.numbers, "the logits of a batch");
  if constexpr (std::is_same_v<Real, float>) {
    if (is_split_) split_.begin(rows, plan_.block, layer);
  }
}

template <class Real>
void SoftmaxLayerRun<Real>::multiply(const SoftmaxLayer<Real>& layer, std::size_t rows,
                                     const LogitBlock<Real>& block) {
  if constexpr (std::is_same_v<Real, float>) {
    if (is_split_) {
      split_.weights(layer, block);
      return split_.logits(block);
    }
  }
  const std::size_t in = layer.inputs, main = block.columns / kProductColumns * kProductColumns;
  const Real* const W = layer.weight + block.first_label * in;
  blas_.gemm_by_columns(rows, main, in, kProductColumns, layer.input, W, block.Z, block.stride);
  blas_.gemm(Transpose::no, Transpose::yes, rows, block.columns - main, in, Real(1), layer.input,
             in, W + main * in, in, Real(0), block.Z + main, block.stride);
}

template <class Real>
const double* SoftmaxLayerRun<Real>::forward(const SparseRows<Real>& labels,
                                             const SoftmaxLayer<Real>& layer) {
  begin(labels.rows, labels.rows, layer, budget_, block_);
  for (std::size_t b = 0; b < plan_.blocks; ++b) {
    const LogitBlock<Real> block = block_at(layer, labels.rows, b);
    multiply(layer, labels.rows, block);
    softmax_statistics(stream_.get(), labels, block, false, rows_);
  }
  softmax_combine(stream_.get(), labels, layer.scale, rows_);
  return rows_.loss;
}

// dA += D W with the old W and G = beta G + alpha D^T A of a block whose Z holds D.
template <class Real>
void SoftmaxLayerRun<Real>::multiply_back(const SoftmaxLayer<Real>& layer, std::size_t rows,
                                          const LogitBlock<Real>& block) {
  const std::size_t in = layer.inputs, main = aligned_columns(block.columns);
  for (const Range& part : {Range{0, main}, Range{main, block.columns}}) {
    const std::size_t first = (block.first_label + part.begin) * in;
    const Real beta = first == 0 ? Real(0) : Real(1);
    if (part.size() == 0) continue;
    blas_.gemm(Transpose::no, Transpose::no, rows, in, part.size(), Real(1), block.Z + part.begin,
               block.stride, layer.weight + first, in, beta, layer.input_gradient, in);
    blas_.gemm(Transpose::yes, Transpose::no, part.size(), in, rows, layer.alpha,
               block.Z + part.begin, block.stride, layer.input, in, layer.beta,
               layer.weight_gradient + first, in);
  }
}

template <class Real>
void SoftmaxLayerRun<Real>::backward(const SparseRows<Real>& labels,
                                     const SoftmaxLayer<Real>& layer) {
  const std::size_t rows = labels.rows, in = layer.inputs;
  const std::size_t groups = gradient_groups(rows, plan_.block);
  Real* partials = nullptr;
  if (layer.bias_gradient != nullptr) {
    partials = partials_.reserve<Real>(groups * layer.outputs, "the bias gradient of a batch");
  }
  for (std::size_t b = 0; b < plan_.blocks; ++b) {
    const LogitBlock<Real> block = block_at(layer, rows, b);
    // The same product as in the first pass, to the bit, because W's rows of this block have not
    // changed yet.
    if (b >= plan_.kept) multiply(layer, rows, block);
    SplitGradient halves;
    if (is_split_) halves = split_.gradient(block.columns);
    softmax_gradient(stream_.get(), labels, block, layer.scale, rows_, groups, layer.outputs,
                     partials, halves);
    if constexpr (std::is_same_v<Real, float>) {
      if (is_split_) {
        if (b < plan_.kept && plan_.blocks > 1) split_.weights(layer, block);
        split_.gradients(layer, block);
        continue;
      }
    }
    multiply_back(layer, rows, block);
  }
  if constexpr (std::is_same_v<Real, float>) {
    if (is_split_) split_.end(layer);
  }
  if (rows == 0) {  // only G = beta G
    scale_matrix(stream_.get(), layer.outputs, in, layer.beta, layer.weight_gradient, in);
  }
  if (layer.bias_gradient == nullptr) return;
  // This comes last, because g may be the bias that the blocks read.
  add_groups(stream_.get(), groups, layer.outputs, layer.alpha, partials, layer.beta,
             layer.bias_gradient);
}

template <class Real>
const double* SoftmaxLayerRun<Real>::rank(const SparseRows<Real>& labels,
                                          const SoftmaxLayer<Real>& layer, std::size_t k,
                                          std::uint32_t* top) {
  const std::size_t rows = labels.rows;
  // Nothing is kept.
  begin(rows, 0, layer, 0, smaller(block_, kScoringBlockBytes));
  const Candidates<Real> candidates = ranking_.reserve(rows, plan_.blocks, k);
  for (std::size_t b = 0; b < plan_.blocks; ++b) {
    const LogitBlock<Real> block = block_at(layer, rows, b);
    multiply(layer, rows, block);
    softmax_statistics(stream_.get(), labels, block, false, rows_);
    const LogitBlock<const Real> scores{block.first_label, block.columns, block.stride, block.Z,
                                        block.bias};
    top_of_parts(stream_.get(), rows, scores, rows_, b, candidates);
  }
  softmax_combine(stream_.get(), labels, Real(1), rows_);
  top_of_all(stream_.get(), rows, candidates, k, top);
  return rows_.loss;
}

#define HETSGD_INSTANTIATE(Real)       \
  template class SoftmaxScratch<Real>; \
  template class SoftmaxLayerRun<Real>;
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd::cuda
