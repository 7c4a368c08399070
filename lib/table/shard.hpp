// The rows that ranks have of the embedding tables, with the state of their row rule (Shard), those
// of one process (TableSet), and what all ranks know alike of them (TablePlan).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/batch.hpp"
#include "linalg/host_blocks.hpp"
#include "linalg/table_kernels.hpp"
#include "model/clicks/embedded.hpp"
#include "model/initial_rows.hpp"
#include "optimizer/row_rules.hpp"
#include "table/replacement.hpp"
#include "table/tiers.hpp"

namespace hetsgd {

// Made once per process, before the workers, and const: the same on all ranks.
struct TablePlan {
  TableShape shape;               // D, and whether a row has a weight u of its own
  std::size_t dense_columns = 0;  // K
  Placement placement;
  TableRows initial;           // the rows that every shard makes for itself
  OptimizerOptions optimizer;  // of which the row rule is made
  bool dedup = true;           // a batch asks once for a row that it looks up several times
  Tiers tiers = {};            // in whose memory rows lie
  ReplacementOptions replacement = {};

  std::size_t fields() const { return placement.fields(); }
  // Numbers of a sample's vector x0.
  std::size_t width() const { return dense_columns + fields() * shape.embedding; }
  // Rows that a rank keeps at a time.
  std::size_t slots(int rank) const {
    return replacement.slots(placement.rows(rank), placement.first().back());
  }
  // Bytes of a rank's shard, state included: 4 bytes for each of stride x (1 + states) numbers of
  // what it has of a row.
  double bytes(int rank) const;
  // Of these in the memory of its device.
  double device_bytes(int rank) const;
};

// Samples with a row: with a click, and without.
struct SampleCounts {
  std::uint32_t positives = 0, negatives = 0;
};

// Where rows can be read while nobody changes them: a model is measured, or written to a file.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual const TablePlan& plan() const = 0;
  // to[C] <- row `row` of field `field`. Thread-safe.
  virtual void read(std::size_t field, Index row, float* to) const = 0;
};

// The rows that a run begins with, made when they are asked for.
class InitialRows final : public RowSource {
 public:
  explicit InitialRows(const TablePlan& plan) : plan_(plan) {}
  const TablePlan& plan() const override { return plan_; }
  void read(std::size_t field, Index row, float* to) const override;

 private:
  const TablePlan& plan_;
};

// Not thread-safe: one call at a time. Device (whose memory it takes) and plan outlive it. On a GPU
// its rows are numbered tier by tier: first those in the memory of the device, then those in host
// memory, which kernels read and write in place.
class Shard {
 public:
  // At the initial values, made on `threads` threads (none: all cores), and complete at the return.
  // Errors: device, no memory.
  Shard(const TablePlan& plan, int rank, Device& device, std::optional<int> threads = {});

  int rank() const { return rank_; }
  std::size_t rows() const { return rows_; }
  // Whether the host reads its rows in place.
  bool on_host() const { return on_host_; }
  // to <- the rank's columns of the row at a place; of an absent row the initial ones. Thread-safe.
  // Of a shard on the host (checked).
  void copy_row(Index place, float* to) const;
  std::uint64_t evicted() const { return replacement_ ? replacement_->evicted() : 0; }

  // How many of these rows lie on the device.
  std::size_t on_device(std::span<const Index> places) const { return tiers_.count(places); }
  // Floats of the rank's columns of these rows, and of those of them that lie on the device.
  std::size_t floats(std::span<const Index> places) const { return places.size() * view_.width; }
  std::size_t floats_on_device(std::span<const Index> places) const {
    return on_device(places) * view_.width;
  }
  // Rows that came to the device after the last update, and after all; as many left it each time.
  std::size_t moved() const { return moved_; }
  std::uint64_t moved_in_all() const { return moved_in_all_; }

  // The rank's columns of these rows, without gaps. Of a shard on a GPU: while the devices that
  // have called gather() and update() have nothing to do (synchronize()).
  std::vector<float> read(std::span<const Index> places) const;

  // out[i] <- the rank's columns of the row at place[i], without gaps. Under a capacity: admits the
  // rows and pins them until their update(). slot[i] <- where the row lies until then. Errors:
  // runtime, as Replacement::pin().
  void gather(TableKernels& kernels, std::span<const Index> place, std::vector<Index>& slot,
              float* out);
  // One update by the parts of all ranks, whose rows are slots: the row rule, once for each row
  // that occurs. learning_rate: that of the run; the plan's optimizer says how much of it is the
  // tables'.
  void update(TableKernels& kernels, const RowParts<float>& parts, double learning_rate);
  // Under a capacity, with update(): the same lookups once more, and the samples of each.
  void settle(std::span<const Index> place, std::span<const SampleCounts> samples);

 private:
  void make_initial(Index place, float* to) const;
  // Memory for `slots` rows.
  void allocate(std::size_t slots);
  void number_by_tier();  // a GPU's hybrid shard has its hot rows first
  // The rows with numbers [first, last) at their initial values; w and states where they begin.
  void make_rows(std::size_t first, std::size_t last, float* w, float* const* states,
                 std::optional<int> threads);
  // Places become slots, which under a capacity are pinned and hold the rows.
  void find_slots(TableKernels& kernels, std::vector<Index>& places);
  void read_from_device(std::span<const Index> places, float* to) const;

  const TablePlan& plan_;
  int rank_;
  std::size_t rows_;
  Device& device_;
  bool on_host_ = true;
  Buffer w_, state_[2];
  HostBlock host_w_, host_state_[2];  // of a GPU: the tier in host memory
  ShardRows<float> view_;
  std::optional<Replacement> replacement_;  // none: every row has the slot of its place
  DeviceRows tiers_;
  std::vector<Index> number_, place_;  // by place its number, and back; empty: the same
  std::vector<Index> fresh_;           // slots of rows that have just come
  std::vector<float> fresh_rows_;
  std::size_t moved_ = 0;
  std::uint64_t moved_in_all_ = 0, updates_ = 0;
};

// The shards of a process: of all ranks where the workers share memory, else that of its worker.
// Made before the workers, off the clock; const but for what the shards hold.
class TableSet final : public RowSource {
 public:
  // ranks: whose shards live here. Errors: usage, naming option and bytes: they do not fit into
  // `machine_bytes` of memory, or into that of a GPU. threads: that make the rows; none: all cores.
  // gpus: by entry of `ranks` the GPU of its worker, -1: none; empty: no worker has one.
  TableSet(TablePlan plan, std::span<const int> ranks, double machine_bytes,
           std::optional<int> threads = {}, std::span<const int> gpus = {});

  const TablePlan& plan() const override { return plan_; }
  Shard& shard(int rank);
  // Whether all shards are on the host: then read() may be called.
  bool on_host() const;
  // Of a row all of whose slices live here.
  void read(std::size_t field, Index row, float* to) const override;

 private:
  double host_bytes(int rank, int gpu) const;
  Device& device_of(int gpu);

  const TablePlan plan_;
  std::map<int, std::unique_ptr<Device>> devices_;  // by GPU, -1: the host; whose memory is taken
  std::vector<std::unique_ptr<Shard>> shards_;      // by rank; null: elsewhere
};

// Copies of rows from all ranks, for a process that has only its own shard: rank 0 of several, which
// measures the model.
// Memory: 4 bytes for each row of all tables, C numbers for each row that is gathered.
class GatheredRows final : public RowSource {
 public:
  // rows: those that may be read, distinct. The plan outlives it.
  GatheredRows(const TablePlan& plan, std::span<const Index> rows);

  // What `rank` is asked for: places in its shard. It answers with its columns of these rows, in
  // their order and without gaps.
  std::vector<Index> places(int rank) const;
  // The answer. Errors: check, another length.
  void take(int rank, std::span<const float> columns);

  const TablePlan& plan() const override { return plan_; }
  // A row of those above, when all ranks have answered.
  void read(std::size_t field, Index row, float* to) const override;

 private:
  struct Group {
    std::vector<Index> places;
    std::vector<Index> numbers;  // of these rows in rows_
  };

  const Group& group_of(int rank) const {
    return group_[static_cast<std::size_t>(plan_.placement.group_of_rank(rank))];
  }

  const TablePlan& plan_;
  std::vector<Group> group_;
  std::vector<Index> number_;  // by row
  std::vector<float> rows_;    // [gathered x C]
};

// The batch's x0 and u; `device` is a CPU's.
void read_embedded(const RowSource& rows, const Batch& batch, Device& device, Embedded& embedded);
// All rows, [rows x C]: a replica's table.
std::vector<float> read_all(const RowSource& rows);

}  // namespace hetsgd
