// The work of a node in a training step: operations, bytes moved, launches. Layers that compute
// convolutions scale their operations by the device's efficiency and by the algorithm's speed
// (convolution.hpp), so operations and the rest stand apart in Work.
#pragma once

#include "core/units.hpp"
#include "graph/graph.hpp"

namespace hetsgd {

enum class Pass { forward, backward };

// Of one node and a batch. `input_gradient`: of a conv or fc, whether it computes dX, too.
Work node_work(const Graph& graph, int index, Pass pass, std::int64_t batch, bool input_gradient);

// Multiplications with additions of one sample's forward pass, of conv, fc and lstm: the field's
// count of a network's operations.
double multiply_adds(const Graph& graph);

}  // namespace hetsgd
