#include "linalg/cuda/split_layer.hpp"

#include <algorithm>
#include <cmath>

#include "linalg/cuda/index.hpp"

namespace hetsgd::cuda {

namespace {

constexpr const char* kPurpose = "the halves of a softmax layer";
// Bytes that the halves of D or W of a block may take. Blocks cost launches: with a tenth of it a
// step of training takes half as long again.
constexpr std::size_t kTrainingBytes = std::size_t{1} << 30, kScoringBytes = std::size_t{192} << 20;
// A product's tile, and the number of tiles that keeps a large GPU busy. It is fixed, so that all
// GPUs add in the same order.
constexpr std::size_t kTile = 128, kEnoughTiles = 528;

// The gradient of a softmax is within its scale, which becomes at most 2^14.
float scale_for(float scale) {
  return scale != 0 && std::isfinite(scale)
             ? std::ldexp(1.0F, 13 - std::max(std::ilogb(scale), -60))
             : 1.0F;
}

}  // namespace

SplitLayer::SplitLayer(const Stream& stream, Blas& blas, std::size_t from_logits)
    : stream_(stream),
      blas_(blas),
      from_logits_(from_logits),
      facts_memory_(stream),
      input_memory_(stream),
      weight_memory_(stream),
      gradient_memory_(stream),
      parts_memory_(stream) {}

bool SplitLayer::takes(std::size_t rows, const SoftmaxLayer<float>& layer) const {
  return rows > 0 && rows >= from_logits_ / larger(layer.outputs, 1) && layer.inputs % 8 == 0 &&
         layer.inputs > 0 && is_aligned(layer.input) && is_aligned(layer.weight);
}

std::size_t SplitLayer::padded(std::size_t columns) const { return round_up(columns, chunk_); }

std::size_t SplitLayer::block_labels(std::size_t rows, std::size_t inputs) {
  const std::size_t bytes = rows > 0 ? kTrainingBytes : kScoringBytes;
  return larger(bytes / (3 * sizeof(HalfBits) * larger(rows, inputs)), 1);
}

void SplitLayer::begin(std::size_t rows, std::size_t labels, const SoftmaxLayer<float>& layer) {
  rows_ = rows;
  inputs_ = layer.inputs;
  const std::size_t tiles = ceil_divide(2 * rows, kTile) * ceil_divide(inputs_, kTile);
  chunk_ = round_up(ceil_divide(labels, ceil_divide(kEnoughTiles, tiles)), kTile);
  chunks_ = ceil_divide(labels, chunk_);
  gradient_scale_ = scale_for(layer.scale);
  facts_ = facts_memory_.reserve<SplitFacts>(1 + ceil_divide(kSplitParts * 4, sizeof(SplitFacts)),
                                             kPurpose);
  input_beside_ = input_memory_.reserve<HalfBits>(6 * rows * inputs_, kPurpose);
  input_below_ = input_beside_ + 3 * rows * inputs_;
  weight_ = weight_memory_.reserve<HalfBits>(padded(labels) * 3 * inputs_, kPurpose);
  const SplitSource A{rows, inputs_, layer.input}, W{layer.outputs, inputs_, layer.weight};
  measure_split(stream_.get(), A, W, gradient_scale_, layer.alpha, layer.beta,
                reinterpret_cast<float*>(facts_ + 1), facts_);
  split_input(stream_.get(), A, facts_, input_beside_, input_below_);
}

void SplitLayer::weights(const SoftmaxLayer<float>& layer, const LogitBlock<float>& block) {
  const SplitSource W{block.columns, inputs_, layer.weight + block.first_label * inputs_};
  split_weight(stream_.get(), W, padded(block.columns), facts_, weight_);
}

void SplitLayer::logits(const LogitBlock<float>& block) {
  // The gaps between rows of Z may be overwritten, and W' has rows for them.
  const std::size_t k = 3 * inputs_, columns = block_stride(block.columns),
                    main = columns / kProductColumns * kProductColumns;
  const Blas::HalfOperand A{.data = input_beside_, .ld = k};
  Blas::HalfOperand B{Transpose::yes, weight_, k, kProductColumns * k};
  Blas::FloatResult Z{block.Z, block.stride, kProductColumns, &facts_->logit_factor, &facts_->zero};
  blas_.gemm_halves(rows_, kProductColumns, k, A, B, Z, main / kProductColumns);
  B.data += main * k;
  Z.data += main;
  blas_.gemm_halves(rows_, columns - main, k, A, B, Z);
}

SplitGradient SplitLayer::gradient(std::size_t columns) {
  const std::size_t stride = padded(columns);
  gradient_ = gradient_memory_.reserve<HalfBits>(3 * rows_ * stride, kPurpose);
  const SplitGradient to{gradient_, rows_, stride, gradient_scale_};
  clear_gap(stream_.get(), to, columns);
  return to;
}

void SplitLayer::gradients(const SoftmaxLayer<float>& layer, const LogitBlock<float>& block) {
  const std::size_t stride = padded(block.columns), n = inputs_, k = 3 * n, part = 2 * rows_ * n;
  parts_ = parts_memory_.reserve<float>(chunks_ * part, kPurpose);
  const float* const before = block.first_label == 0 ? &facts_->zero : &facts_->one;
  const std::size_t chunks = stride / chunk_;
  Blas::HalfOperand D{.data = gradient_, .ld = stride, .step = chunk_};
  Blas::HalfOperand W{.data = weight_, .ld = k, .step = chunk_ * k};
  Blas::FloatResult to{parts_, n, part, &facts_->input_factor, before};
  blas_.gemm_halves(2 * rows_, n, chunk_, D, W, to, chunks);
  D.data += rows_ * stride;  // hi of D, lo of W
  W.data += n;
  to.beta = &facts_->one;
  blas_.gemm_halves(rows_, n, chunk_, D, W, to, chunks);

  const Blas::HalfOperand A{.data = input_below_, .ld = n};
  const std::size_t main = aligned_columns(block.columns);
  for (const Range& labels : {Range{0, main}, Range{main, block.columns}}) {
    const Blas::HalfOperand Dt{Transpose::yes, gradient_ + labels.begin, stride};
    float* const G = layer.weight_gradient + (block.first_label + labels.begin) * n;
    blas_.gemm_halves(labels.size(), n, 3 * rows_, Dt, A,
                      {G, n, 0, &facts_->weight_alpha, &facts_->weight_beta});
  }
}

void SplitLayer::end(const SoftmaxLayer<float>& layer) {
  add_split_parts(stream_.get(), chunks_, rows_ * inputs_, parts_, layer.input_gradient);
}

}  // namespace hetsgd::cuda
