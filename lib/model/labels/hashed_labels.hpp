// Hash tables over the output layer choose the labels of a softmax (SLIDE): their options, and that
// softmax for a model that any algorithm may train.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/archive.hpp"
#include "core/options.hpp"
#include "model/labels/label_tables.hpp"
#include "model/labels/sampled_softmax.hpp"

namespace hetsgd {

// How labels are hashed, and when the tables are rebuilt.
struct HashedLabels {
  HashOptions hash = {};
  std::optional<int> bin = {};   // none: hash.bin, or the inputs of the output layer if fewer
  std::uint32_t bucket = 128;    // rows of a bucket; 0: no limit
  double rehash = 50;            // N0: batches from one rehash to the next
  std::uint32_t rebuild = 1000;  // batches until a rehash takes new functions

  void declare(OptionSet& set);
  // Throws Error(usage) for too many buckets.
  void validate() const;
  // hash, for an output layer of this many inputs. Throws Error(usage) if there are too few inputs
  // for a bin.
  HashOptions hash_of(std::size_t inputs) const;

  // Cost of hashing this many queries, or of building tables of this many rows, each of `inputs`
  // elements.
  Work query_work(double queries, double inputs) const;
  Work table_work(double rows, double inputs) const;
};

// Says when tables are rebuilt, from the number of batches that have been learnt.
class RehashSchedule {
 public:
  struct Rehash {
    std::uint32_t number = 0;      // 0, 1, ...
    std::uint32_t generation = 0;  // generation of its hash functions
    bool rebuilt = false;          // whether the functions are new
  };
  explicit RehashSchedule(const HashedLabels& options) : options_(options) {}
  // The rehash that is due, which the caller must carry out. The first call always returns one.
  std::optional<Rehash> begin(std::uint64_t batches);
  // Tables and functions are not saved. When the schedule is loaded, a rehash with new functions is
  // due beside those of the schedule.
  void fields(Archive& fields);

 private:
  const HashedLabels options_;
  double next_ = 0;
  Rehash last_;
  bool renew_ = false;
};

// The softmax over a sample's true labels, the labels that its hash buckets hold, and random
// others. It runs over `least` of them, or over the true ones if these are more.
//
//   every `rehash` batches:  W ─> codes of each label's row ─> tables
//   every batch:             A ─> codes of each sample ─> buckets ─> its active labels
//
// One object belongs to one worker. Its tables hash the weights that this worker learns with, and
// they age with the batches that it learns. Random numbers come from the rows of a batch, so that
// equal batches of equal models have equal labels, on any number of cores.
template <class Real>
class BasicHashedSoftmax {
 public:
  // `labels` labels over `inputs` inputs. The cores outlive it. Throws what hash_of() throws.
  BasicHashedSoftmax(const HashedLabels& options, std::size_t labels, std::size_t inputs,
                     std::size_t least, HostCores& cores);

  // Chooses labels and begins the batch. A [batch x inputs] has elements >= 0, W is [labels x
  // inputs].
  BasicSampledSoftmax<Real>& choose(const Batch& batch, const Real* A, const Real* W);
  // The labels of all samples, ascending, if choose() was last called for this batch.
  std::optional<std::span<const std::uint32_t>> labels_of(const Batch& batch) const;
  void fields(Archive& fields);

 private:
  const HashedLabels options_;
  std::size_t labels_, inputs_, least_;
  HostCores& cores_;
  BasicSampledSoftmax<Real> softmax_;
  ActiveSets active_;
  RehashSchedule schedule_;
  std::uint64_t batches_ = 0;
  std::optional<LabelIndex> index_;
  BatchRows last_;
};

}  // namespace hetsgd
