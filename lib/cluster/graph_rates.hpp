// What a device profile says for the steps of computation graphs, beside DeviceProfile: the keys
// `convolution {half_channels, half_depth}` and `host_link_latency_s`.
#pragma once

#include <string>
#include <string_view>

namespace hetsgd {

struct GraphRates {
  // Of a convolution with Cout channels and K products per sum, the operations count
  // (1 + half_channels / Cout)(1 + half_depth / K) times. Absent: 0.
  double half_channels = 0, half_depth = 0;
  // Of a copy to the host's memory or from it. Absent: those of the network `pcie3`.
  double link_latency_s = 0, link_bytes_per_s = 1;
};

// Errors: those of load_device_profile.
GraphRates load_graph_rates(const std::string& name_or_path, std::string_view option = "--profile");

}  // namespace hetsgd
