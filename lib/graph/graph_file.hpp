// Networks as JSON files; graph_schema.json describes them.
//
//   {"name": "tiny", "input": [1,28,28],
//    "nodes": [{"type": "conv", "channels": 8, "kernel": 3, "padding": 1}, {"type": "relu"},
//              {"type": "fc", "units": 10}, {"type": "softmax"}]}
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.hpp"

namespace hetsgd {

// `place`, a path, opens the messages. Throws Error(data) naming file, node, key, found and
// expected.
Graph parse_graph(const std::string& place, std::string_view text);
Graph read_graph(const std::string& path);

// The text of a file for the graph: attributes that differ from their defaults, and `from` where it
// is not the preceding node. parse_graph reads the same graph from it.
std::string to_json_text(const Graph& graph);

}  // namespace hetsgd
