// Seconds of each step of a training step, from a device's rates.
#pragma once

#include <functional>

#include "core/units.hpp"
#include "memory/plan.hpp"

namespace hetsgd {

// How fast a device and its link are.
struct DeviceRates {
  std::function<Seconds(const Work&)> seconds;  // additive in the parts of Work
  // A convolution with few filters or short sums uses only a part of the device. Its operations
  // count (1 + half_channels / Cout)(1 + half_depth / K) times.
  double half_channels = 0, half_depth = 0;
  double link_latency_s = 0, link_bytes_per_s = 1;
};

// How many times the operations of this node count; 1 for every node but a convolution.
double convolution_factor(const Graph& graph, int node, const DeviceRates& rates);

StepTimes step_times(const TrainingStep& training, const DeviceRates& rates);

}  // namespace hetsgd
