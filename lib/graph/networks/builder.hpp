// What the builders of networks share: a graph that grows at its last node.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/options.hpp"
#include "graph/graph.hpp"
#include "graph/networks.hpp"

namespace hetsgd::networks {

class Builder {
 public:
  Builder(std::string name, Shape input) : graph_(std::move(name), input) {}

  int last() const { return graph_.size() - 1; }
  // Below, `from` < 0 stands for the last node. All return the new node's index.
  int conv(std::int64_t channels, std::array<std::int64_t, 2> kernel, std::int64_t stride = 1,
           std::array<std::int64_t, 2> padding = {0, 0}, bool bias = false, int from = -1);
  int square_conv(std::int64_t channels, std::int64_t kernel, std::int64_t stride,
                  std::int64_t padding, bool bias, int from = -1) {
    return conv(channels, {kernel, kernel}, stride, {padding, padding}, bias, from);
  }
  int pool(PoolKind kind, std::int64_t kernel, std::int64_t stride, std::int64_t padding = 0,
           int from = -1);
  int global_pool();
  int simple(NodeType type, int from = -1);  // relu, bn, lrn, softmax
  int dropout(double p);
  int fc(std::int64_t units);
  int join(NodeType type, std::vector<int> from);
  int subsample(std::int64_t channels, std::int64_t stride, int from);
  int lstm(std::int64_t units);
  // Puts a node of the given attributes in; its name is its type and its number.
  int put(Node node, int from = -1);

  const Shape& shape(int index) const { return graph_.node(index).shape; }
  Graph finish();

 private:
  Graph graph_;
};

// A built-in network: declares its keys in `set` and builds. One file per family.
class Family {
 public:
  virtual ~Family() = default;
  virtual NetworkInfo info() const = 0;
  virtual void declare(OptionSet& set) { static_cast<void>(set); }
  virtual Graph build(const std::string& name) const = 0;
};

void add_lenets(std::vector<std::unique_ptr<Family>>& list);
void add_alexnet_and_vggs(std::vector<std::unique_ptr<Family>>& list);
void add_resnets(std::vector<std::unique_ptr<Family>>& list);
void add_inception(std::vector<std::unique_ptr<Family>>& list);
void add_lstm(std::vector<std::unique_ptr<Family>>& list);

}  // namespace hetsgd::networks
