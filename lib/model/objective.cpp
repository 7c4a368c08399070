#include "model/objective.hpp"

#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "data/sequences.hpp"

namespace hetsgd {

namespace {

double times_log(double p) { return p > 0 ? p * std::log(p) : 0; }

template <class Real>
BasicOutputLayerKernels<Real>& output_layer(BasicDevice<Real>& device) {
  return kernels<BasicOutputLayerKernels<Real>>(device);
}

template <class Real>
class Softmax final : public BasicObjective<Real> {
 public:
  std::string_view name() const override { return "softmax"; }
  // The entropy of the mean target, in the share of the rows that have labels. Rows of tokens: the
  // entropy of all targets.
  double constant_loss(const Dataset& data) const override {
    const bool tokens = data.task == Task::tokens;
    std::vector<double> weight(data.label_count);
    double labelled = 0, loss = 0;
    for (std::uint64_t row = 0; row < data.rows(); ++row) {
      if (tokens) {
        for (const std::uint16_t target : targets_of(data, row)) ++weight[target];
        labelled += static_cast<double>(data.length(row));
        continue;
      }
      const auto labels = data.labels(row);
      if (!labels.empty()) ++labelled;
      for (const Index label : labels) weight[label] += 1 / static_cast<double>(labels.size());
    }
    for (const double each : weight) loss -= times_log(each / labelled);
    if (tokens) return loss;
    return labelled > 0 ? loss * labelled / static_cast<double>(data.rows()) : 0;
  }
  DeferredSum learn(BasicDevice<Real>& device, const SparseRows<Real>& labels, std::size_t n,
                    const Real* bias, Real scale, Real* Z) const override {
    return output_layer(device).softmax_cross_entropy(labels, n, bias, scale, Z);
  }
  DeferredSum score(BasicDevice<Real>& device, const SparseRows<Real>& labels, std::size_t n,
                    const Real* bias, Real* Z) const override {
    return output_layer(device).softmax_loss(labels, n, bias, Z);
  }
  bool fuses_layer() const override { return true; }
  DeferredSum learn_layer(BasicDevice<Real>& device, const SparseRows<Real>& labels,
                          const SoftmaxLayer<Real>& layer) const override {
    return output_layer(device).softmax_layer(labels, layer);
  }
  DeferredSum rank_layer(BasicDevice<Real>& device, const SparseRows<Real>& labels,
                         const SoftmaxLayer<Real>& layer, std::size_t k,
                         std::uint32_t* top) const override {
    return output_layer(device).softmax_ranks(labels, layer, k, top);
  }
};

template <class Real>
class Sigmoid final : public BasicObjective<Real> {
 public:
  std::string_view name() const override { return "sigmoid"; }
  // The sum of the entropies of each label against all others.
  double constant_loss(const Dataset& data) const override {
    std::vector<double> count(data.label_count);
    for (const Index label : data.targets.index) ++count[label];
    double loss = 0;
    for (const double each : count) {
      const double share = each / static_cast<double>(data.rows());
      loss -= times_log(share) + times_log(1 - share);
    }
    return loss;
  }
  DeferredSum learn(BasicDevice<Real>& device, const SparseRows<Real>& labels, std::size_t n,
                    const Real* bias, Real scale, Real* Z) const override {
    return output_layer(device).sigmoid_cross_entropy(labels, n, bias, scale, Z);
  }
  DeferredSum score(BasicDevice<Real>& device, const SparseRows<Real>& labels, std::size_t n,
                    const Real* bias, Real* Z) const override {
    return output_layer(device).sigmoid_loss(labels, n, bias, Z);
  }
};

}  // namespace

template <class Real>
double BasicObjective<Real>::constant_loss(const Dataset&) const {
  return std::numeric_limits<double>::quiet_NaN();
}

template <class Real>
DeferredSum BasicObjective<Real>::learn_layer(BasicDevice<Real>&, const SparseRows<Real>&,
                                              const SoftmaxLayer<Real>&) const {
  HETSGD_CHECK(fuses_layer());
  return 0.0;
}

template <class Real>
DeferredSum BasicObjective<Real>::rank_layer(BasicDevice<Real>&, const SparseRows<Real>&,
                                             const SoftmaxLayer<Real>&, std::size_t,
                                             std::uint32_t*) const {
  HETSGD_CHECK(fuses_layer());
  return 0.0;
}

template <class Real>
const std::vector<const BasicObjective<Real>*>& objectives() {
  static const Softmax<Real> softmax;
  static const Sigmoid<Real> sigmoid;
  static const std::vector<const BasicObjective<Real>*> all = {&softmax, &sigmoid};
  return all;
}

template <class Real>
const BasicObjective<Real>& find_objective(std::string_view name) {
  for (const auto* objective : objectives<Real>()) {
    if (objective->name() == name) return *objective;
  }
  HETSGD_CHECK(false);
  return *objectives<Real>().front();
}

template <class Real>
const BasicObjective<Real>& usual_objective(Task task) {
  return find_objective<Real>(task == Task::binary ? "sigmoid" : "softmax");
}

#define HETSGD_INSTANTIATE(Real)                                               \
  template class BasicObjective<Real>;                                         \
  template const std::vector<const BasicObjective<Real>*>& objectives<Real>(); \
  template const BasicObjective<Real>& find_objective<Real>(std::string_view); \
  template const BasicObjective<Real>& usual_objective<Real>(Task);
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd
