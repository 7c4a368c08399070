#include "linalg/cuda/fused_layer.hpp"

#include <cstdint>

#include "linalg/cuda/check.hpp"
#include "linalg/cuda/index.hpp"

namespace hetsgd::cuda {

namespace {

int attribute(cudaDeviceAttr which, int ordinal) {
  int value = 0;
  HETSGD_CUDA(cudaDeviceGetAttribute(&value, which, ordinal));
  return value;
}

}  // namespace

FusedLayerRun::FusedLayerRun(Backend& backend)
    : backend_(backend),
      tiles_(backend.stream),
      parts_(backend.stream),
      rows_(backend.stream),
      labels_(backend.stream),
      losses_(backend.stream) {
  has_kernels_ = backend.precision != Precision::fp32 &&
                 has_fused_softmax(attribute(cudaDevAttrComputeCapabilityMajor, backend.ordinal),
                                   attribute(cudaDevAttrComputeCapabilityMinor, backend.ordinal));
  multiprocessors_ =
      static_cast<std::size_t>(attribute(cudaDevAttrMultiProcessorCount, backend.ordinal));
}

bool FusedLayerRun::takes(const SparseRows<float>& labels, const SoftmaxLayer<float>& layer) const {
  return has_kernels_ && labels.rows > 0 && layer.inputs == kFusedInputs && layer.outputs > 0 &&
         layer.bias != nullptr && layer.smoothing == 0 && is_aligned(layer.input) &&
         is_aligned(layer.weight) && is_aligned(layer.weight_gradient);
}

FusedScratch FusedLayerRun::reserve(const SoftmaxLayer<float>& layer, std::size_t rows,
                                    std::size_t nonzeros) {
  constexpr const char* kPurpose = "the softmax of a batch";
  const std::size_t padded = plan_.padded_rows, parts = plan_.ranges * padded;
  const std::size_t tile_bytes = padded * kFusedInputs * 2;
  FusedScratch to{.ranges = plan_.ranges};
  to.groups = tiles_.reserve<unsigned char>(2 * tile_bytes, kPurpose);
  to.chunks = to.groups + tile_bytes;
  to.part_product = parts_.reserve<float>(parts * (kFusedInputs + 2), kPurpose);
  to.part_max = to.part_product + parts * kFusedInputs;
  to.part_sum = to.part_max + parts;
  to.log_sum = rows_.reserve<float>(padded + 2 + nonzeros, kPurpose);
  to.facts = to.log_sum + padded;
  to.true_logit = to.facts + 2;
  to.own_begin =
      labels_.reserve<std::uint32_t>(ceil_divide(layer.outputs, kUpdateLabels) + 1, kPurpose);
  to.loss = losses_.reserve<double>(rows, kPurpose);
  return to;
}

const double* FusedLayerRun::forward(const SparseRows<float>& labels,
                                     const SoftmaxLayer<float>& layer) {
  plan_ = plan_fused(labels.rows, layer.outputs, multiprocessors_);
  by_label_ = backend_.batches.by_column(labels);
  scratch_ = reserve(layer, labels.rows, by_label_.nonzeros);
  fused_scores(backend_.stream.get(), backend_.precision == Precision::tf32, labels, by_label_,
               layer, plan_, scratch_);
  return scratch_.loss;
}

void FusedLayerRun::backward(const SparseRows<float>& labels, const SoftmaxLayer<float>& layer) {
  fused_update(backend_.stream.get(), backend_.precision == Precision::tf32, labels, by_label_,
               layer, plan_, scratch_);
}

}  // namespace hetsgd::cuda
