// Tiers: which of a rank's rows lie in the memory of its device, and which in the host's.
//
//   --table-storage  device   all on the device
//                    host     all on the host: they cross the host link when they are looked up,
//                             and so do the sums of their gradients
//                    hybrid   of each rank's rows the --hot-fraction that --hot chooses lies on the
//                             device: those that the profiled batches look up most often, or any
//
// The choice is made before training and stays (paper 004, section 6.1). Tiers move bytes, never
// numbers: where the memory of the device is the host's, they are the same memory, and only the
// simulated clock tells them apart.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "table/placement.hpp"

namespace hetsgd {

enum class TableStorage { device, host, hybrid };
enum class HotRows { frequency, random };

struct Tiers {
  TableStorage storage = TableStorage::device;
  double hot_fraction = 0;  // of hybrid
  HotRows choice = HotRows::frequency;
  std::uint64_t seed = 1;  // of a random choice
  // By row, how often the profiled batches look it up; of hybrid by frequency.
  std::shared_ptr<const std::vector<std::uint32_t>> counts = {};

  // How many of `rows` rows lie on the device.
  std::size_t on_device(std::size_t rows) const;
};

// By place of a rank's rows, whether it is on the device; empty: all are where the storage says. Of
// equally frequent rows the lower place comes first.
std::vector<bool> hot_rows(const Tiers& tiers, const Placement& placement, int rank);

}  // namespace hetsgd
