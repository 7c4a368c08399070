// Networks of all types of nodes, and one pass over them by a plan on a device.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "graph/graph_file.hpp"
#include "linalg/device.hpp"
#include "model/network/execute.hpp"
#include "support/memory_fixtures.hpp"

namespace hetsgd {

// Softmax and its loss, the mean over the batch, against the class sample % classes.
template <class Real>
class TestEnds {
 public:
  TestEnds(BasicDevice<Real>& device, const Graph& graph, std::int64_t batch)
      : device_(device),
        batch_(static_cast<std::size_t>(batch)),
        inputs_(static_cast<std::size_t>(graph.node(0).shape.numbers())),
        classes_(static_cast<std::size_t>(graph.node(graph.size() - 1).shape.numbers())) {}

  void write_input(Real* X) {
    RandomStream random(5, Purpose::test);
    std::vector<Real> samples(batch_ * inputs_);
    for (Real& x : samples) x = static_cast<Real>(random.uniform(-1, 1));
    device_.upload(X, samples.data(), samples.size() * sizeof(Real));
  }
  void read_scores(const Real* Z, Real* Y) {
    std::vector<Real> scores(batch_ * classes_), gradient(scores.size());
    device_.download(scores.data(), Z, scores.size() * sizeof(Real));
    loss = 0;
    for (std::size_t i = 0; i < batch_; ++i) {
      const Real* const z = scores.data() + i * classes_;
      const double largest = static_cast<double>(*std::max_element(z, z + classes_));
      double sum = 0;
      for (std::size_t c = 0; c < classes_; ++c)
        sum += std::exp(static_cast<double>(z[c]) - largest);
      const std::size_t truth = i % classes_;
      const auto samples = static_cast<double>(batch_);
      loss += (largest + std::log(sum) - static_cast<double>(z[truth])) / samples;
      for (std::size_t c = 0; c < classes_; ++c) {
        const double share = std::exp(static_cast<double>(z[c]) - largest) / sum;
        gradient[i * classes_ + c] = static_cast<Real>((share - (c == truth ? 1 : 0)) / samples);
      }
    }
    device_.upload(Y, gradient.data(), gradient.size() * sizeof(Real));
  }
  double loss = 0;

 private:
  BasicDevice<Real>& device_;
  std::size_t batch_, inputs_, classes_;
};

template <class Real>
std::vector<Real> some_parameters(const Graph& graph) {
  std::vector<Real> w(static_cast<std::size_t>(graph.parameters()));
  RandomStream random(6, Purpose::test);
  const std::vector<std::size_t> offsets = parameter_offsets(graph);
  for (int node = 0; node < graph.size(); ++node) {
    const auto at = static_cast<std::size_t>(node);
    const bool scales = graph.node(node).type == NodeType::bn;
    const bool filters =
        graph.node(node).type == NodeType::conv || graph.node(node).type == NodeType::fc;
    const double fan = filters ? static_cast<double>(filter_size(graph, node)) : 3;
    for (std::size_t i = offsets[at]; i < offsets[at + 1]; ++i) {
      w[i] = static_cast<Real>(scales ? random.uniform(0.5, 1.5)
                                      : random.uniform(-1, 1) * std::sqrt(3 / fan));
    }
  }
  return w;
}

template <class Real>
struct Computed {
  double loss = 0;
  std::vector<Real> gradient;
  bool operator==(const Computed&) const = default;
};

template <class Real>
Computed<Real> carry_out_on(BasicDevice<Real>& device, const TrainingStep& training,
                            const MemoryPlan& plan, bool poisoned, const std::vector<Real>& w) {
  TestEnds<Real> ends(device, *training.graph, training.options.batch);
  Computed<Real> result;
  result.gradient.resize(w.size());
  BasicBuffer<Real> parameters(device, w.size()), gradient(device, w.size());
  device.upload(parameters.data(), w.data(), w.size() * sizeof(Real));
  device.fill(w.size(), std::numeric_limits<Real>::quiet_NaN(), gradient.data());
  PlanExecutor<Real> executor(device, training, plan, poisoned);
  BasicBuffer<Real> arena(device, executor.arena_size());
  const GraphPass<Real> pass{
      .parameters = parameters.data(), .to = gradient.data(), .seed = 3, .draw = 4};
  executor.forward(pass,
                   {[&](Real* X) { ends.write_input(X); },
                    [&](const Real* Z, Real* Y) { ends.read_scores(Z, Y); }},
                   arena.data());
  executor.backward(pass, arena.data());
  device.download(result.gradient.data(), gradient.data(), w.size() * sizeof(Real));
  result.loss = ends.loss;
  return result;
}

// Two branches of convolutions and a pooling one, joined; then what the other networks lack.
inline Graph inception_block() {
  return parse_graph("inception", R"({"name": "inception", "input": [3,9,9], "nodes": [
    {"name": "a", "type": "conv", "channels": 6, "kernel": 3, "padding": 1, "bias": true},
    {"name": "b", "type": "bn"}, {"name": "r", "type": "relu"},
    {"name": "n", "type": "lrn"},
    {"name": "left", "type": "conv", "from": ["n"], "channels": 4,
     "kernel": [1,3], "padding": [0,1]},
    {"name": "left_r", "type": "relu"},
    {"name": "right", "type": "conv", "from": ["n"], "channels": 5, "kernel": 1},
    {"name": "right2", "type": "conv", "channels": 6, "kernel": 3, "padding": 1, "groups": 1},
    {"name": "pooled", "type": "pool", "kind": "average", "from": ["n"], "kernel": 3,
     "stride": 1, "padding": 1},
    {"name": "joined", "type": "concat", "from": ["left_r", "right2", "pooled"]},
    {"name": "thin", "type": "subsample", "from": ["joined"], "channels": 16, "stride": 2},
    {"name": "strided", "type": "conv", "from": ["joined"], "channels": 16, "kernel": 3,
     "padding": 1, "stride": 2},
    {"name": "sum", "type": "add", "from": ["strided", "thin"]},
    {"name": "p", "type": "pool", "kernel": 2, "stride": 2},
    {"name": "d", "type": "dropout", "p": 0.25},
    {"name": "f", "type": "fc", "units": 5}, {"name": "s", "type": "softmax"}]})");
}

// The output of every step of one lstm is the input of another.
inline Graph two_lstms() {
  return parse_graph("lstms", R"({"name": "lstms", "input": [7,5,1], "nodes": [
    {"name": "a", "type": "lstm", "units": 6, "output": "all"},
    {"name": "b", "type": "lstm", "units": 4},
    {"name": "f", "type": "fc", "units": 3}, {"name": "s", "type": "softmax"}]})");
}

struct ExecutedCase {
  std::string name;
  std::function<Graph()> graph;
  std::int64_t batch;
};

inline std::vector<ExecutedCase> executed_cases() {
  return {{"lenet5", [] { return named("lenet-5"); }, 5},
          {"resnet32", [] { return named("resnet-32?size=16"); }, 2},
          {"inception", inception_block, 4},
          {"lstm", two_lstms, 3}};
}

}  // namespace hetsgd
