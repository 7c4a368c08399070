// A data set in memory: sparse features and sparse labels, both in CSR.
//
// Shapes : rows n; row r has features feature_index[feature_begin[r] .. feature_begin[r+1]) with
// the
//          values at the same places, and labels label_index[label_begin[r] .. label_begin[r+1]).
// Order  : within a row, feature indices ascend and do not repeat; label indices ascend and do not
// repeat. Size   : at least one row, one feature and one label column; at most 2^32 - 1 rows and
// features, 2^31 labels;
//          values are finite. verify() of data/summary.hpp checks all of this.
// Binary : one label column (label_count 1): a row with label {0} is positive, without is negative.
// Ownership: immutable after construction; shared between all workers as std::shared_ptr<const
// Dataset>.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hetsgd {

using Index = std::uint32_t;

enum class Task {
  multilabel,  // softmax over labels, target 1/|Y| on each true label; P@k
  multiclass,  // as multilabel, one label per row; accuracy = P@1
  binary,      // one logit, sigmoid; accuracy
};

// How large a data set is.
struct DatasetTotals {
  std::uint64_t rows = 0;
  std::uint64_t nonzeros = 0;
  std::uint64_t labels = 0;  // entries
};

struct Dataset {
  std::string name;  // file name, or the generator's preset
  std::uint64_t content_hash =
      0;  // XXH3-64 of the source file's bytes (or of the generator's options)
  Task task = Task::multilabel;
  Index feature_count = 0;
  Index label_count = 0;

  std::vector<std::uint64_t> feature_begin{0};  // rows() + 1
  std::vector<Index> feature_index;
  std::vector<float> feature_value;
  std::vector<std::uint64_t> label_begin{0};  // rows() + 1
  std::vector<Index> label_index;

  // Where these rows are one worker's shard (data/select.hpp): the data set that it is of.
  std::optional<DatasetTotals> whole;

  std::uint64_t rows() const { return feature_begin.size() - 1; }
  std::uint64_t nonzeros() const { return feature_index.size(); }
  // Of the whole data set, also where this is a shard of it.
  DatasetTotals totals() const {
    return whole.value_or(DatasetTotals{rows(), nonzeros(), label_index.size()});
  }
  std::span<const Index> features(std::uint64_t row) const {
    return {feature_index.data() + feature_begin[row],
            feature_index.data() + feature_begin[row + 1]};
  }
  std::span<const float> values(std::uint64_t row) const {
    return {feature_value.data() + feature_begin[row],
            feature_value.data() + feature_begin[row + 1]};
  }
  std::span<const Index> labels(std::uint64_t row) const {
    return {label_index.data() + label_begin[row], label_index.data() + label_begin[row + 1]};
  }
};

using DatasetPtr = std::shared_ptr<const Dataset>;

}  // namespace hetsgd
