// BatchSource: the source of a worker's samples. It keeps the worker's cursor in its shard or in
// the shared pool, and gathers the next batch while a GPU computes on the current one.
//
// A batch is a list of row numbers, a pure function of the position in the pool or shard (Sampler).
// So the same positions are the same samples on every cluster, and the cursor is the only state of
// an epoch:
//
//   partition shared, synchronous, P = 3, size b       others: the worker's own shard
//   pool   | r0 | r1 | r2 | r0 | r1 | r2 | ...         shard  | b | b | b | ...
//          cursor += 3 b at each call                         cursor += b
//
// A batch stays valid until the next call that makes one. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "algorithm/run.hpp"
#include "cluster/endpoint.hpp"
#include "core/archive.hpp"

namespace hetsgd {

// The learners of one device among those of all devices, which count in the order of ranks. All
// devices must hold shares of the same division when they draw, or batches would overlap. The share
// changes only at a point that all workers agree on (sma's tuner).
struct LearnerShare {
  int mine = 1;
  int before = 0;  // on devices of lower ranks
  int all = 1;
};

class BatchSource {
 public:
  // The source of the endpoint's worker. Both outlive the source.
  BatchSource(Run& run, const Endpoint& endpoint);

  // The next `size` samples of this worker. Partition shared: synchronous algorithms interleave the
  // pool by rank. The k-th call of all workers, with equal sizes, takes the next P * size samples
  // in rank order. Workers of asynchronous ones are served first come first served, by Run::draw().
  // Other partitions: this worker's shard.
  const Batch& next(std::uint64_t size);
  // The next `size` samples of each learner of this device, for synchronous algorithms. Partition
  // shared: the learners of all devices interleave the pool in the order of `share`, which must be
  // the same everywhere. Other partitions: batch after batch of this worker's shard.
  std::span<const Batch> next(std::uint64_t size, const LearnerShare& share);
  // The samples at `range` of the shared pool, for algorithms that deal batches themselves. The
  // cursor stays where it is, and nothing is prefetched after it.
  const Batch& at(SampleRange range);

  // The next batch of a learner of this device (0: the only one), if next() is called as it was
  // last time; null if other workers influence it. Learners may ask at the same time, each for
  // itself. A wrong guess (another size, other learners) costs only the gathering. next() compares
  // positions, and the model's context compares the rows that it has sent ahead.
  //
  // A GPU's kernels are launched long before they end. In that time the worker gathers the next
  // batch and sends it ahead (a Model's context asks for it), so that the next step finds its batch
  // on the GPU. It happens inside compute(), which still returns when the step is done. So the
  // blocking vocabulary and the clock keep their meaning: gathering that takes longer than the step
  // counts as time of that step. A CPU has no copies to hide; with several learners each gathers
  // its own next batch on its own cores.
  const Batch* upcoming(std::size_t learner = 0);

  // Its position.
  void fields(Archive& fields) {
    fields("cursor", cursor_);
    fields("last", last_);
  }
  // The batch of the last next(size), once more.
  const Batch& again();

 private:
  // The next `size` samples at cursor_, if no other worker influences them. Empty under partition
  // shared with an asynchronous algorithm, where only the pool's cursor knows.
  std::optional<SampleRange> own_range(std::uint64_t size) const;

  void resize(std::size_t learners);
  // Learner j's batch at `range`, as upcoming(j) has gathered it, or gathered now.
  const Batch& take(std::size_t learner, SampleRange range);

  // Separate from batches_, which learners still use while the next ones are gathered.
  struct Prefetched {
    Batch batch;
    std::optional<SampleRange> range;  // what it holds
  };

  Run& run_;
  const int rank_, id_;
  const std::uint64_t workers_;
  const bool shared_;  // one pool for all workers
  Sampler::Adopted adopted_;
  // Position in the shard or in the pool. In the pool it is where rank 0's next batch begins, the
  // same number on all workers of a synchronous algorithm.
  std::uint64_t cursor_ = 0;
  std::vector<Batch> batches_;           // by learner
  std::vector<Prefetched> prefetched_;   // as many
  std::optional<SampleRange> expected_;  // the first learner's next; the others' follow it
  SampleRange last_;                     // of the last next(size)
};

}  // namespace hetsgd
