#include "data/binary.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "core/error.hpp"
#include "core/non_copyable.hpp"
#include "data/huge_pages.hpp"
#include "data/images.hpp"
#include "data/source.hpp"
#include "data/summary.hpp"

namespace hetsgd {

namespace {

template <class T>
std::string_view characters_of(std::span<const T> values) {
  return text_of(std::as_bytes(values));
}

// The payload's arrays in file order, each with its padding. The first kLabels are the head.
struct Payload : NonCopyable {
  explicit Payload(const Dataset& data) {
    row_sums.reserve(data.rows());
    for (std::uint64_t row = 0; row < data.rows(); ++row) {
      row_sums.push_back(row_sum(data, row));
    }
    pieces = {characters_of(data.sparse.rows() > 0 ? data.sparse.begin
                                                   : std::span<const std::uint64_t>()),
              characters_of(data.targets.begin),
              characters_of(std::span<const std::uint32_t>(row_sums)),
              characters_of(data.fields.first),
              characters_of(data.fields.value),
              characters_of(data.tokens.begin),
              characters_of(data.tokens.length),
              characters_of(data.tokens.bytes),
              characters_of(data.targets.index),
              characters_of(data.sparse.index),
              characters_of(data.sparse.value),
              characters_of(data.fields.category),
              characters_of(data.dense.value),
              characters_of(data.images.pixel),
              characters_of(data.tokens.token)};
  }

  // Calls visit(piece's number, bytes).
  template <class Visit>
  void visit(Visit&& visit) const {
    static constexpr std::array<char, kBinaryAlignment> kZeros{};
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      visit(i, pieces[i]);
      if (const std::size_t pad = padding(pieces[i].size()); pad > 0)
        visit(i, std::string_view(kZeros.data(), pad));
    }
  }

  static constexpr std::size_t kLabels = 8;  // the first piece after the head
  std::vector<std::uint32_t> row_sums;
  std::array<std::string_view, 15> pieces;
};

// No data set has more dense columns or fields.
constexpr std::uint64_t kMostColumns = std::uint64_t{1} << 16;

// The payload as it lies in the file, in memory of its own, with the sum of what was read.
std::shared_ptr<const char> read_payload(const ByteSource& file, std::uint64_t begin,
                                         std::uint64_t size, std::uint64_t& sum) {
  constexpr std::uint64_t kSummed = std::uint64_t{1} << 19;  // still in the cache when it is summed
  using Word = std::uint64_t;                                // a type with the same alignment
  const auto words =
      std::make_shared_for_overwrite<Word[]>((size + sizeof(Word) - 1) / sizeof(Word));
  advise_huge_pages(words.get(), size);
  const std::span bytes(reinterpret_cast<char*>(words.get()), size);
  RunningHash hash;
  for (std::uint64_t at = 0; at < size; at += kSummed) {
    const std::span piece = bytes.subspan(at, std::min(kSummed, size - at));
    file.read(begin + at, piece);
    hash.add({piece.data(), piece.size()});
  }
  sum = hash.value();
  return {words, bytes.data()};
}

template <class T>
std::span<const T> array_at(const char* bytes, std::uint64_t count) {
  return {reinterpret_cast<const T*>(bytes), count};
}

}  // namespace

PayloadLayout::PayloadLayout(const BinaryHeader& header, std::uint64_t payload) {
  std::uint64_t place = payload;
  const auto take = [&](std::uint64_t size) {
    const std::uint64_t first = place;
    place += size + padding(size);
    return first;
  };
  feature_begin = take(header.has_sparse() ? (header.rows + 1) * sizeof(std::uint64_t) : 0);
  label_begin = take((header.rows + 1) * sizeof(std::uint64_t));
  row_sums = take(header.rows * sizeof(std::uint32_t));
  const ColumnsHeader& columns = header.columns;
  field_first = take(columns.fields > 0 ? (columns.fields + 1) * sizeof(Index) : 0);
  vocabulary = take(columns.vocabulary * sizeof(std::uint32_t));
  const std::uint64_t stretches = header.tokens.any() ? header.rows : 0;
  token_begin = take(stretches * sizeof(std::uint64_t));
  token_length = take(stretches * sizeof(std::uint32_t));
  token_bytes = take(stretches * sizeof(std::uint32_t));
  label_index = take(header.labels * sizeof(Index));
  feature_index = take(header.features * sizeof(Index));
  feature_value = take(header.features * sizeof(float));
  category = take(header.rows * columns.fields * sizeof(Index));
  dense = take(header.rows * columns.dense_columns * sizeof(float));
  pixel = take(header.rows * header.images.size());
  token = take(header.tokens.tokens * sizeof(std::uint16_t));
  end = place;
}

std::uint32_t row_sum(const DataArrays<View>& data, std::uint64_t row) {
  const std::span<const Index> labels = data.labels(row);
  std::uint64_t sum = XXH3_64bits(labels.data(), labels.size_bytes());
  const auto add = [&](auto values) {
    sum = XXH3_64bits_withSeed(values.data(), values.size_bytes(), sum);
  };
  if (data.sparse.rows() > 0) {
    add(data.features(row));
    add(data.values(row));
  }
  if (data.fields.count() > 0) add(data.fields.row(row));
  if (data.dense.columns > 0) add(data.dense.row(row));
  if (data.images.size() > 0) add(data.images.row(row));
  if (data.tokens.vocabulary > 0) add(data.tokens.reach(row));
  return static_cast<std::uint32_t>(sum);
}

std::vector<std::byte> sealed_header(const BinaryHeader& header) {
  std::vector<std::byte> content = to_bytes(header);
  const auto add = [&](const auto& part) {
    const std::vector<std::byte> bytes = to_bytes(part);
    content.insert(content.end(), bytes.begin(), bytes.end());
  };
  const bool tokens = header.tokens.any(), images = header.images.any() || tokens;
  if (header.columns.any() || images) add(header.columns);
  if (images) add(header.images);
  if (tokens) add(header.tokens);
  content.resize(content.size() + padding(kSealBytes + content.size()));
  return sealed(kBinaryKind, content);
}

BinaryFile read_header(const ByteSource& file, const std::string& path) {
  const auto read = [&](std::uint64_t size) {
    std::vector<std::byte> bytes(size);
    file.read(0, {reinterpret_cast<char*>(bytes.data()), bytes.size()});
    return bytes;
  };
  const auto cut = [&] { return data_error("{}: cut off or grown: {} bytes", path, file.size()); };
  const std::uint64_t length =
      sealed_length(kBinaryKind, read(std::min<std::uint64_t>(file.size(), kSealBytes)), path);
  if (length > file.size() - kSealBytes || padding(kSealBytes + length) != 0) throw cut();
  const std::vector<std::byte> bytes = read(kSealBytes + length);
  ByteReader content(unsealed(kBinaryKind, bytes, path), path);
  BinaryFile result{.header = content.get<BinaryHeader>(), .places = {}};
  BinaryHeader& header = result.header;
  if (const auto rest = content.rest(); rest.size() >= kSmallestColumnsHeader) {
    ByteReader reader(rest, path);
    header.columns = reader.get<ColumnsHeader>();
    if (const auto behind = reader.rest(); behind.size() >= kSmallestImagesHeader) {
      ByteReader images(behind, path);
      header.images = images.get<ImagesHeader>();
      if (const auto last = images.rest(); last.size() >= kSmallestTokensHeader) {
        header.tokens = ByteReader(last, path).get<TokensHeader>();
      }
    }
  }
  // Bounds are checked before anything is multiplied.
  const ColumnsHeader& columns = header.columns;
  const ImagesHeader& images = header.images;
  const TokensHeader& tokens = header.tokens;
  if (std::max({header.rows, header.features, header.labels, columns.vocabulary, tokens.tokens,
                tokens.room, tokens.vocabulary}) >= file.size() ||
      std::max(columns.fields, columns.dense_columns) > kMostColumns ||
      std::max({images.channels, images.height, images.width}) > kLargestSide ||
      (images.size() > 0 && header.rows > file.size() / images.size())) {
    throw cut();
  }
  result.places = PayloadLayout(header, bytes.size());
  if (result.places.end != file.size()) {
    throw data_error("{}: cut off or grown: found {} bytes, expected {} by its header", path,
                     file.size(), result.places.end);
  }
  return result;
}

void check_sum(std::uint64_t found, std::uint64_t expected, const char* what,
               const std::string& path) {
  if (found == expected) return;
  throw data_error("{}: the {}'s checksum is wrong: found {:016x}, expected {:016x}", path, what,
                   found, expected);
}

DecodedBinary read_description(BinaryHeader header, const std::string& path) {
  if (header.task > static_cast<std::uint8_t>(Task::tokens) ||
      header.format > static_cast<std::uint8_t>(DataFormat::text) || header.index_base > 2) {
    throw data_error("{}: the header holds an unknown task, format or index base", path);
  }
  DecodedBinary result;
  result.key = header.key;
  Dataset& data = result.parsed.data;
  data.name = std::move(header.name);
  data.content_hash = header.content_hash;
  data.task = static_cast<Task>(header.task);
  data.feature_count = header.feature_count;
  data.label_count = header.label_count;
  LoadReport& report = result.parsed.report;
  report.format = static_cast<DataFormat>(header.format);
  report.index_base = static_cast<IndexBase>(header.index_base);
  report.rows_without_labels = header.rows_without_labels;
  report.rows_without_features = header.rows_without_features;
  report.label_names = std::move(header.label_names);
  report.distinct_values = std::move(header.columns.distinct_values);
  report.text = {.empty_lines = header.tokens.empty_lines,
                 .split_lines = header.tokens.split_lines,
                 .words = header.tokens.words,
                 .unknown = header.tokens.unknown,
                 .returns = header.tokens.returns};
  const std::size_t classes = data.task == Task::binary ? 2 : data.label_count;
  const std::size_t expected = data.task == Task::multilabel ? 0 : classes;
  if (report.label_names.size() != expected) {
    throw data_error("{}: found {} label names, expected {}", path, report.label_names.size(),
                     expected);
  }
  return result;
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
  // Refuses data that the form cannot hold.
  if (data.sequences.numbers > 0) {
    refuse(data.name, "sequences", "rows of one size",
           "sequences are generated when they are read, and no file format holds them",
           ExitCode::data);
  }
  HETSGD_CHECK(data.sparse.rows() == data.rows() || data.feature_count == 0);
  const Images<View>& images = data.images;
  BinaryHeader header{.name = data.name,
                      .label_names = report.label_names,
                      .key = key,
                      .content_hash = data.content_hash,
                      .rows = data.rows(),
                      .features = data.nonzeros(),
                      .labels = data.targets.index.size(),
                      .rows_without_labels = report.rows_without_labels,
                      .rows_without_features = report.rows_without_features,
                      .feature_count = data.feature_count,
                      .label_count = data.label_count,
                      .task = static_cast<std::uint8_t>(data.task),
                      .format = static_cast<std::uint8_t>(report.format),
                      .index_base = static_cast<std::uint8_t>(report.index_base),
                      .columns = {.dense_columns = data.dense.columns,
                                  .fields = data.fields.count(),
                                  .vocabulary = data.fields.value.size(),
                                  .distinct_values = report.distinct_values},
                      .images = {.channels = images.channels,
                                 .height = images.height,
                                 .width = images.width,
                                 .mean = {images.mean.begin(), images.mean.end()},
                                 .deviation = {images.deviation.begin(), images.deviation.end()}},
                      .tokens = {.vocabulary = data.tokens.vocabulary,
                                 .room = data.tokens.room,
                                 .tokens = data.tokens.token.size(),
                                 .empty_lines = report.text.empty_lines,
                                 .split_lines = report.text.split_lines,
                                 .words = report.text.words,
                                 .unknown = report.text.unknown,
                                 .returns = report.text.returns}};
  const Payload payload(data);
  RunningHash whole, head, labels;
  payload.visit([&](std::size_t piece, std::string_view bytes) {
    whole.add(bytes);
    if (piece < Payload::kLabels) head.add(bytes);
    if (piece == Payload::kLabels) labels.add(bytes);
  });
  header.payload_hash = whole.value();
  header.head_hash = head.value();
  header.label_hash = labels.value();
  write(text_of(sealed_header(header)));
  payload.visit([&](std::size_t, std::string_view bytes) { write(bytes); });
}

Images<Owned> images_without_pixels(const ImagesHeader& header) {
  return {static_cast<Index>(header.channels),
          static_cast<Index>(header.height),
          static_cast<Index>(header.width),
          {},
          header.mean,
          header.deviation};
}

DecodedBinary decode_binary(const ByteSource& file, const std::string& path,
                            std::shared_ptr<const char> in_place) {
  auto [header, places] = read_header(file, path);
  const std::uint64_t begin = places.feature_begin, size = places.end - begin;
  std::uint64_t sum = 0;
  std::shared_ptr<const char> payload;
  if (in_place) {
    payload = {in_place, in_place.get() + begin};
    sum = content_hash({payload.get(), size});
  } else {
    require_memory(static_cast<double>(size), path, "the data set");
    payload = read_payload(file, begin, size, sum);
  }
  check_sum(sum, header.payload_hash, "payload", path);
  const auto at = [&](std::uint64_t place) { return payload.get() + (place - begin); };
  const std::uint64_t rows = header.rows, features = header.features, labels = header.labels;
  const ColumnsHeader columns = header.columns;
  const TokensHeader tokens = header.tokens;
  const bool sparse = header.has_sparse();
  Images<Owned> images = images_without_pixels(header.images);
  DecodedBinary result = read_description(std::move(header), path);
  Dataset& data = result.parsed.data;
  if (sparse) {
    data.sparse = {array_at<std::uint64_t>(at(places.feature_begin), rows + 1),
                   array_at<Index>(at(places.feature_index), features),
                   array_at<float>(at(places.feature_value), features)};
  }
  if (columns.fields > 0) {
    data.fields = {array_at<Index>(at(places.field_first), columns.fields + 1),
                   array_at<Index>(at(places.category), rows * columns.fields),
                   array_at<std::uint32_t>(at(places.vocabulary), columns.vocabulary)};
  }
  data.dense = {static_cast<Index>(columns.dense_columns),
                array_at<float>(at(places.dense), rows * columns.dense_columns)};
  if (tokens.any()) {
    data.tokens = {static_cast<Index>(tokens.vocabulary),
                   static_cast<Index>(tokens.room),
                   array_at<std::uint16_t>(at(places.token), tokens.tokens),
                   array_at<std::uint64_t>(at(places.token_begin), rows),
                   array_at<std::uint32_t>(at(places.token_length), rows),
                   array_at<std::uint32_t>(at(places.token_bytes), rows)};
  }
  data.targets = {array_at<std::uint64_t>(at(places.label_begin), rows + 1),
                  array_at<Index>(at(places.label_index), labels),
                  {}};
  data.owner = payload;
  data.images = view_of(keep(data, std::move(images)));
  data.images.pixel = array_at<std::uint8_t>(at(places.pixel), rows * data.images.size());
  require_valid(data, path);
  return result;
}

}  // namespace hetsgd
