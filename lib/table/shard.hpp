// The rows of the embedding tables that a rank holds, with the state of their row rule (Shard), the
// shards of one process (TableSet), and the plan that all ranks share (TablePlan).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/rank_index.hpp"
#include "data/batch.hpp"
#include "linalg/host_blocks.hpp"
#include "linalg/table_kernels.hpp"
#include "model/clicks/embedded.hpp"
#include "model/initial_rows.hpp"
#include "optimizer/row_rules.hpp"
#include "table/replacement.hpp"
#include "table/tiers.hpp"

namespace hetsgd {

inline constexpr double kElementBytes = 4;  // of an element or an id

// Made once per process, before the workers, and const: the same on all ranks.
struct TablePlan {
  TableShape shape;               // D, and whether a row has a weight u of its own
  std::size_t dense_columns = 0;  // K
  Placement placement;
  TableRows initial;           // the law of the initial rows of every shard
  OptimizerOptions optimizer;  // determines the row rule
  bool dedup = true;           // a batch asks only once for a row that it looks up several times
  Tiers tiers = {};            // the memory of each row
  ReplacementOptions replacement = {};

  std::size_t fields() const { return placement.fields(); }
  // Elements of a sample's vector x0.
  std::size_t width() const { return dense_columns + fields() * shape.embedding; }
  // Rows that a rank can keep at a time.
  std::size_t slots(int rank) const {
    return replacement.slots(placement.rows(rank), placement.first().back());
  }
  // Bytes of a rank's shard, state included: 4 bytes for each of the stride x (1 + states) elements
  // that it keeps of a row.
  double bytes(int rank) const;
  // Bytes of the shard that lie in the memory of the rank's device.
  double device_bytes(int rank) const;
};

// Samples with a row: clicked ones and others.
struct SampleCounts {
  std::uint32_t positives = 0, negatives = 0;
};

// A source of rows, read while no process changes them, to measure a model or to write it to a
// file.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual const TablePlan& plan() const = 0;
  // to[C] <- row `row` of field `field`. Thread-safe.
  virtual void read(std::size_t field, Index row, float* to) const = 0;
};

// The initial rows of a run, made on demand.
class InitialRows final : public RowSource {
 public:
  explicit InitialRows(const TablePlan& plan) : plan_(plan) {}
  const TablePlan& plan() const override { return plan_; }
  void read(std::size_t field, Index row, float* to) const override;

 private:
  const TablePlan& plan_;
};

// Not thread-safe: one call at a time. The device (whose memory it takes) and the plan must outlive
// it.
//
// Others name a row by its place (placement.hpp). Kernels name it by its slot, where it lies now:
//
//   place ──┬── under a capacity: a free slot, or the one of an evicted row; absent rows have none
//           ├── on a GPU with hybrid storage: first the slots in the memory of the device, then
//           |   those in host memory, which kernels read and write in place ── slot_at_, place_in_
//           └── otherwise: the slot of that number
class Shard {
 public:
  // Makes all initial rows on `threads` threads (none: all cores) before it returns. Throws
  // Error(device) if there is no memory.
  Shard(const TablePlan& plan, int rank, Device& device, std::optional<int> threads = {});

  int rank() const { return rank_; }
  std::size_t rows() const { return rows_; }
  // Whether the host reads its rows in place.
  bool on_host() const { return on_host_; }
  // to <- the rank's columns of the row at a place; the initial ones if the row is absent.
  // Thread-safe. Only for a shard on the host (checked).
  void copy_row(Index place, float* to) const;
  std::uint64_t evicted() const { return replacement_ ? replacement_->evicted() : 0; }

  // Number of these rows that lie on the device.
  std::size_t on_device(std::span<const Index> places) const { return tiers_.count(places); }
  // Floats of the rank's columns of these rows.
  std::size_t floats(std::span<const Index> places) const { return places.size() * view_.width; }
  // Rows that moved to the device so far. As many left it.
  std::uint64_t moved() const { return moved_; }
  // Work of gather() and of update() on these rows (stages.hpp).
  Work gather_work(std::span<const Index> places) const { return scattered_work(places, 1); }
  Work update_work(std::span<const Index> places) const;

  // The rank's columns of these rows, without gaps. On a GPU the devices that have called gather()
  // and update() must be idle (synchronize()).
  std::vector<float> read(std::span<const Index> places) const;

  // out[i] <- the rank's columns of the row at place[i], without gaps. slot[i] <- the slot of the
  // row until its update(). Under a capacity gather() admits the rows and pins them until their
  // update(). Throws what Replacement::pin() throws.
  void gather(TableKernels& kernels, std::span<const Index> place, std::vector<Index>& slot,
              float* out);
  // One update by the parts of all ranks, whose rows are slots: applies the row rule once to each
  // row that occurs. learning_rate: the run's; the plan's optimizer scales it for the tables.
  void update(TableKernels& kernels, const RowParts<float>& parts, double learning_rate);
  // With each update(): repeats the lookups, with the samples of each. Without evictions it does
  // nothing.
  void settle(std::span<const Index> place, std::span<const SampleCounts> samples);
  // The end of a segment of the run: lookups that were not followed by their update are forgotten.
  void end_segment() {
    if (replacement_) replacement_->unpin();
  }
  // All rows with the state of their rule, between two segments.
  void fields(Archive& fields);

 private:
  void make_initial(Index place, float* to) const;
  // Memory for `slots` rows.
  void allocate(std::size_t slots);
  void order_by_tier();
  // Writes the initial values of the rows in the slots [first, last) to w and the states, from
  // their start.
  void make_rows(std::size_t first, std::size_t last, float* w, float* const* states,
                 std::optional<int> threads);
  // The slot of the row at a place; none: the row is absent.
  std::optional<Index> slot_of(Index place) const;
  // Under a capacity: turns places into slots, which are pinned and hold the rows.
  void pin(TableKernels& kernels, std::vector<Index>& places);
  void read_from_device(std::span<const Index> places, float* to) const;
  // Each of these rows is touched `times`, and rows on the host cross its link once.
  Work scattered_work(std::span<const Index> places, double times) const;

  const TablePlan& plan_;
  int rank_;
  std::size_t rows_;
  Device& device_;
  bool on_host_ = true;
  Buffer w_, state_[2];
  HostBlock host_w_, host_state_[2];  // of a GPU: the tier in host memory
  ShardRows<float> view_;
  std::optional<Replacement> replacement_;  // none: every row has a slot
  DeviceRows tiers_;
  std::vector<Index> slot_at_, place_in_;  // slot by place, and the inverse; empty: identity
  std::vector<Index> fresh_;               // slots of newly admitted rows
  std::vector<float> fresh_rows_;
  std::size_t last_moved_ = 0;  // after the last update
  std::uint64_t moved_ = 0, updates_ = 0;
};

// The shards of a process: those of all ranks if the workers share memory, else that of its worker.
// Made before the workers, off the clock. Const, except for the contents of the shards.
class TableSet final : public RowSource {
 public:
  // ranks: owners of the shards of this process. threads: threads that make the rows; none: all
  // cores. gpus: the GPU of the worker of each entry of `ranks`, -1: none; empty: no worker has
  // one. Throws Error(usage) naming option and bytes if the shards do not fit into `machine_bytes`
  // of memory, or into a GPU.
  TableSet(TablePlan plan, std::span<const int> ranks, double machine_bytes,
           std::optional<int> threads = {}, std::span<const int> gpus = {});

  const TablePlan& plan() const override { return plan_; }
  Shard& shard(int rank);
  // Whether all shards are on the host: then read() may be called.
  bool on_host() const;
  // All slices of the row must be in this process.
  void read(std::size_t field, Index row, float* to) const override;

 private:
  Device& device_of(int gpu);

  const TablePlan plan_;
  std::map<int, std::unique_ptr<Device>> devices_;  // by GPU, -1: the host; allocates the shards
  std::vector<std::unique_ptr<Shard>> shards_;      // by rank; null: elsewhere
};

// Copies of rows from all ranks, for a process that has only its own shard: rank 0 of several,
// which measures the model. Memory: 4 bytes for each row of all tables, C floats for each gathered
// row.
class GatheredRows final : public RowSource {
 public:
  // rows: the rows that may be read, distinct. The plan outlives it.
  GatheredRows(const TablePlan& plan, std::span<const Index> rows);

  // The request to `rank`: places in its shard. The rank answers with its columns of these rows, in
  // their order and without gaps.
  std::vector<Index> places(int rank) const;
  // Takes the answer of `rank`. Throws CheckFailure for another length.
  void take(int rank, std::span<const float> columns);

  const TablePlan& plan() const override { return plan_; }
  // Reads one of the gathered rows, when all ranks have answered.
  void read(std::size_t field, Index row, float* to) const override;

 private:
  struct Group {
    std::vector<Index> places;
    std::vector<Index> numbers;  // index of each of these rows in rows_
  };

  const Group& group_of(int rank) const { return group_[at(plan_.placement.group_of_rank(rank))]; }

  const TablePlan& plan_;
  std::vector<Group> group_;
  std::vector<Index> number_;  // by row
  std::vector<float> rows_;    // [gathered x C]
};

// Reads the batch's x0 and u; `device` must be a CPU.
void read_embedded(const RowSource& rows, const Batch& batch, Device& device, Embedded& embedded);
// All rows, [rows x C]: a replica's table.
std::vector<float> read_all(const RowSource& rows);

}  // namespace hetsgd
