// Tables: the stages by which a worker reads and updates embedding tables that are sharded over
// ranks. Each stage is a call of its own, so that an algorithm may run them one after the other
// (Worker::gradient) or as a pipeline (sven), with several batches in flight.
//
//   stage   call              where            what
//   ids     request           requester        which rows the batch needs, by owner
//           exchange_counts   all ranks        how many, and the samples of every rank
//           exchange_ids      all ranks        places of these rows to their owners
//   SFP     look_up           owner            gather of the rows that all ranks asked for
//   fA2A    exchange_rows     all ranks        rows back, in the order asked
//           spread            requester        lookup.embedded: x0 and u of the samples
//   FP, BP  Model::forward, Model::backward    lookup.gradient: by x0 and u
//           sum               requester        sums of a row's gradients, scaled
//   bA2A    exchange_sums     all ranks        sums to the owners
//   SBP     update            owner            adds the ranks' sums, row rule
//
// The calls named exchange_... do not communicate: they return the exchange
// as a value (cluster/collective_call.hpp), which the caller makes with comm.make(request), starts
// with comm.start(request), or moves by messages from request.parts; all ranks the same way. Its
// memory is the lookup's. The other calls compute: the caller charges them, by the ..._work() of
// the same name, e.g. endpoint.compute(tables.look_up_work(l), ComputeKind::vector, [&] {
// tables.look_up(l); }).
//
// Canonical sum. What an update adds to a row is defined without regard to layout and
// deduplication: every rank adds up the gradients of its own mean loss by the row in the order of
// its samples, times b_i / b, its share of the samples of all ranks; the owner adds these in the
// order of ranks, 0 included; the row rule takes the sum once. Where a batch asks several times for
// one row (dedup off) the owner brackets alike, so no layout changes a bit.
//
// Order on an owner decides what a lookup sees: look_up() reads rows as the update() calls before
// it have left them. Both take turns on the shard: never at the same time.
//
// Work (floating-point operations; bytes; bytes of rows at random places; launches) of n samples of
// F fields, C numbers of a row, m entries, a rows asked for, q = 1 + state vectors:
//   request   0              4nF (reading) + 8nF    0         1
//   look_up   0              4a + 4aC               4aC       1
//   spread    nF             4nF + 8nFC             0         1
//   sum       nFC            4nF + 4nFC + 8mC       0         1
//   update    4aC            4a + 4aC               8aqC      1
// where an owner's C of a row is the number of its columns (table_placement.hpp).
// Random places are in the memory of the device or of the host (tiers.hpp); of rows on the host 4C
// bytes each cross the host link as well, rows on their way out and sums on their way in.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cluster/comm.hpp"
#include "core/non_copyable.hpp"
#include "core/units.hpp"
#include "data/batch.hpp"
#include "linalg/distinct.hpp"
#include "model/clicks/embedded.hpp"
#include "table/shard.hpp"

namespace hetsgd {

// What travels: numbers of rows; rows and sums.
inline constexpr Traffic kIdTraffic = Traffic::ids;
inline constexpr Traffic kRowTraffic = Traffic::rows;
inline constexpr Traffic kSumTraffic = Traffic::rows;

// What a worker has looked up: lookups, one for each sample and field, and the rows that it asked
// for.
struct LookupCounts {
  std::uint64_t lookups = 0, entries = 0;
  // Rows that others, and itself, asked of its shard, and those of them that lay on its device.
  std::uint64_t asked = 0, on_device = 0;
  std::uint64_t evicted = 0;  // rows that went from its shard
  std::uint64_t moved = 0;    // rows of it that came to its device, as --hot-replace-every chose
};

// A row that is asked for; under a capacity the whole of it travels, else the place alone.
struct AskedRow {
  Index place = 0;
  SampleCounts samples;
};

// What a batch asks of one owner: refers to memory of the lookup.
struct OwnerPart {
  std::size_t rows = 0;
  std::span<const std::byte> asked;  // places, or AskedRows under a capacity
  std::span<float> columns;          // the owner's columns of these rows, later their sums
};

// One batch on its way through the stages: all buffers that it needs, so that several batches may
// be in flight; to be used again for the next one, without allocation once it has seen the largest.
// Made by Tables::lookup(); stays where it is from request() to update(), since exchanges that are
// under way refer to it. One process at a time uses it.
class Lookup : NonCopyable {
 public:
  explicit Lookup(Device& device) : device_(device) {}

  // After request(): the samples (a copy of the row numbers; the data set is the caller's).
  const Batch& batch() const { return batch_; }
  // Rows that the batch asks for: distinct ones, or one per sample and field without dedup.
  std::size_t entries() const { return found_.size(); }
  std::size_t lookups() const { return entry_.size(); }
  // After the exchange of counts: rows that all ranks ask of this one, and the share of this
  // batch in the samples of all ranks.
  std::size_t asked() const { return asked_.size(); }
  double share() const { return share_[rank_]; }

  Embedded embedded;  // x0, u: filled by spread()
  Embedded gradient;  // by x0 and u: the caller's, from Model::backward

 private:
  friend class Tables;

  // What a rank tells another one before it asks.
  struct Ask {
    std::uint32_t rows = 0;     // that it will ask for
    std::uint32_t samples = 0;  // of its batch
  };
  Device& device_;
  std::size_t rank_ = 0;
  Batch batch_;
  // Requester. Entries are numbered group by group (table_placement.hpp), in a group in the order in
  // which the batch first names them, field by field.
  DistinctNumbers distinct_;
  std::vector<std::uint32_t> entry_;              // [n x F] of each lookup
  std::vector<Placement::Place> found_, sorted_;  // by entry; what it is sorted into
  std::vector<std::uint32_t> renumbered_;
  std::vector<std::size_t> next_;           // by group
  std::vector<Index> place_;                // what is asked: by rank, of a rank by part
  std::vector<std::size_t> group_entries_;  // by group
  std::vector<std::size_t> group_begin_;    // by group, its first entry
  std::vector<std::size_t> ask_counts_;     // by rank: rows that this rank asks for
  std::vector<Ask> asks_, asks_of_all_;     // [ranks] to and from
  std::vector<std::size_t> ones_;           // [ranks] 1: lengths of the exchange of counts
  // [entries x C], by rank and part the columns of this alone: the rows, then the sums of their
  // gradients.
  Buffer rows_;
  Buffer whole_;                         // [entries x C] where ranks have slices or several parts
  std::vector<std::size_t> row_counts_;  // by rank, floats of rows_
  std::vector<SampleCounts> samples_;    // by entry, under a capacity
  std::vector<AskedRow> ask_rows_, asked_rows_;  // the same lists with samples, under a capacity
  // Owner.
  std::vector<Index> asked_;  // places, rank by rank
  std::vector<Index> slot_;   // by asked row, from look_up to update
  std::vector<SampleCounts> asked_samples_;
  std::vector<std::size_t> asked_counts_;  // by rank, rows
  std::vector<std::size_t> asked_floats_;  // by rank, since look_up()
  std::vector<float> share_;               // by rank
  Buffer gathered_;                        // [asked x columns] rows, then the sums of all ranks
};

// Of an owner's stages, on rows at these places of its shard.
Work look_up_work_of(const Shard& shard, std::span<const Index> places);
Work update_work_of(const TablePlan& plan, const Shard& shard, std::span<const Index> places);

class Tables {
 public:
  // Of one rank; cheap. All outlive it. The stages of different lookups may run at the same time on
  // different processes of a worker, but for look_up() and update().
  Tables(const TablePlan& plan, Shard& shard, Device& device);

  const TablePlan& plan() const { return plan_; }
  Shard& shard() { return shard_; }
  std::unique_ptr<Lookup> lookup() const;

  void request(const Batch& batch, Lookup& lookup) const;
  CollectiveRequest exchange_counts(Lookup& lookup) const;
  // After the exchange of counts, of which it makes room for what comes.
  CollectiveRequest exchange_ids(Lookup& lookup) const;
  void look_up(Lookup& lookup) const;
  CollectiveRequest exchange_rows(Lookup& lookup) const;
  void spread(Lookup& lookup) const;
  void sum(Lookup& lookup) const;
  CollectiveRequest exchange_sums(Lookup& lookup) const;
  void update(Lookup& lookup, double learning_rate) const;

  // After request(), in place of the exchanges where owners are asked one by one (served.hpp): by
  // rank. What they add to a row is then this batch's gradient alone: its share is 1.
  std::vector<OwnerPart> by_owner(Lookup& lookup) const;

  // Of the rows asked of this rank, those on its device.
  std::size_t on_device(const Lookup& lookup) const { return shard_.on_device(lookup.asked_); }

  Work request_work(const Batch& batch) const;
  Work look_up_work(const Lookup& l) const { return look_up_work_of(shard_, l.asked_); }
  Work spread_work(const Lookup& lookup) const;
  Work sum_work(const Lookup& lookup) const;
  Work update_work(const Lookup& l) const { return update_work_of(plan_, shard_, l.asked_); }

 private:
  void number(Lookup& lookup) const;
  void sort_by_group(Lookup& lookup) const;
  bool replaces() const { return plan_.replacement.capacity.has_value(); }
  void count_samples(Lookup& lookup) const;
  // fn(rank, columns, first entry, entries): what is asked of every rank, in their order.
  template <class Fn>
  void for_each_rank(const Lookup& lookup, const Fn& fn) const;
  void move_slices(Lookup& lookup, bool join) const;

  const TablePlan& plan_;
  Shard& shard_;
  Device& device_;
  TableKernels& kernels_;
};

}  // namespace hetsgd
