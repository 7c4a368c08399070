// The order in which the nodes of a network are computed.
#pragma once

#include <vector>

#include "graph/graph.hpp"

namespace hetsgd {

// Depth first from the input: a join waits for its last branch, branches come in the order of the
// node list (paper 004, algorithm 2, with the count of arrivals compared to the number of inputs).
// Node indices, the input's first.
std::vector<int> execution_order(const Graph& graph);

}  // namespace hetsgd
