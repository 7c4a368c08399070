// Networks of all types of nodes, and one pass over them by a plan on a device.
#pragma once

#include "core/random.hpp"
#include "graph/graph_file.hpp"
#include "linalg/device.hpp"
#include "model/network/execute.hpp"
#include "support/memory_fixtures.hpp"

namespace hetsgd {

// Rows of random tokens, the second one step shorter, the third two. Every position has a target in
// a causal network, else every third of them.
inline TokenBatch some_tokens(const Graph& graph, std::size_t rows) {
  TokenBatch batch;
  if (!graph.reads_tokens()) return batch;
  RandomStream random(8, Purpose::test);
  const auto steps = static_cast<std::uint32_t>(graph.node(0).shape.height);
  const auto kinds = static_cast<std::uint64_t>(graph.node(0).tokens);
  batch.input.assign(rows * steps, 0);
  for (std::uint32_t r = 0; r < rows; ++r) {
    batch.begin.push_back(r * steps);
    batch.length.push_back(steps - r % 3);
    for (std::uint32_t t = 0; t < batch.length.back(); ++t) {
      batch.input[r * steps + t] = static_cast<std::uint16_t>(random.below(kinds));
      if (!is_causal(graph) && t % 3 != 1) continue;
      batch.position.push_back(r * steps + t);
      batch.target.push_back(static_cast<std::uint32_t>(random.below(kinds)));
      batch.target_begin.push_back(batch.target.size());
    }
  }
  return batch;
}

// Softmax and its loss, the mean over the batch, against the class sample % classes; or the softmax
// of tokens.
template <class Real>
class TestEnds {
 public:
  TestEnds(BasicDevice<Real>& device, const Graph& graph, std::int64_t batch)
      : device_(device),
        graph_(graph),
        tokens_(some_tokens(graph, static_cast<std::size_t>(batch))),
        batch_(static_cast<std::size_t>(batch)),
        inputs_(static_cast<std::size_t>(graph.node(0).shape.numbers())),
        classes_(static_cast<std::size_t>(graph.node(graph.size() - 1).shape.numbers())) {}

  // A pass over this input. `to` null: there is no backward pass.
  GraphPass<Real> pass(const Real* w, Real* to) {
    return pass_ = {.parameters = w, .to = to, .seed = 3, .draw = 4, .rows = tokens_.spans()};
  }
  void write_input(Real* X) {
    if (graph_.reads_tokens()) {
      const std::vector<Real> numbers(tokens_.input.begin(), tokens_.input.end());
      return device_.upload(X, numbers.data(), numbers.size() * sizeof(Real));
    }
    RandomStream random(5, Purpose::test);
    std::vector<Real> samples(batch_ * inputs_);
    for (Real& x : samples) x = static_cast<Real>(random.uniform(-1, 1));
    device_.upload(X, samples.data(), samples.size() * sizeof(Real));
  }
  void read_scores(const Real* Z, Real* Y) {
    if (graph_.reads_tokens()) return read_tokens(Z, Y);
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
  void read_tokens(const Real* Z, Real* Y) {
    BasicBuffer<Real> room(device_, tokens_.targets());
    auto* const best = reinterpret_cast<std::uint32_t*>(room.data());
    const double sum = pass_.to != nullptr
                           ? learn_tokens(device_, graph_, pass_, tokens_, Z, Y)
                           : rank_tokens(device_, graph_, pass_.parameters, tokens_, Z, 1, best);
    loss = sum / static_cast<double>(tokens_.targets());
  }

  BasicDevice<Real>& device_;
  const Graph& graph_;
  TokenBatch tokens_;
  GraphPass<Real> pass_;
  std::size_t batch_, inputs_, classes_;
};

template <class Real>
std::vector<Real> some_parameters(const Graph& graph) {
  std::vector<Real> w(static_cast<std::size_t>(graph.parameters()));
  RandomStream random(6, Purpose::test);
  const std::vector<std::size_t> offsets = parameter_offsets(graph);
  for (int node = 0; node < graph.size(); ++node) {
    const auto at = static_cast<std::size_t>(node);
    const NodeType type = graph.node(node).type;
    const bool scales = type == NodeType::bn || type == NodeType::norm;
    const bool filters = type == NodeType::conv || type == NodeType::fc || type == NodeType::linear;
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
  const GraphPass<Real> pass = ends.pass(parameters.data(), gradient.data());
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

// Every node of tokens: post-norm, segments, both forms of gelu, smoothing, a bias and weights of
// the softmax's own.
inline Graph odd_transformer() {
  return parse_graph("odd", R"({"name": "odd", "input": [1,7,1], "tokens": 9, "nodes": [
    {"name": "e", "type": "embed", "units": 6, "block": 9, "segments": 2},
    {"name": "d", "type": "dropout", "p": 0.1},
    {"name": "qkv", "type": "linear", "units": 18},
    {"name": "a", "type": "attention", "heads": 3, "p": 0.2},
    {"name": "o", "type": "linear", "units": 6, "bias": false},
    {"name": "sum", "type": "add", "from": ["o", "d"]}, {"name": "n", "type": "norm"},
    {"name": "f", "type": "linear", "units": 10}, {"name": "g", "type": "gelu", "form": "tanh"},
    {"name": "f2", "type": "linear", "units": 6}, {"name": "g2", "type": "gelu"},
    {"name": "both", "type": "add", "from": ["g2", "n"]},
    {"name": "r", "type": "relu"}, {"name": "last", "type": "norm", "bias": false},
    {"name": "s", "type": "softmax", "units": 9, "bias": true, "smoothing": 0.1}]})");
}

struct ExecutedCase {
  std::string name;
  std::function<Graph()> graph;
  std::int64_t batch;
};

inline std::vector<ExecutedCase> executed_cases() {
  return {
      {"lenet5", [] { return named("lenet-5"); }, 5},
      {"resnet32", [] { return named("resnet-32?size=16"); }, 2},
      {"inception", inception_block, 4},
      {"lstm", two_lstms, 3},
      {"gpt", [] { return named("gpt-micro?width=12&layers=2&heads=2&block=5&dropout=0.1"); }, 4},
      {"bert", [] { return named("bert-micro?width=12&layers=1&heads=2&block=70&vocabulary=13"); },
       3},
      {"transformer", odd_transformer, 5}};
}

}  // namespace hetsgd
