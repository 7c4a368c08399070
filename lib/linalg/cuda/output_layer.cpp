// The output layer kernels of a GPU, on the launchers of softmax.hpp, softmax_layer.hpp,
// fused_layer.hpp and ranking.hpp.
#include <type_traits>

#include "core/error.hpp"
#include "linalg/cuda/backend.hpp"
#include "linalg/cuda/fused_layer.hpp"
#include "linalg/cuda/index.hpp"
#include "linalg/cuda/ranking.hpp"
#include "linalg/cuda/softmax.hpp"
#include "linalg/cuda/softmax_layer.hpp"
#include "linalg/cuda/vectors.hpp"
#include "linalg/output_layer_kernels.hpp"

namespace hetsgd::cuda {

namespace {

template <class Real>
class CudaOutputLayerKernels final : public BasicOutputLayerKernels<Real> {
 public:
  explicit CudaOutputLayerKernels(Backend& backend)
      : backend_(backend),
        softmax_(backend.stream),
        ranking_(backend.stream),
        layer_(backend.stream, backend.blas, ranking_, backend.logit_budget, backend.logit_block,
               backend.split_from),
        fused_(backend),
        losses_(backend.stream),
        best_(backend.stream),
        numbers_(backend.stream),
        gathered_(backend.stream) {}

  DeferredSum softmax_cross_entropy(const SparseRows<Real>& labels, std::size_t n, const Real* bias,
                                    Real scale, Real* Z) override {
    const LogitBlock<Real> block{.columns = n, .stride = n, .Z = Z, .bias = bias};
    const SoftmaxRows<Real> rows = forward(labels, block, false, scale);
    const DeferredSum loss = send_sum(labels.rows, rows.loss);
    softmax_gradient(backend_.stream.get(), labels, block, scale, rows,
                     gradient_groups(labels.rows, n), n, static_cast<Real*>(nullptr));
    return loss;
  }
  DeferredSum softmax_loss(const SparseRows<Real>& labels, std::size_t n, const Real* bias,
                           Real* Z) override {
    const LogitBlock<Real> block{.columns = n, .stride = n, .Z = Z, .bias = bias};
    return send_sum(labels.rows, forward(labels, block, true, Real(1)).loss);
  }
  DeferredSum softmax_layer(const SparseRows<Real>& labels,
                            const SoftmaxLayer<Real>& layer) override {
    begin(labels);
    const GatheredRows rows = gather(labels.rows, layer);
    if constexpr (std::is_same_v<Real, float>) {
      if (fused_.takes(labels, rows.layer)) return run_layer(fused_, labels, rows);
    }
    return run_layer(layer_, labels, rows);
  }
  DeferredSum softmax_ranks(const SparseRows<Real>& labels, const SoftmaxLayer<Real>& layer,
                            std::size_t k, std::uint32_t* top) override {
    check_top(layer.outputs, k);
    begin(labels);
    return send_sum(labels.rows, layer_.rank(labels, gather(labels.rows, layer).layer, k, top));
  }
  DeferredSum sigmoid_cross_entropy(const SparseRows<Real>& labels, std::size_t n, const Real* bias,
                                    Real scale, Real* Z) override {
    return sigmoid(labels, n, bias, true, scale, Z);
  }
  DeferredSum sigmoid_loss(const SparseRows<Real>& labels, std::size_t n, const Real* bias,
                           Real* Z) override {
    return sigmoid(labels, n, bias, false, Real(1), Z);
  }

  void top_k(std::size_t rows, std::size_t n, const Real* Z, std::size_t k,
             std::uint32_t* top) override {
    check_top(n, k);
    if (rows == 0) return;
    const cudaStream_t stream = backend_.use();
    const Candidates<Real> candidates = ranking_.reserve(rows, top_parts(n), k);
    const LogitBlock<const Real> block{.columns = n, .stride = n, .Z = Z};
    top_of_block(stream, rows, block, 0, candidates);
    auto* const best = best_.reserve<std::uint32_t>(rows * k, "the best labels of a batch");
    top_of_all(stream, rows, candidates, k, best);
    backend_.transfer.download(top, best, rows * k * sizeof(std::uint32_t));
  }

 private:
  static constexpr const char* kTargets = "the rows of targets";

  static void check_top(std::size_t n, std::size_t k) {
    HETSGD_CHECK_LE(std::size_t{1}, k);
    HETSGD_CHECK_LE(k, std::size_t{16});
    HETSGD_CHECK_LE(k, n);
    HETSGD_CHECK_LT(n, std::size_t{kNoLabel});
  }
  cudaStream_t begin(const SparseRows<Real>& labels) {
    backend_.batches.check(labels);
    return backend_.use();
  }
  DeferredSum send_sum(std::size_t rows, const double* losses) {
    add_up(backend_.stream.get(), rows, losses, backend_.result.device());
    return backend_.result.send();
  }

  // A layer whose rows are 0, 1, ...
  struct GatheredRows {
    SoftmaxLayer<Real> layer;
    const std::uint32_t* number = nullptr;  // [rows] in device memory; null: all lie in place
    Real* input_gradient = nullptr;         // where they belong
  };
  // Rows one after the other, as those of a causal network without padding, stay where they are.
  GatheredRows gather(std::size_t rows, const SoftmaxLayer<Real>& given) {
    GatheredRows to{given};
    if (given.row == nullptr || rows == 0) return to;
    SoftmaxLayer<Real>& layer = to.layer;
    layer.row = nullptr;
    const std::size_t first = given.row[0] * layer.inputs, numbers = rows * layer.inputs;
    if (given.row[rows - 1] - given.row[0] == rows - 1) {
      layer.input += first;
      if (layer.input_gradient != nullptr) layer.input_gradient += first;
      return to;
    }
    auto* const number = numbers_.reserve<std::uint32_t>(rows, kTargets);
    backend_.transfer.upload(number, given.row, rows * sizeof(std::uint32_t));
    auto* const gathered = gathered_.reserve<Real>(2 * numbers, kTargets);
    copy_rows(backend_.stream.get(), CopyRows::gather, rows, number, layer.inputs, given.input,
              gathered);
    layer.input = gathered;
    layer.input_gradient = gathered + numbers;
    return {layer, number, given.input_gradient};
  }

  template <class Run>
  DeferredSum run_layer(Run& run, const SparseRows<Real>& labels, const GatheredRows& rows) {
    const DeferredSum loss = send_sum(labels.rows, run.forward(labels, rows.layer));
    run.backward(labels, rows.layer);
    if (rows.number != nullptr) {
      copy_rows<Real>(backend_.stream.get(), CopyRows::scatter, labels.rows, rows.number,
                      rows.layer.inputs, rows.layer.input_gradient, rows.input_gradient);
    }
    return loss;
  }

  // Statistics and losses of logits that lie in one block.
  SoftmaxRows<Real> forward(const SparseRows<Real>& labels, const LogitBlock<Real>& block,
                            bool keep_bias, Real scale) {
    const cudaStream_t stream = begin(labels);
    const SoftmaxRows<Real> rows = softmax_.reserve(labels.rows, ceil_divide(block.columns, kPart));
    softmax_statistics(stream, labels, block, keep_bias, rows);
    softmax_combine(stream, labels, scale, rows);
    return rows;
  }

  DeferredSum sigmoid(const SparseRows<Real>& labels, std::size_t n, const Real* bias,
                      bool gradient, Real scale, Real* Z) {
    const cudaStream_t stream = begin(labels);
    auto* const losses = losses_.reserve<double>(labels.rows, "the losses of a batch");
    sigmoid_rows(stream, labels, n, bias, gradient, scale, Z, losses);
    return send_sum(labels.rows, losses);
  }

  Backend& backend_;
  SoftmaxScratch<Real> softmax_;
  Ranking<Real> ranking_;
  SoftmaxLayerRun<Real> layer_;
  FusedLayerRun fused_;
  DeviceMemory losses_, best_, numbers_, gathered_;
};

const RegisterKernels<Backend, BasicOutputLayerKernels, CudaOutputLayerKernels>
    output_layer_kernels;

}  // namespace

}  // namespace hetsgd::cuda
