// Wide & Deep: a linear model of all inputs and dense layers over embeddings, one logit.
//
// Source   : Cheng, Koc, Harmsen and others, Wide & Deep Learning for Recommender Systems, DLRS
//            2016, equation 3. No crossed features: the paper names none for such data.
// Score    : z = c + sum_j omega_j x_j + sum_f u_f + v.h, h = dense layers of x0. --hidden none:
//            logistic regression, without embeddings.
// Objective: log loss of the sigmoid.
// Symbols, Blocks, Work: ctr_model.hpp; no block of its own.
#include "model/clicks/ctr_model.hpp"

namespace hetsgd {

namespace {

struct WideDeepOptions : CtrOptions {
  WideDeepOptions() { deep.hidden = {1024, 1024}; }
};

template <class Real>
class WideDeep final : public CtrModel<Real> {
  using Base = CtrModel<Real>;

 public:
  WideDeep(const DataShape& data, const WideDeepOptions& options)
      : Base(data, options, options.deep.hidden.empty() ? 0 : options.embedding,
             Base::LinearPart::dense_and_categories),
        options_(options) {
    this->add_output(options, this->deep().layers() > 0 ? this->deep().outputs() : 0);
  }

  std::unique_ptr<BasicModel<Real>> dense_part() const override {
    return without_table(*this, options_);
  }

 private:
  WideDeepOptions options_;
};

const bool wide_deep_registered = register_model<WideDeep, WideDeepOptions>({
    .name = "wide_deep",
    .title = "Wide & Deep",
    .idea =
        "Predicts clicks from categories by a weight for each category, which remembers, beside "
        "dense layers over the embeddings of all fields, which generalise. Without hidden layers "
        "it is logistic regression.",
    .paper = "Cheng et al. 2016; trained on click data by Sven (Yang 2022, chapter 6)",
    .objective = "the sigmoid of one score",
    .blocks = "table [categories x (D + 1)], row-sparse; weight [outputs x inputs] and bias of "
              "every hidden layer; output.weight [1 x H], output.bias; linear.weight [1 x K]",
    .cost = "6nab operations for n samples and a dense layer of a inputs and b outputs",
    .reads_fields = true,
});

}  // namespace

}  // namespace hetsgd
