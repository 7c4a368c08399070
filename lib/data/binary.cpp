#include "data/binary.hpp"

#include <xxhash.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>

#include "core/error.hpp"
#include "data/source.hpp"
#include "data/summary.hpp"

namespace hetsgd {

namespace {

struct BinaryHeader {
  std::array<char, 8> magic{};
  std::uint32_t version = 0;
  std::uint32_t header_bytes = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t payload_hash = 0;
  std::uint64_t key = 0;
  std::uint64_t content_hash = 0;
  std::uint64_t rows = 0;
  std::uint64_t features = 0;  // entries
  std::uint64_t labels = 0;    // entries
  std::uint64_t rows_without_labels = 0;
  std::uint64_t rows_without_features = 0;
  std::uint32_t feature_count = 0;
  std::uint32_t label_count = 0;
  std::uint32_t name_bytes = 0;  // of the block of names
  std::uint32_t label_names = 0;
  std::uint8_t task = 0;
  std::uint8_t format = 0;
  std::uint8_t index_base = 0;
  std::array<std::uint8_t, 5> reserved{};
  std::uint64_t header_hash = 0;  // of all bytes before it
};
static_assert(sizeof(BinaryHeader) == 120 && std::is_trivially_copyable_v<BinaryHeader>);

std::uint64_t header_hash(const BinaryHeader& header) {
  return XXH3_64bits(&header, offsetof(BinaryHeader, header_hash));
}

template <class T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::size_t padding(std::size_t size) { return (8 - size % 8) % 8; }

void append_name(std::string& block, const std::string& name) {
  const auto size = static_cast<std::uint32_t>(name.size());
  block.append(reinterpret_cast<const char*>(&size), sizeof size);
  block += name;
}

// The payload's pieces in file order, each followed by its padding.
template <class Visit>
void visit_payload(const Dataset& data, const std::string& names, Visit&& visit) {
  static constexpr std::array<char, 8> kZeros{};
  const auto piece = [&](std::string_view bytes) {
    visit(bytes);
    if (const std::size_t pad = padding(bytes.size()); pad > 0)
      visit(std::string_view(kZeros.data(), pad));
  };
  piece({names.data(), names.size()});
  piece(bytes_of(data.feature_begin));
  piece(bytes_of(data.label_begin));
  piece(bytes_of(data.feature_index));
  piece(bytes_of(data.feature_value));
  piece(bytes_of(data.label_index));
}

// Takes pieces off the front of the payload; the sizes were checked before.
class PayloadReader {
 public:
  explicit PayloadReader(std::string_view payload) : rest_(payload) {}

  std::string_view take(std::size_t size) {
    const std::string_view piece = rest_.substr(0, size);
    rest_.remove_prefix(size + padding(size));
    return piece;
  }

  template <class T>
  void take_into(std::vector<T>& values, std::uint64_t count) {
    values.resize(count);
    const std::string_view piece = take(count * sizeof(T));
    if (count > 0) std::memcpy(values.data(), piece.data(), piece.size());
  }

 private:
  std::string_view rest_;
};

BinaryHeader read_header(std::string_view bytes, const std::string& path) {
  BinaryHeader header;
  if (bytes.size() < sizeof header || !is_binary_dataset(bytes)) {
    throw data_error("{}: not a converted data file: its header is missing or cut off", path);
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kBinaryVersion || header.header_bytes != sizeof header) {
    throw with_hint(data_error("{}: format version {}, this program reads version {}", path,
                               header.version, kBinaryVersion),
                    "convert the source file again");
  }
  if (header.header_hash != header_hash(header)) {
    throw data_error("{}: the header's checksum is wrong: found {:016x}, expected {:016x}", path,
                     header_hash(header), header.header_hash);
  }
  return header;
}

// Guards against counts that do not fit the file before anything is allocated by them.
void check_sizes(const BinaryHeader& header, std::string_view payload, const std::string& path) {
  const std::uint64_t limit = payload.size();
  const auto padded = [](std::uint64_t size) { return size + padding(size); };
  bool fits = header.rows < limit && header.features < limit && header.labels < limit &&
              header.payload_bytes == limit;
  fits = fits && padded(header.name_bytes) + 2 * padded((header.rows + 1) * 8) +
                         2 * padded(header.features * 4) + padded(header.labels * 4) ==
                     limit;
  if (!fits) {
    throw data_error("{}: cut off or grown: {} bytes of payload, the header promises {}", path,
                     limit, header.payload_bytes);
  }
}

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

bool is_binary_dataset(std::string_view bytes) { return bytes.starts_with(kBinaryMagic); }

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

  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  HETSGD_CHECK(state != nullptr);
  XXH3_64bits_reset(state.get());
  visit_payload(data, names, [&](std::string_view piece) {
    XXH3_64bits_update(state.get(), piece.data(), piece.size());
    header.payload_bytes += piece.size();
  });
  header.payload_hash = XXH3_64bits_digest(state.get());
  header.header_hash = header_hash(header);

  write({reinterpret_cast<const char*>(&header), sizeof header});
  visit_payload(data, names, write);
}

DecodedBinary decode_binary(std::string_view bytes, const std::string& path) {
  const BinaryHeader header = read_header(bytes, path);
  const std::string_view payload = bytes.substr(sizeof header);
  check_sizes(header, payload, path);
  if (const std::uint64_t found = content_hash(payload); found != header.payload_hash) {
    throw data_error("{}: the payload's checksum is wrong: found {:016x}, expected {:016x}", path,
                     found, header.payload_hash);
  }
  DecodedBinary result;
  result.key = header.key;
  Dataset& data = result.parsed.data;
  LoadReport& report = result.parsed.report;
  PayloadReader reader(payload);
  std::vector<std::string> names =
      read_names(reader.take(header.name_bytes), std::uint64_t{header.label_names} + 1, path);
  data.name = std::move(names.front());
  names.erase(names.begin());
  report.label_names = std::move(names);
  reader.take_into(data.feature_begin, header.rows + 1);
  reader.take_into(data.label_begin, header.rows + 1);
  reader.take_into(data.feature_index, header.features);
  reader.take_into(data.feature_value, header.features);
  reader.take_into(data.label_index, header.labels);
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
  if (const auto findings = verify(data); !findings.empty()) {
    throw data_error("{}: not a valid data set: {}", path, findings.front());
  }
  const std::size_t classes = data.task == Task::binary ? 2 : data.label_count;
  if (data.task != Task::multilabel && report.label_names.size() != classes) {
    throw data_error("{}: {} label names, expected {}", path, report.label_names.size(), classes);
  }
  return result;
}

}  // namespace hetsgd
