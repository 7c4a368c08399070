// The common part of all click-through models: an embedding table over the fields of a sample, its
// vector x0, dense layers over x0, the logit, and the backward pass. wide_deep.cpp, deepfm.cpp and
// dcn.cpp add what differs between the models.
//
//   categories --gather_rows--> x0 = [dense columns, e_1 .. e_F] --+--> dense layers --> h --.
//                         \--> sum of the u_f ----.               +--> add_interactions --> logit z
//   dense columns --omega--------------------------+---------------------------------------^
//
// Everything left of x0 and of that sum belongs to the table (embedded.hpp). A dense part lacks the
// table and is the same from x0 on.
//
// Symbols: n samples, K dense columns, F fields, D = --embedding-dim, d = K + F D, L = n F lookups,
//          H units of the last hidden layer (d without one).
// Blocks : table [categories x C], row-sparse: a row is an embedding, with a linear part followed
//          by the category's weight u: C = D + 1, else D; layer1, layer2, ...: weight [outputs x
//          inputs], bias; the model's own blocks; output.weight [1 x inputs], output.bias [1], the
//          bias c of the logit; with a linear part linear.weight [1 x K], omega.
// Initial: table N(0, --embedding-init-std); u, omega and biases 0; all others by --init.
// Work   : per step (floating-point operations; bytes; launches), without the dense layers
//          (deep_part.hpp) and the model's own interactions:
//   table     forward   L                 4L + 8LC              1
//             backward  3LC               4L + 16LC             2  sums, rows (read, written)
//   linear    both      4nK               8nK + 8n              2
//   output    both      6nH + 5n          16nH + 16n            6  product, loss, dX, update, bias
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "linalg/embedding_kernels.hpp"
#include "linalg/interaction_kernels.hpp"
#include "model/clicks/deep_part.hpp"
#include "model/objective.hpp"
#include "model/registry.hpp"

namespace hetsgd {

struct CtrOptions {
  std::uint64_t embedding = 16;
  double embedding_init_std = 0.01;
  MlpOptions deep;
  bool own_table = true;  // false: the table lies elsewhere (BasicModel::dense_part); not an option

  // Dense columns are logarithms of counts, up to ten and more, so gradients are large: at 0.2 SGD
  // ends worse than a constant guess on Criteo's sample.
  double learning_rate() const { return 0.02; }
  void declare(OptionSet& set) {
    set.add("embedding_dim", embedding, "Elements of a category's embedding.")
        .symbol("D")
        .range(1, 4096);
    set.add("embedding_init_std", embedding_init_std,
            "Standard deviation of the initial elements of embeddings.")
        .above(0);
    set.add("hidden", deep.hidden,
            "Units of each hidden layer, separated by commas. none leaves out the hidden layers.")
        .unit("units")
        .absent("none");
    deep.declare_init(set);
  }
  // Throws Error(usage) for a layer without units.
  void validate() const {
    deep.validate_init();
    if (std::ranges::find(deep.hidden, 0U) != deep.hidden.end()) {
      refuse("--hidden", "0", "at least one unit per layer, or none");
    }
  }
};

template <class Real>
struct CtrContext : BasicModelContext<Real> {
  explicit CtrContext(BasicDevice<Real>& device)
      : BasicModelContext<Real>(device),
        embedding(kernels<BasicEmbeddingKernels<Real>>(device)),
        interaction(kernels<BasicInteractionKernels<Real>>(device)) {}

  BasicEmbeddingKernels<Real>& embedding;
  BasicInteractionKernels<Real>& interaction;
  BasicEmbedded<Real> embedded, by_embedded;  // looked up in the model's own table
  // The current batch [batch x d], whoever has looked it up: x0, and the gradient by x0.
  const Real* x = nullptr;
  Real* dx = nullptr;
  typename DeepPart<Real>::Scratch deep;
  std::vector<BasicBuffer<Real>> own;  // for the model's interactions

  std::size_t batch_bytes() const override {
    std::size_t elements = embedded.x.size() + by_embedded.x.size() + deep.size();
    for (const auto& each : own) elements += each.size();
    return BasicModelContext<Real>::batch_bytes() + elements * sizeof(Real);
  }
};

template <class Real>
class CtrModel : public BasicModel<Real> {
 public:
  using typename BasicModel<Real>::Context;

  std::unique_ptr<Context> make_context(BasicDevice<Real>& device) const override {
    return std::make_unique<CtrContext<Real>>(device);
  }

  std::vector<std::uint64_t> layer_sizes() const override { return units_; }

  TableShape table_shape() const override { return table_; }
  std::size_t embedded_width() const override { return width(); }

  Work gradient_work(const BatchShape& batch) const override {
    constexpr double kBytes = 4;
    const double n = batch.samples, L = batch.lookups, H = static_cast<double>(output_inputs_);
    const double C = table_columns(), K = static_cast<double>(dense_columns());
    Work work = deep_.work(n);
    if (own_table_) work += {L + 3 * L * C, 2 * kBytes * L + 6 * kBytes * L * C, 3};
    if (linear_) work += {4 * n * K, 2 * kBytes * n * (K + 1), 2};
    work += {n * (6 * H + 5), 4 * kBytes * n * (H + 1), 6};
    work += interaction_work(n, L);
    return work;
  }

  Work forward_work(const BatchShape& batch) const override {
    constexpr double kBytes = 4;
    const double n = batch.samples, L = batch.lookups, H = static_cast<double>(output_inputs_);
    const double C = table_columns(), K = static_cast<double>(dense_columns());
    Work work = deep_.forward_work(n);
    if (own_table_) work += {L, kBytes * L + 2 * kBytes * L * C, 1};
    if (linear_) work += {2 * n * K, kBytes * n * (K + 1), 1};
    work += {n * (2 * H + 3), kBytes * n * (H + 2), 2};
    work += interaction_forward_work(n, L);
    return work;
  }

 protected:
  // A model has no linear part, or one over both dense columns and categories.
  enum class LinearPart { none, dense_and_categories };
  // embedding: D, or 0 if the model does not read embeddings.
  CtrModel(const DataShape& data, const CtrOptions& options, std::size_t embedding,
           LinearPart linear)
      : BasicModel<Real>(data),
        table_{embedding, linear == LinearPart::none ? 0U : 1U},
        linear_(linear != LinearPart::none),
        own_table_(options.own_table),
        deep_(widths_of(data, options, embedding), options.own_table ? kTable + 1 : 0) {
    HETSGD_CHECK(data.task == Task::binary);
    HETSGD_CHECK_LT(0U, data.fields());
    units_ = widths_of(data, options, embedding);
    units_.push_back(1);
    if (own_table_) {
      this->add_block({.name = "table",
                       .rows = data.categories(),
                       .cols = table_.row(),
                       .kind = BlockKind::table,
                       .init_std = embedding > 0 ? options.embedding_init_std : 0,
                       .zero_cols = table_.extra,
                       .keys = {data.first_category, data.category_values}});
    }
    for (ParameterBlock& block : deep_.blocks(options.deep, units_)) {
      this->add_block(std::move(block));
    }
  }
  // A model's constructor calls this after it has added its own blocks. inputs: inputs of the logit
  // that have a weight; 0: none.
  void add_output(const CtrOptions& options, std::size_t inputs) {
    output_ = this->layout().blocks.size();
    output_inputs_ = inputs;
    if (inputs > 0) {
      this->add_block({.name = "output.weight",
                       .cols = inputs,
                       .init_std = options.deep.initial_std({inputs, 1}, 0)});
    }
    this->add_block({.name = "output.bias", .cols = 1});
    if (linear_ && dense_columns() > 0) {
      this->add_block({.name = "linear.weight", .cols = dense_columns()});
    }
  }

  // z[n] += the model's interactions of x0; x0, z and scratch lie on the device.
  virtual void add_interactions(CtrContext<Real>&, std::size_t /*n*/, const Real* /*w*/,
                                Real* /*z*/) const {}
  // After add_interactions() of the same batch: scratch.dx += the gradient by x0. d[n] is the
  // gradient by z. The gradient of the parameters goes to the sink.
  virtual void interactions_backward(CtrContext<Real>&, std::size_t /*n*/, const Real* /*w*/,
                                     const Real* /*d*/, Sink<Real>) const {}
  virtual Work interaction_work(double /*n*/, double /*lookups*/) const { return {}; }
  virtual Work interaction_forward_work(double /*n*/, double /*lookups*/) const { return {}; }
  virtual double interaction_scratch() const { return 0; }

  DeferredSum learn(Context& context, const Batch& batch, const Real* w,
                    Sink<Real> sink) const override {
    auto& scratch = static_cast<CtrContext<Real>&>(context);
    look_up(scratch, batch, w);
    const DeferredSum loss = learn_logits(scratch, batch.size(), scratch.embedded, w);
    backward(scratch, batch.size(), scratch.embedded, w, sink, scratch.by_embedded);
    scratch.embedding.update_rows(scratch.fields(), table_, sink.alpha,
                                  scratch.by_embedded.x.data(), scratch.by_embedded.u.data(),
                                  block(sink.to, kTable));
    return loss;
  }

  DeferredSum score(Context& context, const Batch& batch, const Real* w,
                    Real* logits) const override {
    auto& scratch = static_cast<CtrContext<Real>&>(context);
    look_up(scratch, batch, w);
    forward(scratch, batch.size(), scratch.embedded, w, logits);
    return objective_.score(scratch.device(), scratch.labels(), 1, bias(w), logits);
  }

  DeferredSum learn_forward(Context& context, const Batch& batch,
                            const BasicEmbedded<Real>& embedded, const Real* w) const override {
    auto& scratch = static_cast<CtrContext<Real>&>(context);
    scratch.stage(batch);
    return learn_logits(scratch, batch.size(), embedded, w);
  }

  void learn_backward(Context& context, const Batch& batch, const BasicEmbedded<Real>& embedded,
                      const Real* w, Sink<Real> sink,
                      BasicEmbedded<Real>& by_embedded) const override {
    backward(static_cast<CtrContext<Real>&>(context), batch.size(), embedded, w, sink, by_embedded);
  }

  DeferredSum score_embedded(Context& context, const Batch& batch,
                             const BasicEmbedded<Real>& embedded, const Real* w,
                             Real* logits) const override {
    auto& scratch = static_cast<CtrContext<Real>&>(context);
    scratch.stage(batch);
    forward(scratch, batch.size(), embedded, w, logits);
    return objective_.score(scratch.device(), scratch.labels(), 1, bias(w), logits);
  }

  double sample_scratch() const override {
    return 2 * static_cast<double>(width()) + deep_.sample_scratch() + interaction_scratch();
  }

  std::size_t width() const { return units_.front(); }  // d
  std::size_t dense_columns() const { return this->data().dense_columns; }
  const DeepPart<Real>& deep() const { return deep_; }
  // The place of the embeddings in x0.
  FieldVectors embeddings() const {
    return {width(), dense_columns(), this->data().fields(), table_.embedding};
  }
  template <class Pointer>
  Pointer block(Pointer w, std::size_t number) const {
    return w + this->layout().blocks[number].offset;
  }
  std::size_t next_block() const { return this->layout().blocks.size(); }
  // The output weights of inputs `first` and up.
  template <class Pointer>
  Pointer output_weight(Pointer w, std::size_t first = 0) const {
    return block(w, output_) + first;
  }

  // z[n] += Y[n x inputs] times output weights v.
  void add_products(BasicDevice<Real>& device, std::size_t n, std::size_t inputs, const Real* Y,
                    const Real* v, Real* z) const {
    device.gemm(Transpose::no, Transpose::yes, n, 1, inputs, Real(1), Y, inputs, v, inputs, Real(1),
                z, 1);
  }
  // Backward pass of add_products(): dY <- d v; the gradient by v goes to the sink at `to`.
  void products_backward(BasicDevice<Real>& device, std::size_t n, std::size_t inputs,
                         const Real* Y, const Real* v, const Real* d, Real* dY, Sink<Real> sink,
                         Real* to) const {
    device.gemm(Transpose::no, Transpose::no, n, inputs, 1, Real(1), d, 1, v, inputs, Real(0), dY,
                inputs);
    device.gemm(Transpose::yes, Transpose::no, 1, inputs, n, sink.alpha, d, 1, Y, inputs, sink.beta,
                to, inputs);
  }

 private:
  static constexpr std::size_t kTable = 0;

  static std::vector<std::uint64_t> widths_of(const DataShape& data, const CtrOptions& options,
                                              std::size_t embedding) {
    std::vector<std::uint64_t> widths{data.dense_columns + data.fields() * embedding};
    widths.insert(widths.end(), options.deep.hidden.begin(), options.deep.hidden.end());
    return widths;
  }

  double table_columns() const { return static_cast<double>(table_.row()); }
  template <class Pointer>
  Pointer bias(Pointer w) const {
    return block(w, output_ + (output_inputs_ > 0 ? 1 : 0));
  }
  template <class Pointer>
  Pointer linear_weight(Pointer w) const {
    return bias(w) + 1;
  }
  // Index of the first output weight of the dense layers. The interactions' weights come before it.
  std::size_t first_deep_input() const { return output_inputs_ - deep_.outputs(); }

  // Stages the batch, and looks it up in the model's own table.
  void look_up(CtrContext<Real>& scratch, const Batch& batch, const Real* w) const {
    HETSGD_CHECK(own_table_);
    scratch.stage(batch);
    scratch.embedded.reset(scratch.device(), batch.size(), width());
    scratch.embedding.gather_rows(scratch.fields(), table_, block(w, kTable),
                                  scratch.embedded.x.data(), scratch.embedded.u.data());
  }

  // Scores without their bias.
  void forward(CtrContext<Real>& scratch, std::size_t n, const BasicEmbedded<Real>& embedded,
               const Real* w, Real* z) const {
    BasicDevice<Real>& device = scratch.device();
    const std::size_t K = dense_columns();
    scratch.x = embedded.x.data();
    if (linear_) {
      device.copy(n, embedded.u.data(), z);
    } else {
      device.fill(n, Real(0), z);
    }
    if (linear_ && K > 0) {
      device.gemm(Transpose::no, Transpose::yes, n, 1, K, Real(1), scratch.x, width(),
                  linear_weight(w), K, Real(1), z, 1);
    }
    add_interactions(scratch, n, w, z);
    if (deep_.layers() == 0) return;
    const Real* const h = deep_.forward(device, this->layout(), n, scratch.x, w, scratch.deep);
    add_products(device, n, deep_.outputs(), h, output_weight(w, first_deep_input()), z);
  }

  // Returns the SUM of the losses; scratch.output <- the gradient of the mean loss by the logits.
  // The batch must have been staged.
  DeferredSum learn_logits(CtrContext<Real>& scratch, std::size_t n,
                           const BasicEmbedded<Real>& embedded, const Real* w) const {
    scratch.output.reset(scratch.device(), n);
    Real* const z = scratch.output.data();
    forward(scratch, n, embedded, w, z);
    return objective_.learn(scratch.device(), scratch.labels(), 1, bias(w),
                            Real(1) / static_cast<Real>(n), z);
  }

  // Runs after learn_logits(). It reads each block before it moves it.
  void backward(CtrContext<Real>& scratch, std::size_t n, const BasicEmbedded<Real>& embedded,
                const Real* w, Sink<Real> sink, BasicEmbedded<Real>& by_embedded) const {
    BasicDevice<Real>& device = scratch.device();
    by_embedded.reset(device, n, width());
    const Real* const d = scratch.output.data();
    device.copy(n, d, by_embedded.u.data());
    scratch.x = embedded.x.data();
    scratch.dx = by_embedded.x.data();
    if (deep_.layers() > 0) {
      const std::size_t first = first_deep_input();
      products_backward(device, n, deep_.outputs(), scratch.deep.activation.back().data(),
                        output_weight(w, first), d, deep_.last_delta(device, n, scratch.deep), sink,
                        output_weight(sink.to, first));
      deep_.backward(device, this->layout(), n, scratch.x, w, sink, scratch.deep, scratch.dx);
    } else {
      device.fill(n * width(), Real(0), scratch.dx);
    }
    interactions_backward(scratch, n, w, d, sink);
    if (const std::size_t K = dense_columns(); linear_ && K > 0) {
      device.gemm(Transpose::yes, Transpose::no, 1, K, n, sink.alpha, d, 1, scratch.x, width(),
                  sink.beta, linear_weight(sink.to), K);
    }
    Real* const c = bias(sink.to);
    if (sink.beta == Real(0)) device.fill(1, Real(0), c);
    device.column_sums(n, 1, sink.alpha, d, c);
  }

  const BasicObjective<Real>& objective_ = find_objective<Real>("sigmoid");
  TableShape table_;
  bool linear_;
  bool own_table_;
  DeepPart<Real> deep_;
  std::vector<std::uint64_t> units_;  // d, hidden layers, 1
  std::size_t output_ = 0;            // block of the output's weights, or of its bias
  std::size_t output_inputs_ = 0;
};

// dense_part() of a model of class M<Real> with these options.
template <template <class> class M, class Real, class Options>
std::unique_ptr<BasicModel<Real>> without_table(const M<Real>& model, Options options) {
  options.own_table = false;
  return std::make_unique<M<Real>>(model.data(), options);
}

}  // namespace hetsgd
