// Sparse layer 0, dense hidden layers, softmax or sigmoid loss.
#include "model/mlp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "linalg/output_layer_kernels.hpp"
#include "linalg/sparse_kernels.hpp"
#include "model/objective.hpp"
#include "model/registry.hpp"

namespace hetsgd {

namespace {

template <class Real>
struct MlpContext final : BasicModelContext<Real> {
  MlpContext(BasicDevice<Real>& device, std::size_t hidden_layers)
      : BasicModelContext<Real>(device),
        sparse(kernels<BasicSparseKernels<Real>>(device)),
        activation(hidden_layers),
        delta(hidden_layers) {}

  BasicSparseKernels<Real>& sparse;
  std::vector<BasicBuffer<Real>> activation;  // per hidden layer [batch x width], after ReLU
  std::vector<BasicBuffer<Real>> delta;       // the loss' gradient before that ReLU
  BasicBuffer<Real> best;                     // [batch x k] label numbers, of at most 4 bytes each

  std::optional<BasicChosenSoftmax<Real>> chosen;  // where not all labels are scored

  void fields(Archive& fields) override {
    if (chosen) fields("chosen", *chosen);
  }
  std::size_t batch_bytes() const override {
    std::size_t elements = best.size();
    for (const auto& each : activation) elements += each.size();
    for (const auto& each : delta) elements += each.size();
    return BasicModelContext<Real>::batch_bytes() + elements * sizeof(Real);
  }
};

template <class Real>
class Mlp : public BasicModel<Real> {
  using typename BasicModel<Real>::Context;

 public:
  Mlp(const DataShape& data, const MlpOptions& options)
      : BasicModel<Real>(data),
        objective_(usual_objective<Real>(data.task)),
        labels_(options.labels.fitting(
            data.task, data.outputs(),
            options.hidden.empty() ? data.feature_count : options.hidden.back())) {
    widths_ = {data.feature_count};
    widths_.insert(widths_.end(), options.hidden.begin(), options.hidden.end());
    widths_.push_back(data.outputs());
    for (std::size_t layer = 0; layer < layer_count(); ++layer) {
      const std::size_t in = inputs(layer), out = width(layer);
      HETSGD_CHECK_LT(0U, out);
      this->add_block({.name = fmt::format("layer{}.weight", layer),
                       .rows = layer == 0 ? in : out,
                       .cols = layer == 0 ? out : in,
                       .kind = layer == 0 || (!labels_.is_full() && layer + 1 == layer_count())
                                   ? BlockKind::row_sparse
                                   : BlockKind::dense,
                       .init_std = options.initial_std(widths_, layer)});
      this->add_block({.name = fmt::format("layer{}.bias", layer), .cols = out});
    }
  }

  std::unique_ptr<Context> make_context(BasicDevice<Real>& device) const override {
    auto context = std::make_unique<MlpContext<Real>>(device, layer_count() - 1);
    if (!labels_.is_full()) {
      context->chosen.emplace(labels_, this->outputs(), inputs(layer_count() - 1),
                              kernels<BasicHostCores<Real>>(device));
    }
    return context;
  }

  bool ranks_in_memory() const override { return !fused(); }
  const HashedLabels* hashed_labels() const override {
    return labels_.objective == ScoredLabels::hashed ? &labels_.hashing : nullptr;
  }
  std::vector<std::uint64_t> layer_sizes() const override { return widths_; }

  Work gradient_work(const BatchShape& batch) const override {
    constexpr double kBytes = 4;
    const double n = batch.samples, z = batch.nonzeros;
    const auto first = static_cast<double>(width(0));
    Work work{4 * z * first + n * first, 16 * z + kBytes * (3 * z * first + 3 * n * first), 3};
    for (std::size_t i = 1; i < layer_count(); ++i) {
      const auto a = static_cast<double>(inputs(i)), b = static_cast<double>(width(i));
      if (labels_.is_full() || i + 1 < layer_count()) {
        work += {6 * n * a * b + n * b, kBytes * (4 * a * b + 3 * n * a + 4 * n * b), 4};
      }
      // The hidden layer below: ReLU forward (a launch of its own above layer 0) and backward.
      work += {3 * n * a, kBytes * (i > 1 ? 5 : 3) * n * a, i > 1 ? 2.0 : 1.0};
    }
    if (!labels_.is_full()) {
      return work + labels_.work(batch, this->outputs(), inputs(layer_count() - 1));
    }
    const auto outputs = static_cast<double>(this->outputs());
    work += {5 * n * outputs, kBytes * (2 * n * outputs + batch.labels), 1};
    return work;
  }

  // A part is a layer, from the output layer down.
  std::size_t gradient_parts() const override { return layer_count(); }
  Extent gradient_part(std::size_t part) const override {
    const ParameterBlock* const blocks = &this->layout().blocks.at(2 * layer_of(part));
    return {blocks[0].offset, blocks[1].offset + blocks[1].size()};
  }
  Work partial_gradient_work(const BatchShape& batch, std::size_t parts) const override {
    Work work = gradient_work(batch);
    for (std::size_t layer = 0; layer + parts < layer_count(); ++layer) {
      work = work - backward_work(batch, layer);
    }
    return work;
  }

 protected:
  DeferredSum learn(Context& context, const Batch& batch, const Real* w,
                    Sink<Real> sink) const override {
    const DeferredSum loss = learn_part(context, batch, w, sink, 0);
    for (std::size_t part = 1; part < layer_count(); ++part) {
      learn_part(context, batch, w, sink, part);
    }
    return loss;
  }

  DeferredSum learn_part(Context& context, const Batch& batch, const Real* w, Sink<Real> sink,
                         std::size_t part) const override {
    auto& scratch = static_cast<MlpContext<Real>&>(context);
    BasicDevice<Real>& device = scratch.device();
    const std::size_t layer = layer_of(part);
    if (part > 0) {
      Real* D = scratch.delta[layer].data();
      device.apply(batch.size() * width(layer), rule::ReluGradient<Real>(),
                   scratch.activation[layer].data(), D);
      backward(scratch, batch, w, layer, D, sink);
      return 0.0;
    }
    scratch.stage(batch);
    forward_hidden(scratch, batch, w);
    for (std::size_t below = 0; below < layer; ++below) {
      scratch.delta[below].reset(device, batch.size() * width(below));
    }
    if (!labels_.is_full()) return learn_chosen(scratch, batch, w, sink);
    return fused() ? learn_fused(scratch, batch, w, sink) : learn_scores(scratch, batch, w, sink);
  }

  DeferredSum score(Context& context, const Batch& batch, const Real* w,
                    Real* logits) const override {
    auto& scratch = static_cast<MlpContext<Real>&>(context);
    scratch.stage(batch);
    forward_hidden(scratch, batch, w);
    forward_output(scratch, batch, w, logits);
    return objective_.score(scratch.device(), scratch.labels(), this->outputs(),
                            bias(w, layer_count() - 1), logits);
  }

  double rank_batch(Context& context, const Batch& batch, const Real* w, std::size_t k,
                    std::uint32_t* top) const override {
    if (!fused()) return BasicModel<Real>::rank_batch(context, batch, w, k, top);
    auto& scratch = static_cast<MlpContext<Real>&>(context);
    const std::size_t last = layer_count() - 1, count = batch.size() * k;
    BasicDevice<Real>& device = scratch.device();
    scratch.stage(batch);
    forward_hidden(scratch, batch, w);
    scratch.best.reset(device, count);
    auto* const best = reinterpret_cast<std::uint32_t*>(scratch.best.data());
    const DeferredSum loss = objective_.rank_layer(device, scratch.labels(),
                                                   {.inputs = inputs(last),
                                                    .outputs = width(last),
                                                    .input = scratch.activation[last - 1].data(),
                                                    .weight = weight(w, last),
                                                    .bias = bias(w, last)},
                                                   k, best);
    scratch.stage_ahead();
    device.download(top, best, count * sizeof(std::uint32_t));
    return loss;
  }

  void touch(Context& context, const Batch& batch,
             std::vector<std::vector<Index>>& rows) const override {
    BasicModel<Real>::touch(context, batch, rows);
    if (labels_.is_full()) return;
    static_cast<MlpContext<Real>&>(context).chosen->labels_of(batch, rows.back());
  }

  double sample_scratch() const override {
    double units = 0;
    for (std::size_t i = 1; i < layer_count(); ++i) units += static_cast<double>(inputs(i));
    return 2 * units;
  }

 private:
  std::size_t layer_count() const { return widths_.size() - 1; }
  std::size_t layer_of(std::size_t part) const { return layer_count() - 1 - part; }
  std::size_t inputs(std::size_t layer) const { return widths_[layer]; }
  std::size_t width(std::size_t layer) const { return widths_[layer + 1]; }
  template <class Pointer>
  Pointer weight(Pointer w, std::size_t layer) const {
    return w + this->layout().blocks[2 * layer].offset;
  }
  template <class Pointer>
  Pointer bias(Pointer w, std::size_t layer) const {
    return w + this->layout().blocks[2 * layer + 1].offset;
  }
  // Work of the backward pass of a layer below the output layer: its ReLU and its own products.
  Work backward_work(const BatchShape& batch, std::size_t layer) const {
    constexpr double kBytes = 4;
    const double n = batch.samples, z = batch.nonzeros;
    const auto a = static_cast<double>(inputs(layer)), b = static_cast<double>(width(layer));
    const Work relu{n * b, kBytes * 3 * n * b, 1};
    if (layer == 0) {
      return relu + Work{2 * z * b + n * b, 8 * z + kBytes * (2 * z * b + 2 * n * b), 2};
    }
    return relu + Work{4 * n * a * b + n * b, kBytes * (3 * a * b + 2 * n * a + 3 * n * b), 3};
  }

  // The output layer is dense, and its scores need not be in memory.
  bool fused() const { return layer_count() > 1 && objective_.fuses_layer(); }

  static Real scale(const Batch& batch) { return Real(1) / static_cast<Real>(batch.size()); }

  // output = activation of the layer below x W^T, bias not added.
  void forward_dense(MlpContext<Real>& scratch, const Batch& batch, const Real* w,
                     std::size_t layer, Real* output) const {
    const std::size_t in = inputs(layer), out = width(layer);
    scratch.device().gemm(Transpose::no, Transpose::yes, batch.size(), out, in, Real(1),
                          scratch.activation[layer - 1].data(), in, weight(w, layer), in, Real(0),
                          output, out);
  }

  void forward_hidden(MlpContext<Real>& scratch, const Batch& batch, const Real* w) const {
    BasicDevice<Real>& device = scratch.device();
    for (std::size_t layer = 0; layer + 1 < layer_count(); ++layer) {
      BasicBuffer<Real>& Y = scratch.activation[layer];
      Y.reset(device, batch.size() * width(layer));
      if (layer == 0) {
        scratch.sparse.forward(scratch.features(), width(0), weight(w, 0), bias(w, 0), true,
                               Y.data());
      } else {
        device.dense_relu(batch.size(), width(layer), inputs(layer),
                          scratch.activation[layer - 1].data(), weight(w, layer), bias(w, layer),
                          Y.data());
      }
    }
  }

  // Scores without their bias.
  void forward_output(MlpContext<Real>& scratch, const Batch& batch, const Real* w, Real* Z) const {
    const std::size_t last = layer_count() - 1;
    if (last > 0) return forward_dense(scratch, batch, w, last, Z);
    scratch.sparse.forward(scratch.features(), width(0), weight(w, 0), nullptr, false, Z);
  }

  DeferredSum learn_scores(MlpContext<Real>& scratch, const Batch& batch, const Real* w,
                           Sink<Real> sink) const {
    const std::size_t last = layer_count() - 1;
    BasicDevice<Real>& device = scratch.device();
    scratch.output.reset(device, batch.size() * this->outputs());
    Real* Z = scratch.output.data();
    forward_output(scratch, batch, w, Z);
    const DeferredSum loss =
        objective_.learn(device, scratch.labels(), this->outputs(), bias(w, last), scale(batch), Z);
    backward(scratch, batch, w, last, Z, sink);
    return loss;
  }

  DeferredSum learn_fused(MlpContext<Real>& scratch, const Batch& batch, const Real* w,
                          Sink<Real> sink) const {
    const std::size_t last = layer_count() - 1;
    return objective_.learn_layer(scratch.device(), scratch.labels(),
                                  {.inputs = inputs(last),
                                   .outputs = width(last),
                                   .input = scratch.activation[last - 1].data(),
                                   .weight = weight(w, last),
                                   .bias = bias(w, last),
                                   .scale = scale(batch),
                                   .alpha = sink.alpha,
                                   .beta = sink.beta,
                                   .weight_gradient = weight(sink.to, last),
                                   .bias_gradient = bias(sink.to, last),
                                   .input_gradient = scratch.delta[last - 1].data()});
  }

  DeferredSum learn_chosen(MlpContext<Real>& scratch, const Batch& batch, const Real* w,
                           Sink<Real> sink) const {
    const std::size_t last = layer_count() - 1, in = inputs(last);
    BasicDevice<Real>& device = scratch.device();
    const Real* const A = scratch.activation[last - 1].data();
    BasicSampledSoftmax<Real>& softmax = scratch.chosen->choose(batch, A, weight(w, last));
    const auto row = [&](std::size_t u) { return weight(w, last) + softmax.labels()[u] * in; };
    softmax.scores(A, [&](std::size_t u, Real*) -> typename BasicSampledSoftmax<Real>::Row {
      return {row(u), bias(w, last)[softmax.labels()[u]]};
    });
    const double loss = softmax.softmax();
    Real* const G = weight(sink.to, last);
    Real* const g = bias(sink.to, last);
    if (sink.beta == Real(0)) device.fill(width(last), Real(0), g);
    softmax.backward(A, row, [&](std::size_t u, const Real* gradient, Real bias_gradient) {
      const std::size_t label = softmax.labels()[u];
      for (std::size_t i = 0; i < in; ++i) G[label * in + i] += sink.alpha * gradient[i];
      g[label] += sink.alpha * bias_gradient;
    });
    std::ranges::copy(softmax.input_gradient(), scratch.delta[last - 1].data());
    return loss;
  }

  // From D, the gradient of the layer's sums: first the gradient of the activation below, then that
  // of its own parameters. The order matters, because the sink may be the weights.
  void backward(MlpContext<Real>& scratch, const Batch& batch, const Real* w, std::size_t layer,
                const Real* D, Sink<Real> sink) const {
    BasicDevice<Real>& device = scratch.device();
    const std::size_t n = batch.size(), in = inputs(layer), out = width(layer);
    if (layer == 0) {
      scratch.sparse.update(scratch.features(), out, sink.alpha, D, weight(sink.to, 0));
    } else {
      device.gemm(Transpose::no, Transpose::no, n, in, out, Real(1), D, out, weight(w, layer), in,
                  Real(0), scratch.delta[layer - 1].data(), in);
      device.gemm(Transpose::yes, Transpose::no, out, in, n, sink.alpha, D, out,
                  scratch.activation[layer - 1].data(), in, sink.beta, weight(sink.to, layer), in);
    }
    Real* b = bias(sink.to, layer);
    if (sink.beta == Real(0)) device.fill(out, Real(0), b);
    device.column_sums(n, out, sink.alpha, D, b);
  }

  const BasicObjective<Real>& objective_;
  const LabelChoice labels_;
  std::vector<std::uint64_t> widths_;  // features, hidden layers, scores
};

// Without hidden layers, and without the option for them.
struct LinearOptions {
  MlpOptions mlp{.hidden = {}};

  void declare(OptionSet& set) { mlp.declare_init(set); }
  void validate() const { mlp.validate_init(); }
};

template <class Real>
class Linear final : public Mlp<Real> {
 public:
  Linear(const DataShape& data, const LinearOptions& options) : Mlp<Real>(data, options.mlp) {}
};

const bool mlp_registered = register_model<Mlp, MlpOptions>({
    .name = "mlp",
    .title = "Sparse MLP",
    .idea = "A multi-layer perceptron with ReLU over sparse features, as in extreme "
            "classification. A step touches the rows of the first layer that occur in the batch, "
            "and all rows of the other layers.",
    .paper = "Adaptive SGD (Ma et al. 2021), section 5.1, with one hidden layer of 128 units",
    .objective =
        "softmax over the labels, or over some of them (--objective sampled or hashed); for "
        "binary data the sigmoid of one score",
    .blocks = "layer0.weight [features x H], row-sparse; layer0.bias [H]; weight [outputs x "
              "inputs] and bias of every further layer",
    .cost = "4zH for z nonzeros, 6nab for n samples and a dense layer of a inputs and b outputs",
});

const bool linear_registered = register_model<Linear, LinearOptions>({
    .name = "linear",
    .title = "Linear",
    .idea = "Logistic or softmax regression on sparse features: the MLP without hidden layers. A "
            "step touches the rows that occur in the batch.",
    .paper = "textbook",
    .objective = "softmax over the labels; for binary data the sigmoid of one score",
    .blocks = "layer0.weight [features x outputs], row-sparse; layer0.bias [outputs]",
    .cost = "4z operations for each output and z nonzeros",
});

}  // namespace

template <class Real>
std::unique_ptr<BasicModel<Real>> make_mlp(const DataShape& data, const MlpOptions& options) {
  return std::make_unique<Mlp<Real>>(data, options);
}

template std::unique_ptr<BasicModel<float>> make_mlp<float>(const DataShape&, const MlpOptions&);
template std::unique_ptr<BasicModel<double>> make_mlp<double>(const DataShape&, const MlpOptions&);

}  // namespace hetsgd
