// Deep & Cross network: explicit products of features of bounded degree beside dense layers.
//
// Source   : Wang, Fu, Fu, Wang, Deep & Cross Network for Ad Click Predictions, ADKDD 2017,
//            equations 3 and 6.
// Score    : z = c + v.[x_l, h]; x_{i+1} = x0 (x_i.w_i) + b_i + x_i for l cross layers; h = dense
//            layers of x0. --hidden none: the cross network alone, z = c + v.x_l.
// Objective: log loss of the sigmoid.
// Symbols  : ctr_model.hpp; l = --cross-layers.
// Blocks   : those of ctr_model.hpp without a linear part; of every cross layer weight [1 x d], by
//            the initial law of d inputs and one output, and bias [d].
// Gradient : g = gradient by x_{i+1}, t = g.x0:
//              w_i: sum t x_i;  b_i: sum g;  x0: + g (x_i.w_i);  x_i: g + t w_i
// All cross layers are computed for some rows before the next ones (cross_rows()), so that their
// vectors stay in a cache from layer to layer. The gradient by b adds up by such blocks.
// Work     : of each cross layer beside that of ctr_model.hpp:
//   forward   5nd    4(3nd + 2d)     1
//   backward  9nd    4(8nd + 3d)     3  kernel, gradient by w, by b
#include "model/clicks/ctr_model.hpp"

namespace hetsgd {

namespace {

struct DcnOptions : CtrOptions {
  std::uint64_t cross_layers = 6;

  DcnOptions() { deep.hidden = {1024, 1024}; }
  // Six cross layers make polynomials of degree 7 of their inputs.
  double learning_rate() const { return 0.005; }
  void declare(OptionSet& set) {
    CtrOptions::declare(set);
    set.add("cross_layers", cross_layers, "Number of cross layers.").unit("layers").range(1, 256);
  }
};

template <class Real>
class Dcn final : public CtrModel<Real> {
  using Base = CtrModel<Real>;

 public:
  Dcn(const DataShape& data, const DcnOptions& options)
      : Base(data, options, options.embedding, Base::LinearPart::none),
        options_(options),
        layers_(options.cross_layers),
        first_block_(this->next_block()) {
    const std::size_t d = this->width();
    for (std::size_t layer = 0; layer < layers_; ++layer) {
      this->add_block({.name = fmt::format("cross{}.weight", layer + 1),
                       .cols = d,
                       .init_std = options.deep.initial_std({d, 1}, 0)});
      this->add_block({.name = fmt::format("cross{}.bias", layer + 1), .cols = d});
    }
    this->add_output(options, d + (this->deep().layers() > 0 ? this->deep().outputs() : 0));
  }

  std::unique_ptr<BasicModel<Real>> dense_part() const override {
    return without_table(*this, options_);
  }

 protected:
  void add_interactions(CtrContext<Real>& scratch, std::size_t n, const Real* w,
                        Real* z) const override {
    const std::size_t d = this->width();
    scratch.own.resize(kOutputs + layers_);
    scratch.own[kProducts].reset(scratch.device(), layers_ * n);
    for (std::size_t layer = 0; layer < layers_; ++layer) {
      scratch.own[kOutputs + layer].reset(scratch.device(), n * d);
    }
    each_block(scratch, n, [&](std::size_t first, std::size_t rows) {
      const std::size_t at = first * d;
      for (std::size_t layer = 0; layer < layers_; ++layer) {
        scratch.interaction.cross_forward(
            rows, d, scratch.x + at, input(scratch, layer) + at, weight(w, layer), bias(w, layer),
            product(scratch, n, layer) + first, scratch.own[kOutputs + layer].data() + at);
      }
      this->add_products(scratch.device(), rows, d, input(scratch, layers_) + at,
                         this->output_weight(w), z + first);
    });
  }

  void interactions_backward(CtrContext<Real>& scratch, std::size_t n, const Real* w, const Real* d,
                             Sink<Real> sink) const override {
    scratch.own[kGradient].reset(scratch.device(), n * this->width());
    scratch.own[kFactor].reset(scratch.device(), n);
    // A step moves the weights with the first block of rows, so the other blocks read them from a
    // copy.
    const Real* weights = weight(w, 0);
    if (n > scratch.interaction.cross_rows()) {
      const std::size_t numbers =
          static_cast<std::size_t>(this->output_weight(w) - weights) + this->width();
      scratch.own[kWeights].reset(scratch.device(), numbers);
      scratch.device().copy(numbers, weights, scratch.own[kWeights].data());
      weights = scratch.own[kWeights].data();
    }
    each_block(scratch, n, [&](std::size_t first, std::size_t rows) {
      cross_backward(scratch, n, {first, rows}, weights, d,
                     first == 0 ? sink : Sink<Real>{sink.to, sink.alpha, 1});
    });
  }

  Work interaction_work(double n, double) const override {
    constexpr double kBytes = 4;
    const auto d = static_cast<double>(this->width()), l = static_cast<double>(layers_);
    return {14 * l * n * d, kBytes * l * d * (11 * n + 5), 4 * l};
  }

  Work interaction_forward_work(double n, double) const override {
    constexpr double kBytes = 4;
    const auto d = static_cast<double>(this->width()), l = static_cast<double>(layers_);
    return {5 * l * n * d, kBytes * l * d * (3 * n + 2), l};
  }

  double interaction_scratch() const override {
    const auto l = static_cast<double>(layers_);
    return (l + 1) * static_cast<double>(this->width()) + l + 1;
  }

 private:
  // Scratch: x_i.w_i [layers x n]; the gradient by a layer's output [n x d]; its t [n]; then the
  // weights, if a copy is needed; then the output of each layer [n x d].
  enum { kProducts, kGradient, kFactor, kWeights, kOutputs };

  struct Rows {
    std::size_t first, count;
  };

  // f(first row, rows) for blocks that cover n rows.
  template <class F>
  static void each_block(CtrContext<Real>& scratch, std::size_t n, const F& f) {
    const std::size_t most = scratch.interaction.cross_rows();
    for (std::size_t first = 0; first < n; first += std::min(most, n - first)) {
      f(first, std::min(most, n - first));
    }
  }

  // Backward pass of some of n rows. weights: the first cross layer's, with all that follow up to
  // the output's.
  void cross_backward(CtrContext<Real>& scratch, std::size_t n, Rows rows, const Real* weights,
                      const Real* d, Sink<Real> sink) const {
    BasicDevice<Real>& device = scratch.device();
    const std::size_t width = this->width(), at = rows.first * width;
    Real* const g = scratch.own[kGradient].data() + at;
    Real* const t = scratch.own[kFactor].data() + rows.first;
    const Real* const first = weight(sink.to, 0);
    this->products_backward(device, rows.count, width, input(scratch, layers_) + at,
                            weights + (this->output_weight(sink.to) - first), d + rows.first, g,
                            sink, this->output_weight(sink.to));
    for (std::size_t layer = layers_; layer-- > 0;) {
      Real* const b = bias(sink.to, layer);
      if (sink.beta == Real(0)) device.fill(width, Real(0), b);
      device.column_sums(rows.count, width, sink.alpha, g, b);
      scratch.interaction.cross_backward(
          rows.count, width, scratch.x + at, weights + (weight(sink.to, layer) - first),
          product(scratch, n, layer) + rows.first, t, g, scratch.dx + at);
      device.gemm(Transpose::no, Transpose::no, 1, width, rows.count, sink.alpha, t, rows.count,
                  input(scratch, layer) + at, width, sink.beta, weight(sink.to, layer), width);
    }
    // The first input is x0.
    device.axpby(rows.count * width, Real(1), g, Real(1), scratch.dx + at);
  }

  const Real* input(CtrContext<Real>& scratch, std::size_t layer) const {
    return layer == 0 ? scratch.x : scratch.own[kOutputs + layer - 1].data();
  }
  Real* product(CtrContext<Real>& scratch, std::size_t n, std::size_t layer) const {
    return scratch.own[kProducts].data() + layer * n;
  }
  template <class Pointer>
  Pointer weight(Pointer w, std::size_t layer) const {
    return this->block(w, first_block_ + 2 * layer);
  }
  template <class Pointer>
  Pointer bias(Pointer w, std::size_t layer) const {
    return this->block(w, first_block_ + 2 * layer + 1);
  }

  DcnOptions options_;
  std::size_t layers_;
  std::size_t first_block_;
};

const bool dcn_registered = register_model<Dcn, DcnOptions>({
    .name = "dcn",
    .title = "Deep & Cross",
    .idea =
        "Predicts clicks from categories by cross layers beside dense layers. Each cross layer "
        "multiplies the inputs by a weighted sum of the layer before, so that the degree of their "
        "products grows by one. Without hidden layers it is the cross network.",
    .paper = "Wang et al. 2017; trained on click data by Sven (Yang 2022, chapter 6)",
    .objective = "the sigmoid of one score",
    .blocks =
        "table [categories x D], row-sparse; weight [outputs x inputs] and bias of every hidden "
        "layer; weight and bias [1 x d] of every cross layer; output.weight [1 x (d + H)], "
        "output.bias",
    .cost = "6nab operations for n samples and a dense layer of a inputs and b outputs, 14nd for a "
            "cross layer",
    .reads_fields = true,
});

}  // namespace

}  // namespace hetsgd
