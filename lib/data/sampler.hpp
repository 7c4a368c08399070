// The rows of a batch: the partition of the data and the order of an epoch.
//
// Everything is a pure function of (options, seed, position): no worker needs to ask another one,
// and the same position names the same rows on every cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/random.hpp"
#include "data/batch.hpp"
#include "data/dataset.hpp"

namespace hetsgd {

enum class Order {
  shuffled,
  sequential,
  bucketed,  // rows of sequences of similar length in one batch, see Sampler::Options::batch
};
enum class Partition {
  shared,        // one pool for all workers
  iid,           // static shards: worker i owns rows i, i+P, i+2P, ... of one global permutation
  label_sorted,  // non-iid: contiguous 1/P slices of the data sorted by (first label, row); no
                 // label sorts first, so rows of tokens keep their order
  dirichlet,     // non-iid: a mix of classes of its own for each worker (data/dirichlet.hpp)
};

// A half-open range of positions in a sample sequence (a pool or a shard), epochs end to end.
struct SampleRange {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
  bool operator==(const SampleRange&) const = default;
};

inline constexpr std::uint64_t kBucketWindow = 100;  // batches

// Fills batches with rows. Its methods are const and thread-safe.
class Sampler {
 public:
  struct Options {
    Order order = Order::shuffled;
    // bucketed: samples of a batch. An epoch is shuffled, then cut into windows of kBucketWindow
    // batches; the rows of a window are sorted by length, and its batches shuffled. The windows
    // themselves need no shuffling, since they are random rows in random order. Batches begin at
    // multiples of `batch` in the sequence of samples. The samples of an epoch before its first and
    // after its last whole batch stay shuffled.
    std::uint64_t batch = 1;
    Partition partition = Partition::shared;
    std::uint64_t seed = 1;
    int workers = 1;
    double alpha = 0.5;  // dirichlet: the concentration
    Augmentation augmentation = Augmentation::none;
  };

  // Rows of shards whose workers are lost, which a live worker takes over: of these shards, one
  // after the other, the rows `first`, `first + step`, ... They follow the rows of its own shard.
  struct Adopted {
    std::vector<int> shards{};
    std::uint64_t first = 0, step = 1;
  };
  // The rows for the worker `rank` of the view, the live workers in ascending order. None under
  // Partition::shared. Checked: a process that has only its own shard can adopt none.
  Adopted adopted_by(std::size_t rank, const std::vector<int>& view) const;

  // Throws Error(usage) if the data is divided among more workers than it has rows.
  Sampler(DatasetPtr data, const Options& options);
  // For a process that has only the shard of worker `rank`, in the order of shard(). Fills batches
  // of this worker alone, with the same samples.
  Sampler(DatasetPtr shard, const Options& options, int rank);

  // Fills `batch` with the rows of `range` in the pool (partition shared) or in worker `rank`'s
  // shard. Position p belongs to epoch p / (rows of the shard, with those adopted). Every epoch has
  // an order of its own; a range may cross epochs. Reuses the capacity of `batch`. Thread-safe.
  void fill(int rank, SampleRange range, Batch& batch) const { fill(rank, {}, range, batch); }
  void fill(int rank, const Adopted& adopted, SampleRange range, Batch& batch) const;

  // Rows in worker `rank`'s shard; all rows under Partition::shared.
  std::uint64_t shard_size(int rank) const;
  // The row numbers of worker `rank`'s shard, by place in the shard. Not under Partition::shared.
  std::vector<Index> shard(int rank) const;

  const Dataset& data() const { return *data_; }
  const Options& options() const { return options_; }

 private:
  // label_sorted, dirichlet: where the shard begins in slices_.
  std::uint64_t shard_begin(int rank) const;

  // The seed of the orders of a shard's epochs, or of the pool's.
  std::uint64_t order_seed(int rank) const;
  std::uint64_t row_of(int rank, std::uint64_t place, const Permutation& deal) const;
  // A worker's rows: its shard's places, and behind them those that it has adopted.
  struct Rows {
    int rank;
    const Adopted& adopted;
    const Permutation& deal;
  };
  std::uint64_t row_of(const Rows& rows, std::uint64_t place) const;
  std::uint64_t size_of(int rank, const Adopted& adopted) const;
  // Places of the shard in the order of an epoch, from position `begin` on.
  struct Window {
    std::uint64_t begin = 0;
    std::vector<std::uint64_t> places{};
    bool holds(std::uint64_t position) const {
      return position >= begin && position - begin < places.size();
    }
  };
  // bucketed: the window that holds `position` of the epoch, which `order` has shuffled. A position
  // outside of whole batches is a window of its own.
  Window window_at(const Rows& rows, std::uint64_t epoch, std::uint64_t position,
                   const Permutation& order) const;

  DatasetPtr data_;
  Options options_;
  std::uint64_t rows_;         // of the whole data set
  std::optional<int> only_;    // data_ holds the shard of this worker alone
  std::vector<Index> slices_;  // row numbers, shard after shard; empty otherwise
};

}  // namespace hetsgd
