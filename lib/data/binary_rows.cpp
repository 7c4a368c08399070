// Reading some rows of a file in the binary form.
#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "data/binary_format.hpp"

namespace hetsgd {

namespace {

// One column of the file, of which parts are read in the order of the file: what lies close
// together comes with one call of the system.
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
  std::uint64_t place_, bytes_;  // in the file; of the column
  std::uint64_t window_begin_ = 0;
  std::vector<char> window_;
};

std::uint64_t with_padding(std::uint64_t size) { return size + padding(size); }

// What is read of a file of which only some rows are wanted: the head, and the columns by place.
struct FileRows {
  FileRows(const ByteSource& file, const BinaryHeader& header, PayloadReader& reader)
      : label_index(file, place_after(header, reader), header.labels),
        feature_index(file, reader.place() + with_padding(header.labels * 4), header.features),
        feature_value(
            file,
            reader.place() + with_padding(header.labels * 4) + with_padding(header.features * 4),
            header.features) {}

  std::uint64_t rows() const { return row_sums.size(); }

  std::vector<char> names;
  std::vector<std::uint64_t> feature_begin, label_begin;
  std::vector<std::uint32_t> row_sums;
  Column<Index> label_index, feature_index;
  Column<float> feature_value;

 private:
  // Takes the head off, which ends where the labels begin.
  std::uint64_t place_after(const BinaryHeader& header, PayloadReader& reader) {
    reader.take_into(names, header.name_bytes);
    reader.take_into(feature_begin, header.rows + 1);
    reader.take_into(label_begin, header.rows + 1);
    reader.take_into(row_sums, header.rows);
    return reader.place();
  }
};

void check_starts(const std::vector<std::uint64_t>& begin, std::uint64_t entries, const char* what,
                  const std::string& path) {
  if (begin.front() == 0 && begin.back() == entries && std::ranges::is_sorted(begin)) return;
  throw data_error("{}: not a valid data set: the rows' {} do not tile the {} entries", path, what,
                   entries);
}

// Copies the rows with their sums checked, in the order of the file, which disks and pages like.
void copy_rows(FileRows& file, std::span<const Index> rows, Dataset& data,
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

// The data set as RowChoice::rows gets it. `reader` stands before the labels.
Dataset read_outline(const BinaryHeader& header, const FileRows& file, PayloadReader& reader,
                     const Dataset& description, bool needs_labels, const std::string& path) {
  Dataset outline = description;
  outline.feature_begin.assign(header.rows + 1, 0);
  outline.label_begin.assign(header.rows + 1, 0);
  if (needs_labels) {
    reader.restart_sum();
    reader.take_into(outline.label_index, header.labels);
    check_sum(reader.sum(), header.label_hash, "labels", path);
    outline.label_begin = file.label_begin;
  }
  require_valid(outline, path);
  return outline;
}

}  // namespace

DecodedBinary decode_binary_rows(const ByteSource& source, const std::string& path,
                                 const RowChoice& choice) {
  const BinaryHeader header = read_header(source, path);
  DecodedBinary result;
  PayloadReader reader(source);
  FileRows file(source, header, reader);
  check_sum(reader.sum(), header.head_hash, "head", path);
  read_description(header, {file.names.data(), file.names.size()}, result, path);
  check_starts(file.feature_begin, header.features, "features", path);
  check_starts(file.label_begin, header.labels, "labels", path);

  Dataset& data = result.parsed.data;
  const std::vector<Index> rows =
      choice.rows(read_outline(header, file, reader, data, choice.needs_labels, path));
  copy_rows(file, rows, data, path);
  data.whole = {.rows = header.rows, .nonzeros = header.features, .labels = header.labels};
  require_valid(data, path);
  return result;
}

}  // namespace hetsgd
