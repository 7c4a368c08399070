// DeepFM: a factorisation machine and dense layers over the same embeddings, one logit.
//
// Source   : Guo, Tang, Ye, Li, He, DeepFM: A Factorization-Machine based Neural Network for CTR
//            Prediction, IJCAI 2017, equations 1 to 4.
// Score    : z = c + sum_j omega_j x_j + sum_f u_f + sum over f < g of <v_f, v_g> + v.h, h = dense
//            layers of x0. --hidden none: a factorisation machine. Pairs are those of the fields.
// Objective: log loss of the sigmoid.
// Symbols, Blocks: ctr_model.hpp; no block of its own.
// Work     : beside that of ctr_model.hpp (L lookups):
//   pairs    forward   3LD + 3nD    4LD + 4nD       1
//            backward  3LD          12LD + 4nD      1
#include "model/clicks/ctr_model.hpp"

namespace hetsgd {

namespace {

struct DeepFmOptions : CtrOptions {
  DeepFmOptions() { deep.hidden = {400, 400, 400}; }
};

template <class Real>
class DeepFm final : public CtrModel<Real> {
  using Base = CtrModel<Real>;

 public:
  DeepFm(const DataShape& data, const DeepFmOptions& options)
      : Base(data, options, options.embedding, Base::LinearPart::dense_and_categories),
        options_(options) {
    this->add_output(options, this->deep().layers() > 0 ? this->deep().outputs() : 0);
  }

  std::unique_ptr<BasicModel<Real>> dense_part() const override {
    return without_table(*this, options_);
  }

 protected:
  void add_interactions(CtrContext<Real>& scratch, std::size_t n, const Real*,
                        Real* z) const override {
    scratch.own.resize(1);
    BasicBuffer<Real>& sums = scratch.own.front();  // [n x D]
    sums.reset(scratch.device(), n * this->table_shape().embedding);
    scratch.interaction.fm_forward(n, this->embeddings(), scratch.x, sums.data(), z);
  }

  void interactions_backward(CtrContext<Real>& scratch, std::size_t n, const Real*, const Real* d,
                             Sink<Real>) const override {
    scratch.interaction.fm_backward(n, this->embeddings(), scratch.x, scratch.own.front().data(), d,
                                    scratch.dx);
  }

  Work interaction_work(double n, double lookups) const override {
    constexpr double kBytes = 4;
    const auto D = static_cast<double>(this->table_shape().embedding);
    return {6 * lookups * D + 3 * n * D, kBytes * (4 * lookups * D + 2 * n * D), 2};
  }

  Work interaction_forward_work(double n, double lookups) const override {
    constexpr double kBytes = 4;
    const auto D = static_cast<double>(this->table_shape().embedding);
    return {3 * lookups * D + 3 * n * D, kBytes * (lookups * D + n * D), 1};
  }

  double interaction_scratch() const override {
    return static_cast<double>(this->table_shape().embedding);
  }

 private:
  DeepFmOptions options_;
};

const bool deepfm_registered = register_model<DeepFm, DeepFmOptions>({
    .name = "deepfm",
    .title = "DeepFM",
    .idea =
        "Predicts clicks from categories by a factorisation machine, which has a product of "
        "embeddings for every pair of fields, and dense layers over the same embeddings. Without "
        "hidden layers it is the factorisation machine.",
    .paper = "Guo et al. 2017; trained on click data by Sven (Yang 2022, chapter 6)",
    .objective = "the sigmoid of one score",
    .blocks = "table [categories x (D + 1)], row-sparse; weight [outputs x inputs] and bias of "
              "every hidden layer; output.weight [1 x H], output.bias; linear.weight [1 x K]",
    .cost = "6nab operations for n samples and a dense layer of a inputs and b outputs",
    .reads_fields = true,
});

}  // namespace

}  // namespace hetsgd
