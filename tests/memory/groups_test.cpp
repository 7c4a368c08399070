#include "memory/groups.hpp"

#include <gtest/gtest.h>

#include "graph/graph_file.hpp"
#include "support/memory_fixtures.hpp"

namespace hetsgd {
namespace {

// Dymem's figure 4.2, with convolutions, whose backward steps need their inputs.
Graph figure42() {
  return parse_graph("figure", R"({"name": "4.2", "input": [4,8,8], "nodes": [
    {"name": "l0", "type": "conv", "channels": 4, "kernel": 1},
    {"name": "l1", "type": "pool", "kernel": 3, "padding": 1},
    {"name": "l2", "type": "conv", "channels": 4, "kernel": 1, "from": ["l0"]},
    {"name": "l3", "type": "conv", "channels": 4, "kernel": 1, "from": ["l0"]},
    {"name": "l4", "type": "conv", "channels": 4, "kernel": 1, "from": ["l0"]},
    {"name": "l5", "type": "conv", "channels": 4, "kernel": 1, "from": ["l1"]},
    {"name": "l6", "type": "conv", "channels": 4, "kernel": 1, "from": ["l3"]},
    {"name": "l7", "type": "conv", "channels": 4, "kernel": 1, "from": ["l4"]},
    {"name": "l8", "type": "conv", "channels": 4, "kernel": 1, "from": ["l7"]},
    {"name": "l9", "type": "concat", "from": ["l5", "l2", "l6", "l8"]},
    {"name": "next", "type": "conv", "channels": 4, "kernel": 1},
    {"type": "fc", "units": 2}, {"type": "softmax"}]})");
}

TEST(Groups, AreThoseOfFigure42) {
  const Planned net(figure42());
  const auto group = [&](const std::string& name) {
    for (const int id : net.training.feature) {
      const StepTensor& tensor = net.training.tensor(id);
      if (net.graph->node(tensor.node).name == name) {
        return mobility_of(net.training, tensor, Pass::forward);
      }
    }
    return Mobility::workspace;
  };
  for (const char* name : {"l0", "l5", "l2", "l6"})
    EXPECT_EQ(group(name), Mobility::temporary) << name;
  for (const char* name : {"l1", "l3", "l4", "l7", "l8"}) {
    EXPECT_EQ(group(name), Mobility::movable) << name;
  }
  EXPECT_EQ(group("next"), Mobility::reclaimed);  // it stays for the fc
}

}  // namespace
}  // namespace hetsgd
