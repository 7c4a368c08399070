// Shared by the builders of networks: a graph that grows at its last node.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/options.hpp"
#include "graph/graph.hpp"
#include "graph/networks.hpp"

namespace hetsgd::networks {

class Builder {
 public:
  Builder(std::string name, Shape input, std::int64_t tokens = 0)
      : graph_(std::move(name), input, tokens) {}

  int last() const { return graph_.size() - 1; }
  // In the functions below, `from` < 0 stands for the last node. All return the new node's index.
  int conv(std::int64_t channels, std::array<std::int64_t, 2> kernel, std::int64_t stride = 1,
           std::array<std::int64_t, 2> padding = {0, 0}, bool bias = false, int from = -1);
  int square_conv(std::int64_t channels, std::int64_t kernel, std::int64_t stride,
                  std::int64_t padding, bool bias, int from = -1) {
    return conv(channels, {kernel, kernel}, stride, {padding, padding}, bias, from);
  }
  int pool(PoolKind kind, std::int64_t kernel, std::int64_t stride, std::int64_t padding = 0,
           int from = -1);
  int global_pool() {
    return put({.type = NodeType::pool, .pool = PoolKind::average, .global = true});
  }
  int simple(NodeType type) { return put({.type = type}); }  // relu, bn, lrn, softmax
  int dropout(double p) { return put({.type = NodeType::dropout, .p = p}); }
  int fc(std::int64_t units) { return put({.type = NodeType::fc, .units = units, .bias = true}); }
  int join(NodeType type, std::vector<int> from) {
    return put({.type = type, .from = std::move(from)});
  }
  int subsample(std::int64_t channels, std::int64_t stride, int from) {
    return put({.type = NodeType::subsample, .channels = channels, .stride = stride}, from);
  }
  int linear(std::int64_t units, bool bias, double init = 1) {
    return put({.type = NodeType::linear, .units = units, .bias = bias, .init = init});
  }
  int norm(bool bias) { return put({.type = NodeType::norm, .bias = bias}); }
  int gelu(GeluForm form) { return put({.type = NodeType::gelu, .form = form}); }
  int lstm(std::int64_t units) { return put({.type = NodeType::lstm, .units = units}); }
  // Appends a node with the given attributes; its name is its type and its number.
  int put(Node node, int from = -1);

  const Shape& shape(int index) const { return graph_.node(index).shape; }
  const std::string& name(int index) const { return graph_.node(index).name; }
  Graph finish() { return finish({.type = NodeType::softmax}); }
  Graph finish(Node softmax);

 private:
  Graph graph_;
};

enum class Shortcut { projected, padded };  // B: conv 1x1; A: subsample and zero channels

// The keys that transformers share.
struct Transformer {
  int layers = 2, heads = 2, width = 64;
  std::optional<int> hidden = {};  // none: four times the width
  int block = 64;                  // the most steps
  std::optional<int> steps = {};   // none: the block
  int vocabulary = 32;
  bool bias = false, tied = true, scores = false;
  GeluForm gelu = GeluForm::exact;

  std::int64_t hidden_width() const { return hidden.value_or(4 * width); }
};

// The values that the keys of built-in networks set. A network has some of the keys, with its own
// defaults.
struct Settings {
  int classes = 1000;
  bool bn = true;
  int size = 32;   // side of an image; elements of a frame
  int groups = 1;  // groups of the convolutions 2, 4 and 5
  Shortcut shortcut = Shortcut::projected;
  bool stride_first = false;  // in a bottleneck the 1x1 has the stride, not the 3x3
  int steps = 0, units = 0, dense = 0;
  double dropout = 0;
  Transformer transformer = {};
};

// Declares the keys of a network.
using Declare = std::function<void(OptionSet& set, Settings& settings)>;
inline void declare_classes(OptionSet& set, Settings& settings) {
  set.add("classes", settings.classes, "").range(2, 1e6);
}

struct Network {
  NetworkInfo info;
  Settings settings;  // the defaults
  Declare declare;
  std::function<Graph(const std::string& name, const Settings& settings)> build;
};

// Each family has a file of its own.
void add_lenets(std::vector<Network>& list);
void add_alexnet_and_vggs(std::vector<Network>& list);
void add_resnets(std::vector<Network>& list);
void add_inception(std::vector<Network>& list);
void add_lstm(std::vector<Network>& list);
void add_gpts(std::vector<Network>& list);
void add_berts(std::vector<Network>& list);

// Common parts of transformers.
void declare_transformer(OptionSet& set, Settings& settings);
// Throws Error(usage) if the heads do not divide the width, or if there are more steps than the
// block.
Builder begin_transformer(const std::string& name, const Settings& settings, int segments);
// Queries, keys and values of the last map, attention, and the linear behind it.
void attend(Builder& net, const Settings& settings, bool causal, double init);
// The two linears with gelu between them.
void widen(Builder& net, const Settings& settings, double init);
// x plus the last map. The last map, the branch, is the first input, so that its gradient stays in
// place.
void add_branch(Builder& net, const Settings& settings, int x);

}  // namespace hetsgd::networks
