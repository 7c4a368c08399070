// Labels that hash tables over the output layer lead to (SLIDE): their options, and the softmax over
// them for a model that is trained by whichever algorithm.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/options.hpp"
#include "model/labels/label_tables.hpp"
#include "model/labels/sampled_softmax.hpp"

namespace hetsgd {

// How labels are hashed, and when the tables are made anew.
struct HashedLabels {
  HashOptions hash = {};
  std::optional<int> bin = {};   // none: hash.bin, or the inputs of the output layer if fewer
  std::uint32_t bucket = 128;    // rows of a bucket; 0: no limit
  double rehash = 50;            // N0: batches from one rehash to the next
  std::uint32_t rebuild = 1000;  // batches after which a rehash takes new functions

  void declare(OptionSet& set);
  // Errors: usage, too many buckets.
  void validate() const;
  // hash, for an output layer of so many inputs. Errors: usage, too few for a bin.
  HashOptions hash_of(std::size_t inputs) const;

  // What it costs to hash so many queries, or to make tables of so many rows, of `inputs` numbers.
  Work query_work(double queries, double inputs) const;
  Work table_work(double rows, double inputs) const;
};

// When tables are made anew, by the number of batches that have been learnt.
class RehashSchedule {
 public:
  struct Rehash {
    std::uint32_t number = 0;      // 0, 1, ...
    std::uint32_t generation = 0;  // of its functions
    bool rebuilt = false;          // they are new
  };
  explicit RehashSchedule(const HashedLabels& options) : options_(options) {}
  // The rehash that is due, which the caller must make: the first one at once.
  std::optional<Rehash> begin(std::uint64_t batches);

 private:
  const HashedLabels options_;
  double next_ = 0;
  Rehash last_;
};

// The softmax over a sample's true labels, the labels that hash tables lead to, and random others,
// cut at `least` of them or at the true ones if these are more.
//
//   every `rehash` batches:  W ─> codes of each label's row ─> tables
//   every batch:             A ─> codes of each sample ─> buckets ─> its active labels
//
// One object belongs to one worker: its tables are of the weights that this worker learns with, and
// age with the batches that it learns. Random numbers come from the rows of a batch, so that equal
// batches of equal models have equal labels, on any number of cores.
template <class Real>
class BasicHashedSoftmax {
 public:
  // Of so many labels over so many inputs. The cores outlive it. Errors: as hash_of().
  BasicHashedSoftmax(const HashedLabels& options, std::size_t labels, std::size_t inputs,
                     std::size_t least, HostCores& cores);

  // Chooses for a batch that has begun, from A [batch x inputs], numbers >= 0, and W [labels x
  // inputs].
  BasicSampledSoftmax<Real>& choose(const Batch& batch, const Real* A, const Real* W);
  // The labels of all samples, ascending, if this batch was the last to be chosen for.
  std::optional<std::span<const std::uint32_t>> labels_of(const Batch& batch) const;

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
