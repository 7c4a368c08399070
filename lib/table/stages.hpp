// The stages of a worker's reads and updates of embedding tables that are sharded over ranks. Each
// stage is a call of its own. So an algorithm may run them one after the other (Worker::gradient)
// or as a pipeline (sven), with several batches in flight.
//
//   Worker ── WorkerTables ──┬── TableStages ── collectives ── TableStages of the owner ──┬── Shard
//   sven ──── SvenStages ────┘       |                                                    |
//                  WorkerTables ── ServedTables ── messages ── companion of the owner ────┘
//
// A Lookup carries one batch through the stages. A TableSet holds the shards of a process.
//
//   stage   call              where            what
//   ids     request           requester        which rows the batch needs, by owner
//           exchange_counts   all ranks        how many, and the samples of every rank
//           exchange_ids      all ranks        places of these rows to their owners
//   SFP     gather            owner            the rows that all ranks asked for
//   fA2A    exchange_rows     all ranks        rows back, in the order asked
//           spread            requester        lookup.embedded: x0 and u of the samples
//   FP, BP  Model::forward, Model::backward    lookup.gradient: by x0 and u
//           sum               requester        sums of a row's gradients, scaled
//   bA2A    exchange_sums     all ranks        sums to the owners
//   SBP     update            owner            adds the ranks' sums, row rule
//
// The calls named exchange_... do not communicate. They return the exchange as a value
// (cluster/collective_call.hpp). The caller makes it with comm.make(request), starts it with
// comm.start(request), or moves it by messages from request.parts; all ranks do the same. Its
// memory belongs to the lookup. The other calls compute, and the caller charges them by the
// ..._work() of the same name, e.g. endpoint.compute(stages.gather_work(l), ComputeKind::stage,
// [&] { stages.gather(l); }).
//
// Canonical sum. The sum that an update adds to a row does not depend on layout and deduplication.
// Every rank adds up the gradients of its own mean loss by the row in the order of its samples,
// times b_i / b, its share of the samples of all ranks. The owner adds these in the order of ranks,
// 0 included. The row rule takes the sum once. Where a batch asks several times for one row (dedup
// off) the owner brackets alike, so no layout changes a bit.
//
// The order of calls on an owner decides what a lookup sees: gather() reads rows as the update()
// calls before it have left them. The two calls must never run on one shard at the same time.
//
// Work (floating-point operations; bytes; bytes of rows at random places; launches) of n samples of
// F fields, C elements of a row, m entries, a rows asked for, q = 1 + state vectors:
//   request   0              4nF (reading) + 8nF    0         1
//   gather    0              4a + 4aC               4aC       1
//   spread    nF             4nF + 8nFC             0         1
//   sum       nFC            4nF + 4nFC + 8mC       0         1
//   update    4aC            4a + 4aC               8aqC      1
// On an owner C is the number of columns that it has (placement.hpp). Random places lie in the
// memory of the device or of the host (tiers.hpp). For a row on the host 4C more bytes cross the
// host link: the row on its way out, and the sums on their way in.
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

// Counts of a worker's lookups (one for each sample and field), and of the rows (entries) that it
// asked for.
struct LookupCounts {
  std::uint64_t lookups = 0, entries = 0;
  // Rows that all workers asked of its shard, and how many of them lay on its device.
  std::uint64_t asked = 0, on_device = 0;
  std::uint64_t evicted = 0;  // rows evicted from its shard
  // rows of its shard that moved to its device, as --hot-replace-every chose
  std::uint64_t moved = 0;
};

// A row that is asked for. Under a capacity the whole struct travels, else the place alone.
struct AskedRow {
  Index place = 0;
  SampleCounts samples;
};

// A batch's request to one owner; refers to memory of the lookup.
struct OwnerPart {
  std::size_t rows = 0;
  std::span<const std::byte> asked;  // places, or AskedRows under a capacity
  std::span<float> columns;          // the owner's columns of these rows, later their sums
};

// One batch on its way through the stages, with all buffers that it needs, so that several batches
// may be in flight. It can be reused for the next batch, and allocates nothing once it has seen the
// largest. Made by TableStages::make_lookup(). It must not move from request() to update(), since
// exchanges in flight refer to it. One process at a time uses it.
class Lookup : NonCopyable {
 public:
  // After request(): the samples (a copy of the row numbers; the data set is the caller's).
  const Batch& batch() const { return batch_; }
  // Rows that the batch asks for: distinct ones, or one per sample and field without dedup.
  std::size_t entries() const { return found_.size(); }
  std::size_t lookups() const { return entry_.size(); }
  // After the exchange of counts: the rows that all ranks ask of this rank, and the share of this
  // batch in the samples of all ranks.
  std::size_t asked() const { return asked_.size(); }
  double share() const { return share_[rank_]; }

  Embedded embedded;  // x0, u: filled by spread()
  Embedded gradient;  // by x0 and u: the caller fills it by Model::backward

 private:
  friend class TableStages;

  // The message of a rank to another one before it asks.
  struct Ask {
    std::uint32_t rows = 0;     // rows that it will ask for
    std::uint32_t samples = 0;  // samples of its batch
  };
  std::size_t rank_ = 0;
  Batch batch_;
  // Requester. Entries are numbered group by group (placement.hpp). In a group they have the order
  // of their first occurrence in the batch, field by field.
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
  // [entries x C], by rank and part only the rank's columns: the rows, then the sums of their
  // gradients.
  Buffer rows_;
  Buffer whole_;                         // [entries x C] if ranks have slices or several parts
  std::vector<std::size_t> row_counts_;  // by rank, floats of rows_
  std::vector<SampleCounts> samples_;    // by entry, under a capacity
  std::vector<AskedRow> ask_rows_, asked_rows_;  // the same lists with samples, under a capacity
  // Owner.
  std::vector<Index> asked_;  // places, rank by rank
  std::vector<Index> slot_;   // by asked row, from gather to update
  std::vector<SampleCounts> asked_samples_;
  std::vector<std::size_t> asked_counts_;  // by rank, rows
  std::vector<std::size_t> asked_floats_;  // by rank, since gather()
  std::vector<float> share_;               // by rank
  Buffer gathered_;                        // [asked x columns] rows, then the sums of all ranks
};

class TableStages {
 public:
  // The tables as one rank sees them; cheap to make. All arguments outlive it. Stages of different
  // lookups may run at the same time on different processes of a worker, except gather() and
  // update().
  TableStages(const TablePlan& plan, Shard& shard, Device& device);

  const TablePlan& plan() const { return plan_; }
  Shard& shard() { return shard_; }
  std::unique_ptr<Lookup> make_lookup() const;

  void request(const Batch& batch, Lookup& lookup) const;
  CollectiveRequest exchange_counts(Lookup& lookup) const;
  // After the exchange of counts; makes room for the ids that arrive.
  CollectiveRequest exchange_ids(Lookup& lookup) const;
  void gather(Lookup& lookup) const;
  CollectiveRequest exchange_rows(Lookup& lookup) const;
  void spread(Lookup& lookup) const;
  void sum(Lookup& lookup) const;
  CollectiveRequest exchange_sums(Lookup& lookup) const;
  void update(Lookup& lookup, double learning_rate) const;

  // After request(), in place of the exchanges if owners are asked one by one (served.hpp): the
  // requests by rank. The share of the batch is then 1, so owners add its gradient alone to a row.
  std::vector<OwnerPart> by_owner(Lookup& lookup) const;

  // Number of rows asked of this rank that lie on its device.
  std::size_t on_device(const Lookup& lookup) const { return shard_.on_device(lookup.asked_); }

  Work request_work(const Batch& batch) const;
  Work gather_work(const Lookup& lookup) const { return shard_.gather_work(lookup.asked_); }
  Work spread_work(const Lookup& lookup) const;
  Work sum_work(const Lookup& lookup) const;
  Work update_work(const Lookup& lookup) const { return shard_.update_work(lookup.asked_); }

 private:
  void number(Lookup& lookup) const;
  void sort_by_group(Lookup& lookup) const;
  bool replaces() const { return plan_.replacement.capacity.has_value(); }
  void count_samples(Lookup& lookup) const;
  // fn(rank, columns, first entry, entries) for the request to every rank, in rank order.
  template <class Fn>
  void for_each_rank(const Lookup& lookup, const Fn& fn) const;
  void move_slices(Lookup& lookup, bool join) const;

  const TablePlan& plan_;
  Shard& shard_;
  Device& device_;
  TableKernels& kernels_;
};

}  // namespace hetsgd
