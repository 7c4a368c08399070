// Tiers: which of a rank's rows lie in the memory of its device, and which lie in the host's.
//
//   --table-storage  device   all on the device
//                    host     all on the host: they cross the host link when they are looked up,
//                             and so do the sums of their gradients
//                    hybrid   --hot-fraction of each rank's rows lies on the device: the rows that
//                             the profiled batches look up most often, or random ones (--hot)
//
// The choice is made before training (Sven, section 6.1) and stays, unless --hot-replace-every
// repeats it by the rows that the rank was asked for since. Tiers move bytes and never change a
// value. If the memory of the device is the host's, both tiers are the same memory, and only the
// simulated clock tells them apart.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/archive.hpp"
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
  // Number of lookups of each row in the profiled batches; for hybrid by frequency.
  std::shared_ptr<const std::vector<std::uint32_t>> counts = {};

  // Number of rows on the device, of `rows` in all.
  std::size_t on_device(std::size_t rows) const;
};

// By place of a rank's rows, whether the row is on the device; empty: the storage says where all
// rows are. Among equally frequent rows the lower place comes first.
std::vector<bool> hot_rows(const Tiers& tiers, const Placement& placement, int rank);

// Where each row of one rank lies now, and the counts that decide where it lies next. Not
// thread-safe. Memory: a bit per row, with replace_every 4 bytes more.
//
// Every replace_every updates the rows are ranked anew by a count. It begins at 0, grows by 1 when
// a rank asks for the row, and is halved after each ranking. So a request i rankings ago counts
// 2^-i. Among equal counts rows on the device stay, then the lower place comes first, so that
// nothing moves without a reason. The number of rows on the device stays the same.
class DeviceRows {
 public:
  // Keeps no reference to its arguments.
  DeviceRows(const Tiers& tiers, const Placement& placement, int rank);

  // By place, whether the row is on the device; empty: the storage says where all rows are.
  const std::vector<bool>& hot() const { return hot_; }
  // Number of these rows that lie on the device.
  std::size_t count(std::span<const Index> places) const;
  // Counts a request for these rows; a row may occur several times.
  void asked_for(std::span<const Index> places);
  // Ends an update. Returns the number of rows that moved to the device; as many left it.
  std::size_t end_update();
  void fields(Archive& fields);

 private:
  std::size_t replace();

  TableStorage storage_;
  std::optional<std::uint64_t> replace_every_;
  std::uint64_t updates_ = 0;
  std::vector<bool> hot_;             // by place, of hybrid
  std::vector<std::uint32_t> asked_;  // by place, with replace_every
};

}  // namespace hetsgd
