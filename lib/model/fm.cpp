// Factorisation machines: every pair of features has a weight, the product of their factors.
//
// Source   : Rendle, Factorization Machines, ICDM 2010, equation 1 and lemma 3.1.
// Score    : of a sample x, for output l:
//              z_l = b_l + sum_i w_il x_i + sum over i < j of x_i x_j sum_k v_ilk v_jlk
// Objective: one against all, log loss of every score (sigmoid); Task::binary has one score.
// Symbols  : K = --factors, O outputs, n samples, z nonzeros.
// Blocks   : bias [O]; linear [features x O] and factors [features x O K], both row-sparse.
//            linear and bias begin at 0, factors at N(0, --factor-init-std).
// Work     : of a step (floating-point operations; bytes that kernels move which keep nothing in a
//            cache; kernel launches of a GPU):
//   linear     forward   2zO            8z + 4zO + 4nO          1
//              backward  2zO + nO       8z + 8zO + 8nO          2  update, bias sums
//   factors    forward   4zOK + 3nOK    8z + 4zOK + 16nOK       2  sums, pairwise terms
//              backward  5zOK           8z + 12zOK              1
//   loss                 5nO            8nO + 4 labels          1
#include "linalg/factorization_kernels.hpp"
#include "linalg/sparse_kernels.hpp"
#include "model/objective.hpp"
#include "model/registry.hpp"

namespace hetsgd {

namespace {

struct FmOptions {
  std::uint64_t factors = 8;
  double init_std = 0.01;

  void declare(OptionSet& set) {
    set.add("factors", factors, "Factors of each feature and output.").symbol("K").range(1, 4096);
    set.add("factor_init_std", init_std, "Standard deviation of the initial factors.").above(0);
  }
  void validate() const {}
  double learning_rate() const { return 0.3; }  // at 1 asgd diverges, whose gradients are stale
  const BasicObjective<float>& objective(Task) const { return find_objective<float>("sigmoid"); }
};

template <class Real>
struct FmContext final : BasicModelContext<Real> {
  explicit FmContext(BasicDevice<Real>& device)
      : BasicModelContext<Real>(device),
        sparse(kernels<BasicSparseKernels<Real>>(device)),
        pairs(kernels<BasicFactorizationKernels<Real>>(device)) {}

  BasicSparseKernels<Real>& sparse;
  BasicFactorizationKernels<Real>& pairs;
  BasicBuffer<Real> sums;  // [batch x O K], of x v

  std::size_t batch_bytes() const override {
    return BasicModelContext<Real>::batch_bytes() + 2 * sums.size() * sizeof(Real);
  }
};

template <class Real>
class Fm final : public BasicModel<Real> {
  using typename BasicModel<Real>::Context;

 public:
  Fm(const DataShape& data, const FmOptions& options)
      : BasicModel<Real>(data), factors_(options.factors) {
    const std::size_t features = data.feature_count, outputs = data.outputs();
    this->add_block({.name = "bias", .cols = outputs});
    this->add_block(
        {.name = "linear", .rows = features, .cols = outputs, .kind = BlockKind::row_sparse});
    this->add_block({.name = "factors",
                     .rows = features,
                     .cols = outputs * factors_,
                     .kind = BlockKind::row_sparse,
                     .init_std = options.init_std});
  }

  std::unique_ptr<Context> make_context(BasicDevice<Real>& device) const override {
    return std::make_unique<FmContext<Real>>(device);
  }

  Work gradient_work(const BatchShape& batch) const override {
    const double n = batch.samples, z = batch.nonzeros;
    const auto O = static_cast<double>(this->outputs()), OK = O * static_cast<double>(factors_);
    Work work{4 * z * O + n * O, 16 * z + 12 * z * O + 12 * n * O, 3};
    work += {9 * z * OK + 3 * n * OK, 16 * z + 16 * z * OK + 16 * n * OK, 3};
    work += {5 * n * O, 8 * n * O + 4 * batch.labels, 1};
    return work;
  }

 protected:
  DeferredSum learn(Context& context, const Batch& batch, const Real* w,
                    Sink<Real> sink) const override {
    auto& scratch = static_cast<FmContext<Real>&>(context);
    BasicDevice<Real>& device = scratch.device();
    const std::size_t n = batch.size(), O = this->outputs();
    scratch.output.reset(device, n * O);
    Real* const Z = scratch.output.data();
    forward(scratch, batch, w, Z);
    const DeferredSum loss = objective_.learn(device, scratch.labels(), O, w + offset(kBias),
                                              Real(1) / static_cast<Real>(n), Z);
    scratch.pairs.backward(scratch.features(), O, factors_, sink.alpha, Z, scratch.sums.data(),
                           w + offset(kFactors), sink.to + offset(kFactors));
    scratch.sparse.update(scratch.features(), O, sink.alpha, Z, sink.to + offset(kLinear));
    Real* const b = sink.to + offset(kBias);
    if (sink.beta == Real(0)) device.fill(O, Real(0), b);
    device.column_sums(n, O, sink.alpha, Z, b);
    return loss;
  }

  DeferredSum score(Context& context, const Batch& batch, const Real* w,
                    Real* logits) const override {
    auto& scratch = static_cast<FmContext<Real>&>(context);
    forward(scratch, batch, w, logits);
    return objective_.score(scratch.device(), scratch.labels(), this->outputs(), w + offset(kBias),
                            logits);
  }

  double sample_scratch() const override {
    return 2 * static_cast<double>(this->outputs()) * static_cast<double>(factors_);
  }

 private:
  enum { kBias, kLinear, kFactors };
  std::size_t offset(std::size_t block) const { return this->layout().blocks[block].offset; }

  // Scores without their bias.
  void forward(FmContext<Real>& scratch, const Batch& batch, const Real* w, Real* Z) const {
    const std::size_t O = this->outputs();
    scratch.stage(batch);
    scratch.sums.reset(scratch.device(), batch.size() * O * factors_);
    scratch.sparse.forward(scratch.features(), O, w + offset(kLinear), nullptr, false, Z);
    scratch.pairs.forward(scratch.features(), O, factors_, w + offset(kFactors),
                          scratch.sums.data(), Z);
  }

  const BasicObjective<Real>& objective_ = find_objective<Real>("sigmoid");
  std::size_t factors_;
};

const bool fm_registered = register_model<Fm, FmOptions>({
    .name = "fm",
    .title = "Factorisation machine",
    .idea = "Logistic regression with a weight for every pair of features, the product of two "
            "short vectors of factors. It learns about pairs that hardly occur, and its time is "
            "linear in the nonzeros.",
    .paper = "Rendle 2010, order 2",
    .objective = "the sigmoid of each score, one label against all others",
    .blocks = "bias [O]; linear [features x O] and factors [features x O K], both row-sparse",
    .cost = "9zOK operations for z nonzeros, O outputs and K factors",
});

}  // namespace

}  // namespace hetsgd
