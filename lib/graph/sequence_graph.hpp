// Networks that read sequences of any length: the same nodes and parameters at another number of
// steps.
//
// A sequence goes from the input through lstm, relu, add and concat, each of whose steps depends on
// no later one, until an lstm gives its last step. Anything else that read all steps would have
// parameters by their number, or mix a row's steps with its padding.
#pragma once

#include <optional>

#include "graph/graph.hpp"

namespace hetsgd {

// The node that ties a graph to one number of steps: the input if it is no [numbers,steps,1], else
// the first node that reads all steps and may not. None: it reads sequences of any length.
std::optional<int> step_bound_node(const Graph& graph);

// Such a graph for sequences of so many steps.
Graph with_steps(const Graph& graph, std::int64_t steps);

}  // namespace hetsgd
