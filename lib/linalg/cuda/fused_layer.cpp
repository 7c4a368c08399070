#include "linalg/cuda/fused_layer.hpp"

#include <cstdint>

#include "linalg/cuda/check.hpp"

namespace hetsgd::cuda {

namespace {

int attribute(cudaDeviceAttr which, int ordinal) {
  int value = 0;
  HETSGD_CUDA(cudaDeviceGetAttribute(&value, which, ordinal));
  return value;
}

// Memory that is cut into arrays, one after the other.
class Cut {
 public:
  explicit Cut(std::byte* memory) : at_(memory) {}
  template <class T>
  T* next(std::size_t count) {
    T* const array = reinterpret_cast<T*>(at_);
    at_ += bytes<T>(count);
    return array;
  }
  template <class T>
  static std::size_t bytes(std::size_t count) {
    return (count * sizeof(T) + 127) / 128 * 128;
  }

 private:
  std::byte* at_;
};

}  // namespace

FusedLayerRun::FusedLayerRun(Backend& backend)
    : backend_(backend),
      tiles_(backend.stream),
      parts_(backend.stream),
      rows_(backend.stream),
      losses_(backend.stream) {
  has_kernels_ = backend.precision != Precision::fp32 &&
                 has_fused_softmax(attribute(cudaDevAttrComputeCapabilityMajor, backend.ordinal),
                                   attribute(cudaDevAttrComputeCapabilityMinor, backend.ordinal));
  multiprocessors_ =
      static_cast<std::size_t>(attribute(cudaDevAttrMultiProcessorCount, backend.ordinal));
}

bool FusedLayerRun::takes(const SparseRows<float>& labels, const SoftmaxLayer<float>& layer) const {
  const auto aligned = [](const float* memory) {
    return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
  };
  return has_kernels_ && labels.rows > 0 && layer.inputs == kFusedInputs && layer.outputs > 0 &&
         aligned(layer.input) && aligned(layer.weight) && aligned(layer.weight_gradient);
}

FusedScratch FusedLayerRun::reserve(const SoftmaxLayer<float>& layer, std::size_t rows,
                                    std::size_t nonzeros) {
  constexpr const char* kPurpose = "the softmax of a batch";
  const std::size_t padded = plan_.padded_rows, parts = plan_.ranges * padded;
  const std::size_t own = layer.outputs / kUpdateLabels + 2;
  const std::size_t tile_bytes = padded * kFusedInputs * 2;
  FusedScratch to{.ranges = plan_.ranges};
  to.groups = tiles_.reserve<unsigned char>(2 * tile_bytes, kPurpose);
  to.chunks = to.groups + tile_bytes;
  Cut of_parts(parts_.reserve<std::byte>(
      2 * Cut::bytes<float>(parts) + Cut::bytes<float>(parts * kFusedInputs), kPurpose));
  to.part_max = of_parts.next<float>(parts);
  to.part_sum = of_parts.next<float>(parts);
  to.part_product = of_parts.next<float>(parts * kFusedInputs);
  Cut of_rows(rows_.reserve<std::byte>(Cut::bytes<float>(2) + Cut::bytes<float>(padded) +
                                           Cut::bytes<float>(nonzeros) +
                                           Cut::bytes<std::uint32_t>(own),
                                       kPurpose));
  to.facts = of_rows.next<float>(2);
  to.log_sum = of_rows.next<float>(padded);
  to.true_logit = of_rows.next<float>(nonzeros);
  to.own_begin = of_rows.next<std::uint32_t>(own);
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
