// Variants of a network: with another number of steps, and with copies at its forks.
#pragma once

#include <optional>

#include "graph/graph.hpp"

namespace hetsgd {

// Networks that read sequences of any length: the same nodes and parameters at another number of
// steps.
//
// A sequence goes from the input through lstm, relu, add and concat until an lstm gives its last
// step. In these nodes no step depends on a later one. Any other node that reads all steps would
// have parameters by their number, or mix a row's steps with its padding. A network of tokens is
// for any number of steps up to the block of its positions.

// The node that ties a graph to one number of steps. It is the input if its shape is not [elements,
// steps, 1], else the first node that reads all steps and may not. None if the graph reads
// sequences of any length.
std::optional<int> step_bound_node(const Graph& graph);

// The most steps of a network of tokens: the smallest block of its positions, or without positions
// its own steps.
std::int64_t most_steps(const Graph& graph);

// The same network of tokens for another number of kinds of tokens.
Graph with_vocabulary(const Graph& graph, std::int64_t tokens);

// The same network of masked tokens for another share of them.
Graph with_masked(const Graph& graph, double share);

// The same graph for sequences of `steps` steps; step_bound_node() must be none. Throws Error(data)
// for more steps than the block of positions.
Graph with_steps(const Graph& graph, std::int64_t steps);

// The same network with a copy of an output for each of its consumers but the first, as in systems
// that share no maps. These are SuperNeurons and, judging by its 190 steps for ResNet-32, Dymem. A
// copy is a subsample with stride 1, named fork_NAME. It comes right after the output, so that it
// is made before any branch begins. A network without forks stays as it is.
Graph with_fork_copies(const Graph& graph);

}  // namespace hetsgd
