// A data set in memory: feature groups and sparse labels, as views of arrays that somebody owns.
//
// Shapes : n rows. `sparse` are the features that most rows lack and `targets` the labels, both in
//          CSR; `dense` are columns that every row has, `fields` one category per row and field,
//          `images` one image per row, `sequences` some frames per row. A group that a data set
//          lacks is empty; at least one is there.
// Order  : within a sparse row, indices ascend and do not repeat, of features as of labels.
// Size   : at least one row, one feature and one label column; at most 2^32 - 1 rows and features,
//          2^31 labels; values are finite. verify() of data/summary.hpp checks all of this.
// Binary : one label column (label_count 1): a row with label {0} is positive, without is negative.
// Ownership: the arrays lie in memory or in a mapped file, which `owner` keeps. A copy of a Dataset is
//          another view of the same arrays, which never change. A DatasetBuilder makes them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
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
  std::uint64_t frames = 0;  // of sequences
};

// Where the elements of an array lie: in a vector of its own, or wherever.
template <class T>
using Owned = std::vector<T>;
template <class T>
using View = std::span<const T>;

inline constexpr std::uint64_t kFirstBegin[] = {0};  // of no row

// Rows of entries in CSR: row r has the entries begin[r] .. begin[r + 1].
template <template <class> class Array>
struct CsrRows {
  Array<std::uint64_t> begin{std::begin(kFirstBegin), std::end(kFirstBegin)};  // rows + 1
  Array<Index> index;
  Array<float> value;  // as many as `index`; none of labels

  std::uint64_t rows() const { return begin.size() - 1; }
  std::span<const Index> indices(std::uint64_t row) const {
    return {index.data() + begin[row], index.data() + begin[row + 1]};
  }
  std::span<const float> values(std::uint64_t row) const {
    return {value.data() + begin[row], value.data() + begin[row + 1]};
  }
};

// [rows x columns] numbers.
template <template <class> class Array>
struct DenseColumns {
  Index columns = 0;
  Array<float> value;

  std::span<const float> row(std::uint64_t row) const {
    return {value.data() + row * columns, columns};
  }
};

// [rows x count()] categories. Those of field f are the numbers first[f] .. first[f + 1], so that each
// is a row of one table for all fields (data/vocabulary.hpp says which category a value gets).
template <template <class> class Array>
struct CategoricalFields {
  Array<Index> first;  // count() + 1; empty: there are no fields
  Array<Index> category;
  // The vocabulary, [first.back()]: the 32 bits that the source writes for a category. Empty: values
  // were hashed.
  Array<std::uint32_t> value{};

  std::size_t count() const { return first.empty() ? 0 : first.size() - 1; }
  std::span<const Index> row(std::uint64_t row) const {
    return {category.data() + row * count(), count()};
  }
  // What stands for category `number` of field `field` in (seed, field, value), of which its initial
  // embedding is made: the source's 32 bits; 0 of a missing, 1 of a rare value; hashed: the number
  // within the field.
  std::uint32_t value_of(std::size_t field, Index number) const {
    return value.empty() ? number - first[field] : value[number];
  }
};

struct ImageShape {
  Index channels = 0, height = 0, width = 0;

  std::size_t size() const { return std::size_t{channels} * height * width; }
  bool operator==(const ImageShape&) const = default;
};

// [rows x channels x height x width] bytes. A model reads (pixel - mean) / deviation, which
// copy_images() of data/images.hpp makes of a batch.
template <template <class> class Array>
struct Images {
  Index channels = 0, height = 0, width = 0;
  Array<std::uint8_t> pixel;
  Array<float> mean, deviation;  // [channels] of the training rows' bytes; deviations are positive

  ImageShape shape() const { return {channels, height, width}; }
  std::size_t size() const { return shape().size(); }
  std::span<const std::uint8_t> row(std::uint64_t row) const {
    return {pixel.data() + row * size(), size()};
  }
};

// Makes the frames of a row each time that somebody reads it, for data that no memory holds.
// Thread-safe; always the same numbers.
class FrameSource {
 public:
  virtual ~FrameSource() = default;
  // to <- the row's frames, as Sequences::value has them.
  virtual void draw(std::uint64_t row, std::span<float> to) const = 0;
};

// Rows of frames, each of `numbers` numbers: row r has the frames begin[r] .. begin[r + 1], at
// least one. So rows differ in length, as videos do; sequences of one length may also be images
// [numbers, T, 1]. frames_of() of data/sequences.hpp reads them, wherever they come from.
template <template <class> class Array>
struct Sequences {
  Index numbers = 0;           // of a frame; 0: the data have no sequences
  Array<std::uint64_t> begin;  // rows + 1; empty: the data have no sequences
  Array<float> value;          // [frames x numbers]; empty: Dataset::drawn makes them

  std::uint64_t frames() const { return begin.empty() ? 0 : begin.back(); }
  std::uint64_t length(std::uint64_t row) const { return begin[row + 1] - begin[row]; }
  // Of frames that are in memory.
  std::span<const float> row(std::uint64_t row) const {
    return {value.data() + begin[row] * numbers, length(row) * numbers};
  }
};

template <template <class> class Array>
struct DataArrays {
  CsrRows<Array> sparse;
  DenseColumns<Array> dense;
  CategoricalFields<Array> fields;
  Images<Array> images;
  Sequences<Array> sequences;
  CsrRows<Array> targets;

  std::uint64_t rows() const { return targets.rows(); }
  std::uint64_t nonzeros() const { return sparse.index.size(); }
  // Of data with sparse features.
  std::span<const Index> features(std::uint64_t row) const { return sparse.indices(row); }
  std::span<const float> values(std::uint64_t row) const { return sparse.values(row); }
  std::span<const Index> labels(std::uint64_t row) const { return targets.indices(row); }
  // Of data with sequences: the row's frames.
  std::uint64_t length(std::uint64_t row) const { return sequences.length(row); }
};

// What a data set says of itself.
struct DatasetHeader {
  std::string name;  // file name, or the generator's preset
  // XXH3-64 of the source file's bytes (or of the generator's options).
  std::uint64_t content_hash = 0;
  Task task = Task::multilabel;
  Index feature_count = 0;  // columns of the sparse features
  Index label_count = 0;
  // Where these rows are one worker's shard (data/select.hpp): the data set that it is of.
  std::optional<DatasetTotals> whole;
};

struct Dataset : DatasetHeader, DataArrays<View> {
  std::shared_ptr<const void> owner;         // of what the views show
  std::shared_ptr<const FrameSource> drawn;  // of sequences whose frames are not in memory

  // Of the whole data set, also where this is a shard of it.
  DatasetTotals totals() const {
    return whole.value_or(
        DatasetTotals{rows(), nonzeros(), targets.index.size(), sequences.frames()});
  }
};

using DatasetPtr = std::shared_ptr<const Dataset>;

// A data set on its way: header and arrays grow here by value.
struct DatasetBuilder : DatasetHeader, DataArrays<Owned> {
  std::shared_ptr<const FrameSource> drawn;
  // The data set that owns the arrays from now on, as it is: verify() tells what is wrong with it.
  Dataset build() &&;
  DatasetPtr share() && { return std::make_shared<const Dataset>(std::move(*this).build()); }
};

// The same arrays as views.
inline CsrRows<View> view_of(const CsrRows<Owned>& rows) {
  return {rows.begin, rows.index, rows.value};
}
inline CategoricalFields<View> view_of(const CategoricalFields<Owned>& fields) {
  return {fields.first, fields.category, fields.value};
}
inline Images<View> view_of(const Images<Owned>& images) {
  return {images.channels, images.height, images.width,
          images.pixel,    images.mean,   images.deviation};
}

// Keeps `owned` for as long as somebody has a view of `data`, beside what is kept already.
template <class T>
const T& keep(Dataset& data, T owned) {
  using Both = std::pair<std::shared_ptr<const void>, T>;
  const auto both = std::make_shared<const Both>(data.owner, std::move(owned));
  data.owner = both;
  return both->second;
}

// Replaces the labels of `data`; what other views show stays as it is.
inline void set_targets(Dataset& data, CsrRows<Owned> targets) {
  data.targets = view_of(keep(data, std::move(targets)));
}

}  // namespace hetsgd
