// Hash tables over the rows of the output layer: which labels share a bucket with a query (SLIDE).
// They yield the active labels of a sample.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <vector>

#include "data/batch.hpp"
#include "linalg/host_cores.hpp"
#include "model/labels/label_hash.hpp"

namespace hetsgd {

// L tables of all N rows, immutable. A bucket's rows are ascending. Memory in bytes: 4 L (N +
// buckets).
//   begin[t][b] .. begin[t][b + 1]   the entries of bucket b, from entry[t N]
class LabelTables {
 public:
  // Builds the tables of W [rows x hash.inputs()] by counting sort, a table per task. A bucket of
  // more than `limit` rows keeps the rows with the smallest draw(row, rehash). This is the law of a
  // reservoir, without an order of insertion. limit 0: all.
  LabelTables(const LabelHash& hash, std::size_t rows, const float* W, std::uint32_t limit,
              std::uint64_t seed, std::uint32_t rehash, HostCores& cores);

  std::size_t tables() const { return begin_.size(); }
  std::span<const std::uint32_t> bucket(std::size_t table, std::uint32_t number) const {
    const std::vector<std::uint32_t>& begin = begin_[table];
    const std::uint32_t* const entry = &entry_[table * rows_];
    return {entry + begin[number], entry + begin[number + 1]};
  }
  // Prefetches the bounds of a bucket that is read soon.
  void prefetch(std::size_t table, std::uint32_t number) const {
    __builtin_prefetch(&begin_[table][number]);
  }

 private:
  // entry: of one table, the bucket of each row before it is sorted.
  static void sort(std::span<std::uint32_t> entry, std::vector<std::uint32_t>& begin,
                   std::size_t buckets);
  static void cut(std::span<std::uint32_t> entry, std::vector<std::uint32_t>& begin,
                  std::uint32_t limit, std::span<const std::uint32_t> draw);

  std::size_t rows_;
  std::vector<std::vector<std::uint32_t>> begin_;  // by table
  std::vector<std::uint32_t> entry_;               // [tables x rows]
};

enum class LabelFill { batch, sample };

struct ActiveOptions {
  std::uint32_t least = 1000;  // at most the number of labels
  bool all = false;            // no tables: every label is active
  LabelFill fill = LabelFill::batch;
};

// Counts of what the tables retrieved for one sample or for many.
struct Retrieval {
  std::uint64_t samples = 0;
  std::uint64_t probed = 0;     // entries of buckets
  std::uint64_t retrieved = 0;  // distinct labels among them
  std::uint64_t labels = 0;     // true ones
  std::uint64_t found = 0;      // of these, retrieved
  std::uint64_t blind = 0;      // queries without a positive element
  Retrieval& operator+=(const Retrieval& other);
};

// The active labels of samples: S = Y u retrieved u fill, each once. The order is: true ones,
// tables 1 .. L, fill. Scratch of one thread: a bit per label.
class ActiveLabels {
 public:
  ActiveLabels(const ActiveOptions& options, std::size_t labels, std::uint64_t seed);

  // Draws the fill list of batch t. Every sample of the batch takes the labels that it lacks from
  // the front of this list.
  void begin_batch(std::uint64_t t);
  // Appends the labels of sample `number` of the batch to `active`. truth: distinct. buckets: one
  // per table. tables: null if all labels are active.
  Retrieval append(const LabelTables* tables, std::uint32_t number,
                   std::span<const std::uint32_t> truth, std::span<const std::uint32_t> buckets,
                   std::vector<std::uint32_t>& active);

 private:
  void append_all(std::span<const std::uint32_t> truth, std::vector<std::uint32_t>& active);
  void find_buckets(const LabelTables& tables, std::span<const std::uint32_t> buckets);
  void fill_list(std::uint64_t a, std::uint32_t b);
  bool mark(std::uint32_t label);  // returns whether the label was unmarked

  ActiveOptions options_;
  std::size_t labels_;
  std::uint64_t seed_, batch_ = 0;
  std::vector<std::uint64_t> bits_;       // labels that are active already; zero between calls
  std::vector<std::uint32_t> fill_;       // labels in random order
  std::vector<std::uint32_t> retrieved_;  // to be cleared
  std::vector<std::span<const std::uint32_t>> bucket_;  // of the query, by table
};

// Hash functions and the tables that they make. Immutable.
struct LabelIndex {
  std::shared_ptr<const LabelHash> hash;
  LabelTables tables;
};

// The active labels of a batch, and the counts of what tables retrieved. The cores share its
// samples; the result does not depend on their number.
class ActiveSets {
 public:
  // `labels` labels over `inputs` inputs. The cores outlive it.
  ActiveSets(const ActiveOptions& options, std::size_t labels, std::size_t inputs,
             std::uint64_t seed, HostCores& cores);

  // Finds the active labels from A [batch x inputs], whose elements are >= 0. fill: as t of
  // ActiveLabels::begin_batch(). index: null if all labels are active.
  void find(const Batch& batch, const float* A, const LabelIndex* index, std::uint64_t fill);
  // Each sample keeps its true labels, and others up to `most` in all.
  void cut(std::size_t most);
  // By sample: its active labels; the number of true ones, which stand first; and the number of
  // labels that the tables retrieved.
  std::span<const std::vector<std::uint32_t>> active() const { return active_; }
  std::span<const std::uint32_t> truth() const { return truth_; }
  std::span<const std::uint32_t> retrieved() const { return retrieved_; }
  const Retrieval& retrieval() const { return retrieval_; }  // of the batch

 private:
  std::size_t inputs_;
  HostCores& cores_;
  std::vector<ActiveLabels> scratch_;  // by core
  std::vector<std::vector<std::uint32_t>> active_;
  std::vector<std::uint32_t> truth_, retrieved_, buckets_;  // buckets_ [batch x L]
  Retrieval retrieval_;
};

// How well the tables retrieve the best labels of samples of a test set.
struct ProbedRecall {
  static constexpr std::size_t kBest[] = {1, 5, 10};
  std::uint64_t samples = 0;
  std::uint64_t retrieved = 0;
  // retrieved ones among the labels with the k highest scores
  std::uint64_t found[std::size(kBest)] = {};
  std::uint64_t best[std::size(kBest)] = {};  // number of labels with the k highest scores

  // Counts one sample. led_to: the labels that the tables retrieved, ascending. ranked: the best
  // labels, the best first.
  void count(std::span<const std::uint32_t> led_to, std::span<const std::uint32_t> ranked);
};

}  // namespace hetsgd
