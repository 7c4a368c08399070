// A data set in memory: feature groups and sparse labels, as views of arrays.
//
// Shapes : n rows. `sparse` are the features that most rows lack and `targets` the labels, both in
//          CSR; `dense` are columns that every row has, `fields` one category per row and field,
//          `images` one image per row, `sequences` some frames per row, `tokens` a stretch of a
//          text per row. At least one group is there; a group that a data set lacks is empty.
// Order  : within a sparse row, the indices of features and of labels ascend and do not repeat.
// Size   : at least one row, one feature and one label column; at most 2^32 - 1 rows and features,
//          2^31 labels; values are finite. verify() of data/summary.hpp checks all of this.
// Tokens : the targets of a row are tokens of the text, so `targets` has no labels there, and
//          label_count is the number of kinds of tokens.
// Binary : one label column (label_count 1): a row with label {0} is positive, without is negative.
// Ownership: the arrays lie in memory or in a mapped file, which `owner` keeps alive. A copy of a
//          Dataset is another view of the same arrays, which never change. A DatasetBuilder makes
//          them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
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
  tokens,      // softmax over the kinds of tokens, one target per position of a row
};

// The size of a data set.
struct DatasetTotals {
  std::uint64_t rows = 0;
  std::uint64_t nonzeros = 0;
  std::uint64_t labels = 0;  // entries
  std::uint64_t frames = 0;  // of sequences; inputs of rows of tokens
  std::uint64_t bytes = 0;   // of text that the targets of rows of tokens cover
  bool equal_tokens = true;  // all rows of tokens have equally many
};

// Storage of an array: a vector that owns the elements, or a view of elements that lie elsewhere.
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
  Array<float> value;  // as many as `index`; empty for labels

  std::uint64_t rows() const { return begin.size() - 1; }
  std::span<const Index> indices(std::uint64_t row) const {
    return {index.data() + begin[row], index.data() + begin[row + 1]};
  }
  std::span<const float> values(std::uint64_t row) const {
    return {value.data() + begin[row], value.data() + begin[row + 1]};
  }
};

// [rows x columns] elements.
template <template <class> class Array>
struct DenseColumns {
  Index columns = 0;
  Array<float> value;

  std::span<const float> row(std::uint64_t row) const {
    return {value.data() + row * columns, columns};
  }
};

// [rows x count()] categories. Field f has the numbers first[f] .. first[f + 1], so that each is a
// row of one table for all fields (data/vocabulary.hpp says which category a value gets).
template <template <class> class Array>
struct CategoricalFields {
  Array<Index> first;  // count() + 1; empty: there are no fields
  Array<Index> category;
  // The vocabulary, [first.back()]: the 32-bit value in the source for each category. Empty if
  // values were hashed.
  Array<std::uint32_t> value{};

  std::size_t count() const { return first.empty() ? 0 : first.size() - 1; }
  std::span<const Index> row(std::uint64_t row) const {
    return {category.data() + row * count(), count()};
  }
  // The value of category `number` of field `field`: (seed, field, value) determines its initial
  // embedding. It is the source's 32 bits, 0 for a missing value, 1 for a rare one. If values were
  // hashed, it is the number within the field.
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
// copy_images() of data/images.hpp computes for a batch.
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

// Makes the frames of a row each time they are read, for data that do not fit in memory.
// Thread-safe; a row always gets the same frames.
class FrameSource {
 public:
  virtual ~FrameSource() = default;
  // to <- the row's frames, in the layout of Sequences::value.
  virtual void draw(std::uint64_t row, std::span<float> to) const = 0;
};

// Rows of frames, each of `numbers` elements: row r has the frames begin[r] .. begin[r + 1], at
// least one. So rows differ in length, as videos do; sequences of equal length may also be images
// [numbers, T, 1]. frames_of() of data/sequences.hpp reads frames from memory and from a
// FrameSource.
template <template <class> class Array>
struct Sequences {
  Index numbers = 0;           // elements of a frame; 0: the data have no sequences
  Array<std::uint64_t> begin;  // rows + 1; empty: the data have no sequences
  Array<float> value;          // [frames x numbers]; empty: Dataset::drawn makes them

  std::uint64_t frames() const { return begin.empty() ? 0 : begin.back(); }
  std::uint64_t length(std::uint64_t row) const { return begin[row + 1] - begin[row]; }
  // The frames of a row; only if frames are in memory.
  std::span<const float> row(std::uint64_t row) const {
    return {value.data() + begin[row] * numbers, length(row) * numbers};
  }
};

inline constexpr std::size_t kMostTokenKinds = std::size_t{1} << 16;  // a number has 16 bits

// Rows of tokens, the numbers of characters, bytes or words of a text. A row is a stretch of the
// text: length[r] inputs from begin[r] on. Position t of a row predicts the token behind it, so
// that the place begin + length is in the text as well. Rows may share tokens. The names of the
// tokens are LoadReport::label_names. tokens_of() of data/sequences.hpp reads the rows of a batch.
template <template <class> class Array>
struct TokenRows {
  Index vocabulary = 0;         // kinds of tokens, at most kMostTokenKinds; 0: there are no tokens
  Index room = 0;               // each row can begin so many places later, as far as the text goes
  Array<std::uint16_t> token;   // the text
  Array<std::uint64_t> begin;   // [rows] the place of a row's first input in `token`
  Array<std::uint32_t> length;  // [rows] inputs, at least 1
  Array<std::uint32_t> bytes;   // [rows] bytes of text that the row's targets cover; 0: no text

  std::uint64_t rows() const { return begin.size(); }
  // All tokens that a row can show: its inputs, its last target and its room.
  std::span<const std::uint16_t> reach(std::uint64_t row) const {
    const std::size_t fixed = std::size_t{length[row]} + 1;
    return {token.data() + begin[row],
            fixed + std::min<std::size_t>(room, token.size() - begin[row] - fixed)};
  }
};

// All arrays of a data set, owned or as views. All groups that are there have equally many rows.
template <template <class> class Array>
struct DataArrays {
  CsrRows<Array> sparse;
  DenseColumns<Array> dense;
  CategoricalFields<Array> fields;
  Images<Array> images;
  Sequences<Array> sequences;
  TokenRows<Array> tokens;
  CsrRows<Array> targets;

  std::uint64_t rows() const { return targets.rows(); }
  std::uint64_t nonzeros() const { return sparse.index.size(); }
  // The sparse features of a row; only for data that have some.
  std::span<const Index> features(std::uint64_t row) const { return sparse.indices(row); }
  std::span<const float> values(std::uint64_t row) const { return sparse.values(row); }
  std::span<const Index> labels(std::uint64_t row) const { return targets.indices(row); }
  // Whether rows have a length of their own: frames of sequences, or tokens.
  bool has_lengths() const { return sequences.numbers > 0 || tokens.vocabulary > 0; }
  // The number of frames or of input tokens of a row; only for data with lengths.
  std::uint64_t length(std::uint64_t row) const {
    return tokens.vocabulary > 0 ? tokens.length[row] : sequences.length(row);
  }
  // The sum of all lengths; 0 for data without.
  std::uint64_t frames() const {
    return std::accumulate(tokens.length.begin(), tokens.length.end(), sequences.frames());
  }
  std::uint64_t bytes() const {
    return std::accumulate(tokens.bytes.begin(), tokens.bytes.end(), std::uint64_t{0});
  }
  bool equal_tokens() const {
    return std::ranges::adjacent_find(tokens.length, std::not_equal_to{}) == tokens.length.end();
  }
};

// The description of a data set.
struct DatasetHeader {
  std::string name;  // file name, or the generator's preset
  // XXH3-64 of the source file's bytes (or of the generator's options).
  std::uint64_t content_hash = 0;
  Task task = Task::multilabel;
  Index feature_count = 0;  // columns of the sparse features
  Index label_count = 0;
  // The size of the whole data set, if these rows are one worker's shard of it (data/select.hpp).
  std::optional<DatasetTotals> whole;
};

// A data set that can be read; copies share its arrays.
struct Dataset : DatasetHeader, DataArrays<View> {
  std::shared_ptr<const void> owner;         // keeps the arrays behind the views alive
  std::shared_ptr<const FrameSource> drawn;  // makes frames of sequences that are not in memory

  // The size of the whole data set, also for a shard of it.
  DatasetTotals totals() const {
    return whole.value_or(
        DatasetTotals{rows(), nonzeros(), targets.index.size(), frames(), bytes(), equal_tokens()});
  }
};

using DatasetPtr = std::shared_ptr<const Dataset>;

// Views of owned arrays.
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
inline TokenRows<View> view_of(const TokenRows<Owned>& tokens) {
  return {tokens.vocabulary, tokens.room, tokens.token, tokens.begin, tokens.length, tokens.bytes};
}

// Keeps `owned` alive as long as a view of `data` exists, beside what is kept already.
template <class T>
const T& keep(Dataset& data, T owned) {
  using Both = std::pair<std::shared_ptr<const void>, T>;
  const auto both = std::make_shared<const Both>(data.owner, std::move(owned));
  data.owner = both;
  return both->second;
}

// Replaces the labels of `data`. Other views keep the old ones.
inline void set_targets(Dataset& data, CsrRows<Owned> targets) {
  data.targets = view_of(keep(data, std::move(targets)));
}

// A data set under construction: its header and arrays grow here by value.
struct DatasetBuilder : DatasetHeader, DataArrays<Owned> {
  std::shared_ptr<const FrameSource> drawn;
  // The finished data set, which owns the arrays. It is not checked; verify() finds what is wrong.
  Dataset build() && {
    const auto arrays = std::make_shared<const DataArrays<Owned>>(std::move(*this));
    Dataset data;
    static_cast<DatasetHeader&>(data) = std::move(*this);
    data.sparse = view_of(arrays->sparse);
    data.dense = {arrays->dense.columns, arrays->dense.value};
    data.fields = view_of(arrays->fields);
    data.images = view_of(arrays->images);
    data.sequences = {arrays->sequences.numbers, arrays->sequences.begin, arrays->sequences.value};
    data.tokens = view_of(arrays->tokens);
    data.targets = view_of(arrays->targets);
    data.owner = arrays;
    data.drawn = std::move(drawn);
    return data;
  }
  DatasetPtr share() && { return std::make_shared<const Dataset>(std::move(*this).build()); }
};

}  // namespace hetsgd
