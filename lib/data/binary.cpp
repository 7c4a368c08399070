#include "data/binary.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>

#include "core/error.hpp"
#include "data/binary_format.hpp"
#include "data/source.hpp"
#include "data/summary.hpp"

namespace hetsgd {

namespace {

std::uint64_t header_hash(const BinaryHeader& header) {
  return XXH3_64bits(&header, offsetof(BinaryHeader, header_hash));
}

template <class T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

void append_name(std::string& block, const std::string& name) {
  const auto size = static_cast<std::uint32_t>(name.size());
  block.append(reinterpret_cast<const char*>(&size), sizeof size);
  block += name;
}

// The payload's pieces in file order, each with its padding. The first kLabels are the head.
struct Payload {
  Payload(const Dataset& data, std::string names_block) : names(std::move(names_block)) {
    row_sums.reserve(data.rows());
    for (std::uint64_t row = 0; row < data.rows(); ++row) row_sums.push_back(row_sum(data, row));
    pieces = {names,
              bytes_of(data.feature_begin),
              bytes_of(data.label_begin),
              bytes_of(row_sums),
              bytes_of(data.label_index),
              bytes_of(data.feature_index),
              bytes_of(data.feature_value)};
  }
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;

  // Calls visit(piece's number, bytes).
  template <class Visit>
  void visit(Visit&& visit) const {
    static constexpr std::array<char, 8> kZeros{};
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      visit(i, pieces[i]);
      if (const std::size_t pad = padding(pieces[i].size()); pad > 0)
        visit(i, std::string_view(kZeros.data(), pad));
    }
  }

  static constexpr std::size_t kLabels = 4;  // the first piece after the head
  std::string names;
  std::vector<std::uint32_t> row_sums;
  std::array<std::string_view, 7> pieces;
};

std::vector<std::string> read_names(std::string_view block, std::uint64_t count,
                                    const std::string& path) {
  std::vector<std::string> names;
  for (std::uint64_t k = 0; k < count; ++k) {
    std::uint32_t size = 0;
    if (block.size() >= sizeof size) std::memcpy(&size, block.data(), sizeof size);
    if (block.size() < sizeof size || block.size() - sizeof size < size) {
      throw data_error("{}: the label names are cut off", path);
    }
    names.emplace_back(block.substr(sizeof size, size));
    block.remove_prefix(sizeof size + size);
  }
  return names;
}

}  // namespace

std::uint32_t row_sum(const Dataset& data, std::uint64_t row) {
  const auto labels = data.labels(row), features = data.features(row);
  const auto values = data.values(row);
  std::uint64_t sum = XXH3_64bits(labels.data(), labels.size_bytes());
  sum = XXH3_64bits_withSeed(features.data(), features.size_bytes(), sum);
  return static_cast<std::uint32_t>(XXH3_64bits_withSeed(values.data(), values.size_bytes(), sum));
}

namespace {

void check_sizes(const BinaryHeader& header, std::uint64_t payload, const std::string& path) {
  const auto padded = [](std::uint64_t size) { return size + padding(size); };
  bool fits = header.rows < payload && header.features < payload && header.labels < payload &&
              header.payload_bytes == payload;
  fits = fits && padded(header.name_bytes) + 2 * padded((header.rows + 1) * 8) +
                         padded(header.rows * 4) + padded(header.labels * 4) +
                         2 * padded(header.features * 4) ==
                     payload;
  if (!fits) {
    throw data_error("{}: cut off or grown: {} bytes of payload, the header promises {}", path,
                     payload, header.payload_bytes);
  }
}

}  // namespace

BinaryHeader read_header(const ByteSource& file, const std::string& path) {
  BinaryHeader header;
  if (file.size() < sizeof header || !is_binary_dataset(file)) {
    throw data_error("{}: not a converted data file: its header is missing or cut off", path);
  }
  file.read(0, {reinterpret_cast<char*>(&header), sizeof header});
  if (header.version != kBinaryVersion || header.header_bytes != sizeof header) {
    throw with_hint(data_error("{}: format version {}, this program reads version {}", path,
                               header.version, kBinaryVersion),
                    "convert the source file again");
  }
  if (header.header_hash != header_hash(header)) {
    throw data_error("{}: the header's checksum is wrong: found {:016x}, expected {:016x}", path,
                     header_hash(header), header.header_hash);
  }
  check_sizes(header, file.size() - sizeof header, path);
  return header;
}

void PayloadReader::take(std::span<char> to) {
  constexpr std::size_t kSummed = std::size_t{1} << 19;  // still in the cache when it is summed
  const std::size_t size = to.size();
  for (; !to.empty(); to = to.subspan(std::min(kSummed, to.size()))) {
    const std::span<char> piece = to.first(std::min(kSummed, to.size()));
    file_.read(place_, piece);
    sum_.add({piece.data(), piece.size()});
    place_ += piece.size();
  }
  std::array<char, 8> pad{};
  const std::span<char> rest(pad.data(), padding(size));
  file_.read(place_, rest);
  sum_.add({rest.data(), rest.size()});
  place_ += rest.size();
}

void PayloadReader::skip(std::uint64_t size) {
  std::vector<char> bytes(size);
  take(bytes);
}

void check_sum(std::uint64_t found, std::uint64_t expected, const char* what,
               const std::string& path) {
  if (found == expected) return;
  throw data_error("{}: the {}'s checksum is wrong: found {:016x}, expected {:016x}", path, what,
                   found, expected);
}

void read_description(const BinaryHeader& header, std::string_view block, DecodedBinary& result,
                      const std::string& path) {
  result.key = header.key;
  Dataset& data = result.parsed.data;
  LoadReport& report = result.parsed.report;
  std::vector<std::string> names = read_names(block, std::uint64_t{header.label_names} + 1, path);
  data.name = std::move(names.front());
  names.erase(names.begin());
  report.label_names = std::move(names);
  data.content_hash = header.content_hash;
  data.feature_count = header.feature_count;
  data.label_count = header.label_count;
  if (header.task > 2 || header.format > 4 || header.index_base > 2) {
    throw data_error("{}: the header holds an unknown task, format or index base", path);
  }
  data.task = static_cast<Task>(header.task);
  report.format = static_cast<DataFormat>(header.format);
  report.index_base = static_cast<IndexBase>(header.index_base);
  report.rows_without_labels = header.rows_without_labels;
  report.rows_without_features = header.rows_without_features;
  const std::size_t classes = data.task == Task::binary ? 2 : data.label_count;
  if (data.task != Task::multilabel && report.label_names.size() != classes) {
    throw data_error("{}: {} label names, expected {}", path, report.label_names.size(), classes);
  }
}

void require_valid(const Dataset& data, const std::string& path) {
  if (const auto findings = verify(data); !findings.empty()) {
    throw data_error("{}: not a valid data set: {}", path, findings.front());
  }
}

bool is_binary_dataset(const ByteSource& file) {
  std::array<char, kBinaryMagic.size()> magic{};
  if (file.size() < magic.size()) return false;
  file.read(0, magic);
  return std::string_view(magic.data(), magic.size()) == kBinaryMagic;
}

void encode_binary(const Dataset& data, const LoadReport& report, std::uint64_t key,
                   const std::function<void(std::string_view)>& write) {
  std::string names;
  append_name(names, data.name);
  for (const std::string& name : report.label_names) append_name(names, name);

  BinaryHeader header;
  std::memcpy(header.magic.data(), kBinaryMagic.data(), kBinaryMagic.size());
  header.version = kBinaryVersion;
  header.header_bytes = sizeof header;
  header.key = key;
  header.content_hash = data.content_hash;
  header.rows = data.rows();
  header.features = data.nonzeros();
  header.labels = data.label_index.size();
  header.rows_without_labels = report.rows_without_labels;
  header.rows_without_features = report.rows_without_features;
  header.feature_count = data.feature_count;
  header.label_count = data.label_count;
  header.name_bytes = static_cast<std::uint32_t>(names.size());
  header.label_names = static_cast<std::uint32_t>(report.label_names.size());
  header.task = static_cast<std::uint8_t>(data.task);
  header.format = static_cast<std::uint8_t>(report.format);
  header.index_base = static_cast<std::uint8_t>(report.index_base);

  const Payload payload(data, std::move(names));
  RunningHash whole, head, labels;
  payload.visit([&](std::size_t piece, std::string_view bytes) {
    whole.add(bytes);
    if (piece < Payload::kLabels) head.add(bytes);
    if (piece == Payload::kLabels) labels.add(bytes);
    header.payload_bytes += bytes.size();
  });
  header.payload_hash = whole.value();
  header.head_hash = head.value();
  header.label_hash = labels.value();
  header.header_hash = header_hash(header);

  write({reinterpret_cast<const char*>(&header), sizeof header});
  payload.visit([&](std::size_t, std::string_view bytes) { write(bytes); });
}

DecodedBinary decode_binary(const ByteSource& file, const std::string& path) {
  const BinaryHeader header = read_header(file, path);
  require_memory(static_cast<double>(header.payload_bytes), path, "the data set");
  DecodedBinary result;
  Dataset& data = result.parsed.data;
  PayloadReader reader(file);
  std::vector<char> names;
  reader.take_into(names, header.name_bytes);
  reader.take_into(data.feature_begin, header.rows + 1);
  reader.take_into(data.label_begin, header.rows + 1);
  reader.skip(header.rows * sizeof(std::uint32_t));  // the sums of rows: the payload's says more
  reader.take_into(data.label_index, header.labels);
  reader.take_into(data.feature_index, header.features);
  reader.take_into(data.feature_value, header.features);
  check_sum(reader.sum(), header.payload_hash, "payload", path);
  read_description(header, {names.data(), names.size()}, result, path);
  require_valid(data, path);
  return result;
}

}  // namespace hetsgd
