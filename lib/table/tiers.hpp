// Tiers: which of a rank's rows lie in the memory of its device, and which in the host's.
//
//   --table-storage  device   all on the device
//                    host     all on the host: they cross the host link when they are looked up,
//                             and so do the sums of their gradients
//                    hybrid   of each rank's rows the --hot-fraction that --hot chooses lies on the
//                             device: those that the profiled batches look up most often, or any
//
// The choice is made before training (paper 004, section 6.1) and stays, unless --hot-replace-every
// makes it anew by what the rank was asked for since. Tiers move bytes, never numbers: where the
// memory of the device is the host's, they are the same memory, and only the simulated clock tells
// them apart.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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
  std::uint64_t seed = 1;                           // of a random choice
  std::optional<std::uint64_t> replace_every = {};  // updates; none: the choice stays
  // By row, how often the profiled batches look it up; of hybrid by frequency.
  std::shared_ptr<const std::vector<std::uint32_t>> counts = {};

  // How many of `rows` rows lie on the device.
  std::size_t on_device(std::size_t rows) const;
};

// By place of a rank's rows, whether it is on the device; empty: all are where the storage says. Of
// equally frequent rows the lower place comes first.
std::vector<bool> hot_rows(const Tiers& tiers, const Placement& placement, int rank);

// In whose memory the rows of one rank lie now, and what decides where they lie next. Not
// thread-safe. Memory: a bit per row, with replace_every 4 bytes more.
//
// Every replace_every updates the rows are ranked anew by a count that begins at 0, grows by 1 when
// a rank asks for the row, and is halved after each ranking: what was asked for i rankings ago counts
// 2^-i. Of equal counts those on the device stay, then the lower place comes first, so that nothing
// moves without a reason. As many rows lie on the device as before.
class DeviceRows {
 public:
  // What it refers to is not kept.
  DeviceRows(const Tiers& tiers, const Placement& placement, int rank);

  // By place, whether the row is on the device; empty: all are where the storage says.
  const std::vector<bool>& hot() const { return hot_; }
  // How many of these rows lie on the device.
  std::size_t count(std::span<const Index> places) const;
  // These rows were asked for; a row may stand there several times.
  void asked_for(std::span<const Index> places);
  // An update is over. How many rows came to the device after it; as many left it.
  std::size_t end_update();

 private:
  std::size_t replace();

  TableStorage storage_;
  std::optional<std::uint64_t> replace_every_;
  std::uint64_t updates_ = 0;
  std::vector<bool> hot_;             // by place, of hybrid
  std::vector<std::uint32_t> asked_;  // by place, with replace_every
};

}  // namespace hetsgd
