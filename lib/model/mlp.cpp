// Sparse-input MLP and linear models: sparse layer 0, dense hidden layers, softmax or sigmoid loss.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/model.hpp"
#include "model/touched_rows.hpp"

namespace hetsgd {

namespace {

template <class Real>
struct MlpContext final : BasicModelContext<Real> {
  MlpContext(BasicDevice<Real>& device, const ModelShape& shape)
      : BasicModelContext<Real>(device),
        activation(shape.hidden.size()),
        delta(shape.hidden.size()),
        touched(shape.feature_count) {}

  std::vector<BasicBuffer<Real>> activation;  // per hidden layer [batch x width], after ReLU
  std::vector<BasicBuffer<Real>> delta;       // the loss' gradient before that ReLU
  BasicBuffer<Real> output;                   // [batch x outputs], unless the device keeps it
  BasicBuffer<Real> best;                     // [batch x k] label numbers, of at most 4 bytes each
  SparseRows<Real> features, labels;          // the batch at hand, as the device reads it
  TouchedRows touched;

  // The batch that was staged ahead, as it was then.
  const Dataset* ahead_data = nullptr;  // null: none
  std::vector<Index> ahead_rows;
  SparseRows<Real> ahead_features, ahead_labels;

  // Device memory that a smaller batch would need less of.
  std::size_t batch_bytes() const {
    std::size_t numbers = output.size() + best.size();
    for (const auto& each : activation) numbers += each.size();
    for (const auto& each : delta) numbers += each.size();
    return numbers * sizeof(Real);
  }
};

// Where a backward pass puts the gradient: to <- beta to + alpha gradient. A step is (w, -lr, 1).
template <class Real>
struct Sink {
  Real* to;
  Real alpha;
  Real beta;
};

template <class Real>
class Mlp final : public BasicModel<Real> {
 public:
  explicit Mlp(const ModelShape& shape) : shape_(shape), layout_(shape.layout()) {
    HETSGD_CHECK_LT(0U, shape.feature_count);
    HETSGD_CHECK(shape.task == Task::binary || shape.label_count > 0);
    for (const std::size_t width : shape.hidden) HETSGD_CHECK_LT(0U, width);
  }

  const ModelShape& shape() const override { return shape_; }
  const Layout& layout() const override { return layout_; }

  std::unique_ptr<BasicModelContext<Real>> make_context(BasicDevice<Real>& device) const override {
    return std::make_unique<MlpContext<Real>>(device, shape_);
  }

  double gradient(BasicModelContext<Real>& context, const Batch& batch, const Real* w,
                  BasicGradient<Real>& g) const override {
    auto& scratch = static_cast<MlpContext<Real>&>(context);
    check(batch);
    HETSGD_CHECK_EQ(g.flat.size(), layout_.size);
    const LayerView& first = layout_.layers[0];
    return fitting(scratch, batch, [&] {
      scratch.device().fill_rows(g.rows, first.cols, Real(0), g.flat.data() + first.offset);
      const DeferredSum loss = learn(scratch, batch, w, {g.flat.data(), Real(1), Real(0)});
      scratch.touched.collect(batch, g.rows);
      stage_ahead(scratch);
      return loss / static_cast<double>(batch.size());
    });
  }

  double step(BasicModelContext<Real>& context, const Batch& batch, Real learning_rate,
              Real* w) const override {
    auto& scratch = static_cast<MlpContext<Real>&>(context);
    check(batch);
    return fitting(scratch, batch, [&] {
      const DeferredSum loss = learn(scratch, batch, w, {w, -learning_rate, Real(1)});
      stage_ahead(scratch);
      return loss / static_cast<double>(batch.size());
    });
  }

  double scores(BasicModelContext<Real>& context, const Batch& batch, const Real* w,
                Real* logits) const override {
    auto& scratch = static_cast<MlpContext<Real>&>(context);
    check(batch);
    return fitting(scratch, batch, [&] {
      const DeferredSum loss = score(scratch, batch, w, logits);
      stage_ahead(scratch);
      return double{loss};
    });
  }

  double rank(BasicModelContext<Real>& context, const Batch& batch, const Real* w, std::size_t k,
              std::uint32_t* top) const override {
    auto& scratch = static_cast<MlpContext<Real>&>(context);
    check(batch);
    HETSGD_CHECK(shape_.task != Task::binary);
    return fitting(scratch, batch, [&]() -> double {
      const std::size_t last = layer_count() - 1, count = batch.size() * k;
      BasicDevice<Real>& device = scratch.device();
      if (last == 0) {
        scratch.output.reset(device, batch.size() * this->outputs());
        const DeferredSum loss = score(scratch, batch, w, scratch.output.data());
        stage_ahead(scratch);
        device.top_k(batch.size(), this->outputs(), scratch.output.data(), k, top);
        return loss;
      }
      stage(scratch, batch);
      forward_hidden(scratch, batch, w);
      scratch.best.reset(device, count);
      auto* const best = reinterpret_cast<std::uint32_t*>(scratch.best.data());
      const DeferredSum loss = device.softmax_ranks(scratch.labels,
                                                    {.inputs = inputs(last),
                                                     .outputs = width(last),
                                                     .input = scratch.activation[last - 1].data(),
                                                     .weight = weight(w, last),
                                                     .bias = bias(w, last)},
                                                    k, best);
      stage_ahead(scratch);
      device.download(top, best, count * sizeof(std::uint32_t));
      return loss;
    });
  }

 private:
  std::size_t layer_count() const { return layout_.layers.size() / 2; }
  std::size_t inputs(std::size_t layer) const { return layout_.layers[2 * layer].fan_in; }
  std::size_t width(std::size_t layer) const { return layout_.layers[2 * layer].fan_out; }
  template <class Pointer>
  Pointer weight(Pointer w, std::size_t layer) const {
    return w + layout_.layers[2 * layer].offset;
  }
  template <class Pointer>
  Pointer bias(Pointer w, std::size_t layer) const {
    return w + layout_.layers[2 * layer + 1].offset;
  }

  void check(const Batch& batch) const {
    HETSGD_CHECK(!batch.empty());
    HETSGD_CHECK_LE(batch.data().feature_count, shape_.feature_count);
    HETSGD_CHECK(shape_.task == Task::binary || batch.data().label_count <= shape_.label_count);
  }

  // call(), and if the device has no room for it: which batch size does have room.
  template <class Call>
  double fitting(MlpContext<Real>& scratch, const Batch& batch, const Call& call) const {
    try {
      return call();
    } catch (const MemoryError& error) {
      const auto available = static_cast<double>(error.available() + scratch.batch_bytes());
      // Memory is taken with a quarter to spare, and in pieces that leave gaps.
      const double fits = std::floor(available / (1.5 * shape_.sample_bytes(batch.shape())));
      if (fits >= static_cast<double>(batch.size())) throw;
      const std::string what =
          fmt::format("{} (in a batch of {} samples)", error.what(), batch.size());
      throw MemoryError(what,
                        fits < 1 ? "not even one sample fits beside the model: a larger GPU, fewer "
                                   "workers on this one or fewer hidden units would help"
                                 : fmt::format("--batch-size {:.0f} fits", fits),
                        error.available());
    }
  }

  // Brings the batch to the device. A CPU device reads the data set in place.
  static void stage(MlpContext<Real>& scratch, const Batch& batch) {
    const bool ahead =
        scratch.ahead_data == &batch.data() && std::ranges::equal(scratch.ahead_rows, batch.rows());
    scratch.ahead_data = nullptr;
    if (ahead) {
      scratch.features = scratch.ahead_features;
      scratch.labels = scratch.ahead_labels;
    } else {
      bring(scratch.device(), batch, scratch.features, scratch.labels);
    }
  }

  // The next batch, while the device works on this one. The call's kernels have been launched: what
  // they read stays good until they are through.
  static void stage_ahead(MlpContext<Real>& scratch) {
    if (!scratch.upcoming || !scratch.device().stages_copies()) return;
    const Batch* const next = scratch.upcoming();
    if (next == nullptr || next->empty()) return;
    bring(scratch.device(), *next, scratch.ahead_features, scratch.ahead_labels);
    scratch.ahead_data = &next->data();
    scratch.ahead_rows.assign(next->rows().begin(), next->rows().end());
  }

  static void bring(BasicDevice<Real>& device, const Batch& batch, SparseRows<Real>& features,
                    SparseRows<Real>& labels) {
    const Dataset& d = batch.data();
    const Index* const rows = batch.rows().data();
    features = device.stage({batch.size(), d.feature_count, rows, d.feature_begin.data(),
                             d.feature_index.data(), d.feature_value.data()});
    labels = device.stage(
        {batch.size(), d.label_count, rows, d.label_begin.data(), d.label_index.data(), nullptr});
  }

  // Scores with their bias into logits[batch x outputs]; the sum of the losses.
  DeferredSum score(MlpContext<Real>& scratch, const Batch& batch, const Real* w,
                    Real* logits) const {
    BasicDevice<Real>& device = scratch.device();
    const std::size_t last = layer_count() - 1;
    stage(scratch, batch);
    forward_hidden(scratch, batch, w);
    if (last == 0) {
      device.sparse_forward(scratch.features, this->outputs(), weight(w, 0), nullptr, false,
                            logits);
    } else {
      forward_dense(scratch, batch, w, last, logits);
    }
    return shape_.task == Task::binary
               ? device.sigmoid_loss(scratch.labels, bias(w, last), logits)
               : device.softmax_loss(scratch.labels, this->outputs(), bias(w, last), logits);
  }

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
        device.sparse_forward(scratch.features, width(0), weight(w, 0), bias(w, 0), true, Y.data());
      } else {
        forward_dense(scratch, batch, w, layer, Y.data());
        device.bias_relu(batch.size(), width(layer), bias(w, layer), Y.data());
      }
    }
  }

  // Forward, backward and accumulation; returns the sum of the losses. `sink.to` may be `w`: every
  // layer hands its gradient down before its weights move.
  DeferredSum learn(MlpContext<Real>& scratch, const Batch& batch, const Real* w,
                    Sink<Real> sink) const {
    BasicDevice<Real>& device = scratch.device();
    stage(scratch, batch);
    forward_hidden(scratch, batch, w);
    const std::size_t last = layer_count() - 1;
    for (std::size_t layer = 0; layer < last; ++layer) {
      scratch.delta[layer].reset(device, batch.size() * width(layer));
    }
    const DeferredSum loss = last == 0                     ? learn_linear(scratch, batch, w, sink)
                             : shape_.task == Task::binary ? learn_logit(scratch, batch, w, sink)
                                                           : learn_softmax(scratch, batch, w, sink);
    for (std::size_t layer = last; layer-- > 0;) {
      Real* D = scratch.delta[layer].data();
      device.relu_backward(batch.size(), width(layer), scratch.activation[layer].data(), D);
      if (layer > 0) {
        backward_dense(scratch, batch, w, layer, D, sink);
      } else {
        backward_sparse(scratch, batch, D, sink);
      }
    }
    return loss;
  }

  static Real scale(const Batch& batch) { return Real(1) / static_cast<Real>(batch.size()); }

  DeferredSum learn_linear(MlpContext<Real>& scratch, const Batch& batch, const Real* w,
                           Sink<Real> sink) const {
    BasicDevice<Real>& device = scratch.device();
    scratch.output.reset(device, batch.size() * this->outputs());
    Real* Z = scratch.output.data();
    device.sparse_forward(scratch.features, this->outputs(), weight(w, 0), nullptr, false, Z);
    const DeferredSum loss =
        shape_.task == Task::binary
            ? device.sigmoid_cross_entropy(scratch.labels, bias(w, 0), scale(batch), Z)
            : device.softmax_cross_entropy(scratch.labels, this->outputs(), bias(w, 0),
                                           scale(batch), Z);
    backward_sparse(scratch, batch, Z, sink);
    return loss;
  }

  DeferredSum learn_logit(MlpContext<Real>& scratch, const Batch& batch, const Real* w,
                          Sink<Real> sink) const {
    const std::size_t last = layer_count() - 1;
    scratch.output.reset(scratch.device(), batch.size());
    Real* z = scratch.output.data();
    forward_dense(scratch, batch, w, last, z);
    const DeferredSum loss =
        scratch.device().sigmoid_cross_entropy(scratch.labels, bias(w, last), scale(batch), z);
    backward_dense(scratch, batch, w, last, z, sink);
    return loss;
  }

  DeferredSum learn_softmax(MlpContext<Real>& scratch, const Batch& batch, const Real* w,
                            Sink<Real> sink) const {
    const std::size_t last = layer_count() - 1;
    return scratch.device().softmax_layer(scratch.labels,
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

  // From D, the gradient of the layer's sums: that of the activation below, then that of its own
  // parameters (in this order: the sink may be the weights).
  void backward_dense(MlpContext<Real>& scratch, const Batch& batch, const Real* w,
                      std::size_t layer, const Real* D, Sink<Real> sink) const {
    BasicDevice<Real>& device = scratch.device();
    const std::size_t n = batch.size(), in = inputs(layer), out = width(layer);
    device.gemm(Transpose::no, Transpose::no, n, in, out, Real(1), D, out, weight(w, layer), in,
                Real(0), scratch.delta[layer - 1].data(), in);
    device.gemm(Transpose::yes, Transpose::no, out, in, n, sink.alpha, D, out,
                scratch.activation[layer - 1].data(), in, sink.beta, weight(sink.to, layer), in);
    add_bias(device, n, layer, D, sink);
  }

  void backward_sparse(MlpContext<Real>& scratch, const Batch& batch, const Real* D,
                       Sink<Real> sink) const {
    scratch.device().sparse_update(scratch.features, width(0), sink.alpha, D, weight(sink.to, 0));
    add_bias(scratch.device(), batch.size(), 0, D, sink);
  }

  void add_bias(BasicDevice<Real>& device, std::size_t rows, std::size_t layer, const Real* D,
                Sink<Real> sink) const {
    Real* b = bias(sink.to, layer);
    if (sink.beta == Real(0)) device.fill(width(layer), Real(0), b);
    device.column_sums(rows, width(layer), sink.alpha, D, b);
  }

  ModelShape shape_;
  Layout layout_;
};

}  // namespace

template <class Real>
std::unique_ptr<BasicModel<Real>> make_model(const ModelShape& shape) {
  return std::make_unique<Mlp<Real>>(shape);
}

template <class Real>
BasicGradient<Real> make_gradient(const BasicModel<Real>& model, BasicDevice<Real>& device) {
  BasicGradient<Real> g;
  g.flat.reset(device, model.parameters());
  device.fill(model.parameters(), Real(0), g.flat.data());
  return g;
}

template <class Real>
void apply_gradient(const BasicModel<Real>& model, BasicDevice<Real>& device,
                    const BasicGradient<Real>& g, Real learning_rate, Real* w) {
  const LayerView& first = model.layout().layers[0];
  device.add_rows(g.rows, first.cols, -learning_rate, g.flat.data() + first.offset,
                  w + first.offset);
  const std::size_t rest = first.offset + first.size();
  device.axpby(model.parameters() - rest, -learning_rate, g.flat.data() + rest, Real(1), w + rest);
}

#define HETSGD_INSTANTIATE(Real)                                                                 \
  template std::unique_ptr<BasicModel<Real>> make_model<Real>(const ModelShape&);                \
  template BasicGradient<Real> make_gradient<Real>(const BasicModel<Real>&, BasicDevice<Real>&); \
  template void apply_gradient<Real>(const BasicModel<Real>&, BasicDevice<Real>&,                \
                                     const BasicGradient<Real>&, Real, Real*);
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd
