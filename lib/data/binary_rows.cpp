// Reading some rows of a file in the binary form.
#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "data/binary_format.hpp"

namespace hetsgd {

namespace {

// Numbers of the file where they lie, aligned or not.
template <class T>
class Column {
 public:
  explicit Column(std::string_view bytes) : bytes_(bytes) {}

  T operator[](std::uint64_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof value);
    return value;
  }
  void copy(std::uint64_t begin, std::uint64_t end, T* to) const {
    if (end > begin) std::memcpy(to, bytes_.data() + begin * sizeof(T), (end - begin) * sizeof(T));
  }
  std::uint64_t size() const { return bytes_.size() / sizeof(T); }

 private:
  std::string_view bytes_;
};

// The payload of a file of which only some rows are read.
struct FileRows {
  FileRows(const BinaryHeader& header, PayloadReader& reader)
      : feature_begin(reader.take((header.rows + 1) * 8)),
        label_begin(reader.take((header.rows + 1) * 8)),
        row_sums(reader.take(header.rows * 4)),
        label_index(reader.take(header.labels * 4)),
        feature_index(reader.take(header.features * 4)),
        feature_value(reader.take(header.features * 4)) {}

  std::uint64_t rows() const { return row_sums.size(); }

  Column<std::uint64_t> feature_begin, label_begin;
  Column<std::uint32_t> row_sums;
  Column<Index> label_index, feature_index;
  Column<float> feature_value;
};

void check_starts(const Column<std::uint64_t>& begin, std::uint64_t entries, const char* what,
                  const std::string& path) {
  bool tile = begin[0] == 0 && begin[begin.size() - 1] == entries;
  for (std::uint64_t row = 0; tile && row + 1 < begin.size(); ++row) {
    tile = begin[row] <= begin[row + 1];
  }
  if (!tile) {
    throw data_error("{}: not a valid data set: the rows' {} do not tile the {} entries", path,
                     what, entries);
  }
}

// Copies the rows with their sums checked, in the order of the file, which disks and pages like.
void copy_rows(const FileRows& file, std::span<const Index> rows, Dataset& data,
               const std::string& path) {
  std::vector<std::size_t> order(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Index row = rows[i];
    HETSGD_CHECK_LT(row, file.rows());
    order[i] = i;
    data.feature_begin.push_back(data.feature_begin.back() + file.feature_begin[row + 1] -
                                 file.feature_begin[row]);
    data.label_begin.push_back(data.label_begin.back() + file.label_begin[row + 1] -
                               file.label_begin[row]);
  }
  data.feature_index.resize(data.feature_begin.back());
  data.feature_value.resize(data.feature_begin.back());
  data.label_index.resize(data.label_begin.back());
  std::ranges::sort(order, {}, [&](std::size_t i) { return rows[i]; });
  for (const std::size_t i : order) {
    const std::uint64_t row = rows[i], first = file.feature_begin[row],
                        last = file.feature_begin[row + 1];
    file.feature_index.copy(first, last, data.feature_index.data() + data.feature_begin[i]);
    file.feature_value.copy(first, last, data.feature_value.data() + data.feature_begin[i]);
    file.label_index.copy(file.label_begin[row], file.label_begin[row + 1],
                          data.label_index.data() + data.label_begin[i]);
    if (const std::uint32_t found = row_sum(data, i); found != file.row_sums[row]) {
      throw data_error("{}: the checksum of row {} is wrong: found {:08x}, expected {:08x}", path,
                       row + 1, found, file.row_sums[row]);
    }
  }
}

// The data set as RowChoice::rows gets it. `labels`: its bytes with their padding.
Dataset read_outline(const BinaryHeader& header, const FileRows& file, std::string_view labels,
                     const Dataset& description, bool needs_labels, const std::string& path) {
  Dataset outline = description;
  outline.feature_begin.assign(header.rows + 1, 0);
  outline.label_begin.assign(header.rows + 1, 0);
  if (needs_labels) {
    check_sum(labels, header.label_hash, "labels", path);
    file.label_begin.copy(0, header.rows + 1, outline.label_begin.data());
    outline.label_index.resize(header.labels);
    file.label_index.copy(0, header.labels, outline.label_index.data());
  }
  require_valid(outline, path);
  return outline;
}

}  // namespace

DecodedBinary decode_binary_rows(std::string_view bytes, const std::string& path,
                                 const RowChoice& choice) {
  const BinaryHeader header = read_header(bytes, path);
  const std::string_view payload = bytes.substr(sizeof header);
  check_sizes(header, payload, path);
  const auto padded = [](std::uint64_t size) { return size + padding(size); };
  const std::uint64_t head =
      padded(header.name_bytes) + 2 * (header.rows + 1) * 8 + padded(header.rows * 4);
  check_sum(payload.substr(0, head), header.head_hash, "head", path);
  DecodedBinary result;
  PayloadReader reader(payload);
  read_description(header, reader, result, path);
  const FileRows file(header, reader);
  check_starts(file.feature_begin, header.features, "features", path);
  check_starts(file.label_begin, header.labels, "labels", path);

  Dataset& data = result.parsed.data;
  const std::vector<Index> rows =
      choice.rows(read_outline(header, file, payload.substr(head, padded(header.labels * 4)), data,
                               choice.needs_labels, path));
  copy_rows(file, rows, data, path);
  data.whole = {.rows = header.rows, .nonzeros = header.features, .labels = header.labels};
  require_valid(data, path);
  return result;
}

}  // namespace hetsgd
