// Explicit forks: what several nodes read is copied for all of them but one.
#pragma once

#include "graph/graph.hpp"

namespace hetsgd {

// The same network with a copy of an output for each of its consumers but the first, as systems
// have it that share no maps: SuperNeurons, and, by its 190 steps for ResNet-32, paper 004. A copy
// is a subsample with stride 1, named fork_NAME, and comes right behind the output, so that it is
// made before any branch begins. A network without forks stays as it is.
Graph with_fork_copies(const Graph& graph);

}  // namespace hetsgd
