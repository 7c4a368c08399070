// Networks that read sequences of any length: the same nodes and parameters at another number of
// steps.
//
// A sequence goes from the input through lstm, relu, add and concat until an lstm gives its last
// step. In these nodes no step depends on a later one. Any other node that reads all steps would
// have parameters by their number, or mix a row's steps with its padding.
#pragma once

#include <optional>

#include "graph/graph.hpp"

namespace hetsgd {

// The node that ties a graph to one number of steps. It is the input if its shape is not [elements,
// steps, 1], else the first node that reads all steps and may not. None if the graph reads
// sequences of any length.
std::optional<int> step_bound_node(const Graph& graph);

// The same graph for sequences of `steps` steps; step_bound_node() must be none.
Graph with_steps(const Graph& graph, std::int64_t steps);

}  // namespace hetsgd
