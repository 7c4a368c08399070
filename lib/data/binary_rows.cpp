// Reading some rows of a file in the binary form.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "core/error.hpp"
#include "data/binary_format.hpp"
#include "data/sequences.hpp"

namespace hetsgd {

namespace {

// One column of the file, of which parts are read in file order. Parts that lie close together are
// read with one system call.
template <class T>
class Column {
 public:
  Column(const ByteSource& file, std::uint64_t place, std::uint64_t count)
      : file_(file), place_(place), bytes_(count * sizeof(T)) {}

  void copy(std::uint64_t begin, std::uint64_t end, T* to) {
    if (end == begin) return;
    const std::uint64_t first = begin * sizeof(T), size = (end - begin) * sizeof(T);
    if (first < window_begin_ || first + size > window_begin_ + window_.size()) {
      window_begin_ = first;
      window_.resize(std::min(bytes_ - first, std::max(size, kWindow)));
      file_.read(place_ + first, window_);
    }
    std::memcpy(to, window_.data() + (first - window_begin_), size);
  }

 private:
  static constexpr std::uint64_t kWindow = std::uint64_t{1} << 16;

  const ByteSource& file_;
  std::uint64_t place_, bytes_;  // offset in the file; size of the column
  std::uint64_t window_begin_ = 0;
  std::vector<char> window_;
};

// Reads pieces of the file, with their padding, and sums what was read.
class SummedPieces {
 public:
  explicit SummedPieces(const ByteSource& file) : file_(file) {}

  template <class T>
  std::vector<T> read(std::uint64_t place, std::uint64_t count) {
    std::vector<T> values(count);
    read(place, {reinterpret_cast<char*>(values.data()), count * sizeof(T)});
    std::array<char, kBinaryAlignment> pad{};
    const std::uint64_t size = count * sizeof(T);
    read(place + size, std::span(pad).first(padding(size)));
    return values;
  }
  std::uint64_t sum() const { return sum_.value(); }

 private:
  void read(std::uint64_t place, std::span<char> to) {
    file_.read(place, to);
    sum_.add({to.data(), to.size()});
  }

  const ByteSource& file_;
  RunningHash sum_;
};

// The parts of a file that are read if only some rows are wanted: the head, and the columns by
// place.
struct FileRows {
  // Error(data) if the head is damaged.
  FileRows(const ByteSource& file, const BinaryHeader& header, const PayloadLayout& layout,
           const std::string& path)
      : places(layout),
        label_index(file, places.label_index, header.labels),
        feature_index(file, places.feature_index, header.features),
        feature_value(file, places.feature_value, header.features),
        category(file, places.category, header.rows * header.columns.fields),
        dense(file, places.dense, header.rows * header.columns.dense_columns),
        pixel(file, places.pixel, header.rows * header.images.size()),
        tokens(header.tokens.tokens),
        token(file, places.token, tokens) {
    SummedPieces head(file);
    if (header.has_sparse()) {
      feature_begin = head.read<std::uint64_t>(places.feature_begin, header.rows + 1);
    }
    label_begin = head.read<std::uint64_t>(places.label_begin, header.rows + 1);
    row_sums = head.read<std::uint32_t>(places.row_sums, header.rows);
    if (header.columns.fields > 0) {
      field_first = head.read<Index>(places.field_first, header.columns.fields + 1);
      vocabulary = head.read<std::uint32_t>(places.vocabulary, header.columns.vocabulary);
    }
    if (header.tokens.any()) {
      token_begin = head.read<std::uint64_t>(places.token_begin, header.rows);
      token_length = head.read<std::uint32_t>(places.token_length, header.rows);
      token_bytes = head.read<std::uint32_t>(places.token_bytes, header.rows);
    }
    check_sum(head.sum(), header.head_hash, "head", path);
  }

  std::uint64_t rows() const { return row_sums.size(); }

  PayloadLayout places;
  std::vector<std::uint64_t> feature_begin, label_begin;  // no feature_begin: no sparse features
  std::vector<std::uint32_t> row_sums, vocabulary;
  std::vector<Index> field_first;
  Column<Index> label_index, feature_index;
  Column<float> feature_value;
  Column<Index> category;
  Column<float> dense;
  Column<std::uint8_t> pixel;
  std::vector<std::uint64_t> token_begin;
  std::vector<std::uint32_t> token_length, token_bytes;
  std::uint64_t tokens;  // of the text
  Column<std::uint16_t> token;
};

void check_starts(const std::vector<std::uint64_t>& begin, std::uint64_t entries, const char* what,
                  const std::string& path) {
  if (begin.front() == 0 && begin.back() == entries && std::ranges::is_sorted(begin)) return;
  throw data_error("{}: not a valid data set: the rows' {} do not cover the {} entries", path, what,
                   entries);
}

// Copies the sparse features of row `row` of the file to place `i`.
void copy_features(FileRows& file, std::uint64_t row, std::size_t i, DatasetBuilder& data) {
  if (file.feature_begin.empty()) return;
  const std::uint64_t first = file.feature_begin[row], last = file.feature_begin[row + 1];
  file.feature_index.copy(first, last, data.sparse.index.data() + data.sparse.begin[i]);
  file.feature_value.copy(first, last, data.sparse.value.data() + data.sparse.begin[i]);
}

// copy_features() for a group that has `width` entries in every row.
template <class T>
void copy_columns(Column<T>& column, std::size_t width, std::uint64_t row, std::size_t i,
                  std::vector<T>& to) {
  column.copy(row * width, (row + 1) * width, to.data() + i * width);
}

// Makes room for the tokens that the rows can show, and says where each row begins.
void place_tokens(const FileRows& file, std::span<const Index> rows, TokenRows<Owned>& to,
                  const std::string& path) {
  if (file.token_begin.empty()) return;
  for (const Index row : rows) {
    const std::uint64_t taken = std::uint64_t{file.token_length[row]} + 1;
    if (file.token_begin[row] > file.tokens || taken > file.tokens - file.token_begin[row]) {
      throw data_error("{}: not a valid data set: row {} reaches beyond the text", path,
                       std::uint64_t{row} + 1);
    }
  }
  hetsgd::place_tokens({.room = to.room,
                        .token = {},
                        .begin = file.token_begin,
                        .length = file.token_length,
                        .bytes = file.token_bytes},
                       file.tokens, rows, to);
}

// Copies the tokens of row `row` of the file to place `i`.
void copy_tokens(FileRows& file, std::uint64_t row, std::size_t i, TokenRows<Owned>& to) {
  if (file.token_begin.empty()) return;
  const std::uint64_t first = file.token_begin[row];
  const std::uint64_t end = std::min(first + to.length[i] + 1 + to.room, file.tokens);
  file.token.copy(first, end, to.token.data() + to.begin[i]);
}

// Makes room for the rows and says where each begins.
void place_rows(const FileRows& file, std::span<const Index> rows, DatasetBuilder& data) {
  for (const Index row : rows) {
    HETSGD_CHECK_LT(row, file.rows());
    if (!file.feature_begin.empty()) {
      data.sparse.begin.push_back(data.sparse.begin.back() + file.feature_begin[row + 1] -
                                  file.feature_begin[row]);
    }
    data.targets.begin.push_back(data.targets.begin.back() + file.label_begin[row + 1] -
                                 file.label_begin[row]);
  }
  data.sparse.index.resize(data.sparse.begin.back());
  data.sparse.value.resize(data.sparse.begin.back());
  data.targets.index.resize(data.targets.begin.back());
  data.fields.category.resize(rows.size() * data.fields.count());
  data.dense.value.resize(rows.size() * data.dense.columns);
  data.images.pixel.resize(rows.size() * data.images.size());
}

// Copies the rows and checks their sums, in file order, which is fast for disks and pages.
Dataset copy_rows(FileRows& file, std::span<const Index> rows, DatasetBuilder&& data,
                  const std::string& path) {
  place_rows(file, rows, data);
  place_tokens(file, rows, data.tokens, path);
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return rows[i]; });
  for (const std::size_t i : order) {
    const std::uint64_t row = rows[i];
    copy_features(file, row, i, data);
    copy_columns(file.category, data.fields.count(), row, i, data.fields.category);
    copy_columns(file.dense, data.dense.columns, row, i, data.dense.value);
    copy_columns(file.pixel, data.images.size(), row, i, data.images.pixel);
    copy_tokens(file, row, i, data.tokens);
    file.label_index.copy(file.label_begin[row], file.label_begin[row + 1],
                          data.targets.index.data() + data.targets.begin[i]);
  }
  Dataset result = std::move(data).build();
  for (const std::size_t i : order) {
    const std::uint32_t found = row_sum(result, i), expected = file.row_sums[rows[i]];
    if (found == expected) continue;
    throw data_error("{}: the checksum of row {} is wrong: found {:08x}, expected {:08x}", path,
                     std::uint64_t{rows[i]} + 1, found, expected);
  }
  return result;
}

// The data set in the form that RowChoice::rows gets.
Dataset read_outline(const ByteSource& source, const FileRows& file, const DatasetHeader& about,
                     bool needs_labels, const std::string& path, const BinaryHeader& header) {
  DatasetBuilder outline;
  static_cast<DatasetHeader&>(outline) = about;
  outline.sparse.begin.assign(file.rows() + 1, 0);
  outline.targets.begin = outline.sparse.begin;
  if (needs_labels) {
    SummedPieces labels(source);
    outline.targets.index = labels.read<Index>(file.places.label_index, header.labels);
    check_sum(labels.sum(), header.label_hash, "labels", path);
    outline.targets.begin = file.label_begin;
  }
  // Only for the check, which requires at least one feature, and tokens for their task.
  outline.feature_count = std::max<Index>(about.feature_count, 1);
  if (about.task == Task::tokens) outline.task = Task::multilabel;
  Dataset result = std::move(outline).build();
  require_valid(result, path);
  result.feature_count = about.feature_count;
  result.task = about.task;
  return result;
}

}  // namespace

DecodedBinary decode_binary_rows(const ByteSource& source, const std::string& path,
                                 const RowChoice& choice) {
  const auto [header, places] = read_header(source, path);
  FileRows file(source, header, places, path);
  DecodedBinary result = read_description(header, path);
  if (header.has_sparse()) check_starts(file.feature_begin, header.features, "features", path);
  check_starts(file.label_begin, header.labels, "labels", path);

  DatasetBuilder rows;
  static_cast<DatasetHeader&>(rows) = result.parsed.data;
  rows.whole = {
      .rows = header.rows,
      .nonzeros = header.features,
      .labels = header.labels,
      .frames =
          std::accumulate(file.token_length.begin(), file.token_length.end(), std::uint64_t{0}),
      .bytes = std::accumulate(file.token_bytes.begin(), file.token_bytes.end(), std::uint64_t{0})};
  rows.tokens.vocabulary = static_cast<Index>(header.tokens.vocabulary);
  rows.tokens.room = static_cast<Index>(header.tokens.room);
  const std::vector<Index> chosen = choice.rows(
      read_outline(source, file, result.parsed.data, choice.needs_labels, path, header));
  rows.fields.first = file.field_first;
  rows.fields.value = file.vocabulary;
  rows.dense.columns = static_cast<Index>(header.columns.dense_columns);
  rows.images = images_without_pixels(header.images);
  result.parsed.data = copy_rows(file, chosen, std::move(rows), path);
  require_valid(result.parsed.data, path);
  return result;
}

}  // namespace hetsgd
