// Which data a network reads.
#pragma once

#include "graph/graph.hpp"
#include "model/model.hpp"

namespace hetsgd {

// Of the input.
ImageShape image_of(const Graph& graph);

// The data that a network is for: images of its input's shape, a label for each of its classes.
DataShape data_shape(const Graph& graph);

// Errors: usage, data whose images, sequences or labels the network does not fit; it opens with
// --model.
void check_network_reads(const Graph& graph, const DataShape& data);

}  // namespace hetsgd
