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
// Work     : of each cross layer beside that of ctr_model.hpp:
//   forward   5nd    4(3nd + 2d)     1
//   backward  9nd    4(8nd + 3d)     3  kernel, gradient by w, by b
#include "model/ctr_model.hpp"

namespace hetsgd {

namespace {

struct DcnOptions : CtrOptions {
  std::uint64_t cross_layers = 6;

  DcnOptions() { deep.hidden = {1024, 1024}; }
  void declare(OptionSet& set) {
    CtrOptions::declare(set);
    set.add("cross_layers", cross_layers, "cross layers").unit("layers").range(1, 256);
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
      scratch.interaction.cross_forward(n, d, scratch.x, input(scratch, layer), weight(w, layer),
                                        bias(w, layer), product(scratch, n, layer),
                                        scratch.own[kOutputs + layer].data());
    }
    this->add_products(scratch.device(), n, d, input(scratch, layers_), this->output_weight(w), z);
  }

  void interactions_backward(CtrContext<Real>& scratch, std::size_t n, const Real* w, const Real* d,
                             Sink<Real> sink) const override {
    BasicDevice<Real>& device = scratch.device();
    const std::size_t width = this->width();
    scratch.own[kGradient].reset(device, n * width);
    scratch.own[kFactor].reset(device, n);
    Real *const g = scratch.own[kGradient].data(), *const t = scratch.own[kFactor].data();
    this->products_backward(device, n, width, input(scratch, layers_), this->output_weight(w), d, g,
                            sink, this->output_weight(sink.to));
    for (std::size_t layer = layers_; layer-- > 0;) {
      Real* const b = bias(sink.to, layer);
      if (sink.beta == Real(0)) device.fill(width, Real(0), b);
      device.column_sums(n, width, sink.alpha, g, b);
      scratch.interaction.cross_backward(n, width, scratch.x, weight(w, layer),
                                         product(scratch, n, layer), t, g, scratch.dx);
      device.gemm(Transpose::no, Transpose::no, 1, width, n, sink.alpha, t, n,
                  input(scratch, layer), width, sink.beta, weight(sink.to, layer), width);
    }
    device.axpby(n * width, Real(1), g, Real(1), scratch.dx);  // the first input is x0
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
  // output of each layer [n x d].
  enum { kProducts, kGradient, kFactor, kOutputs };

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
        "Clicks from categories: cross layers, each of which multiplies the inputs by a weighted "
        "sum of what came before and so raises the degree of their products by one, beside "
        "dense layers. Without hidden layers it is the cross network.",
    .paper = "Wang et al. 2017; of the data of 004 chapter 6",
    .objective = "the sigmoid of one score",
    .blocks =
        "table [categories x D], row-sparse; of every hidden layer weight [outputs x inputs] "
        "and bias; of every cross layer weight and bias [1 x d]; output.weight [1 x (d + H)], "
        "output.bias",
    .cost = "6nab operations for n samples and a dense layer of a inputs and b outputs, 14nd for a "
            "cross layer",
    .reads_fields = true,
});

}  // namespace

}  // namespace hetsgd
