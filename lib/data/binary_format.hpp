// Internals of the binary form, shared by its writer and its two readers (data/binary.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/byte_stream.hpp"
#include "data/load_options.hpp"
#include "data/source.hpp"

namespace hetsgd {

inline constexpr std::string_view kBinaryMagic = "HSGDDATA";
inline constexpr std::uint32_t kBinaryVersion = 3;
inline constexpr SealKind kBinaryKind = {.magic = kBinaryMagic,
                                         .version = kBinaryVersion,
                                         .noun = "converted data file",
                                         .old = "convert the source file again"};

// The content of a file in the binary form.
struct DecodedBinary {
  ParsedData parsed;  // report: format, index base, counts and label names
  std::uint64_t key = 0;
};

// The part of the header about dense columns and fields. If it is all 0, it is not in the file, and
// the zeros that end the header are read in its place.
struct ColumnsHeader {
  std::uint64_t dense_columns = 0;
  std::uint64_t fields = 0;
  std::uint64_t vocabulary = 0;                // values; 0: hashed
  std::vector<std::uint64_t> distinct_values;  // of LoadReport

  bool any() const { return dense_columns > 0 || fields > 0; }
  static constexpr auto members() {
    using H = ColumnsHeader;
    return std::tuple(&H::dense_columns, &H::fields, &H::vocabulary, &H::distinct_values);
  }
};
inline constexpr std::size_t kSmallestColumnsHeader = 4 * sizeof(std::uint64_t);

// The part about images. If it is in the file, the columns' part is there as well, in front of it.
struct ImagesHeader {
  std::uint64_t channels = 0, height = 0, width = 0;
  std::vector<float> mean, deviation;

  bool any() const { return channels > 0; }
  std::uint64_t size() const { return channels * height * width; }
  static constexpr auto members() {
    using H = ImagesHeader;
    return std::tuple(&H::channels, &H::height, &H::width, &H::mean, &H::deviation);
  }
};
inline constexpr std::size_t kSmallestImagesHeader = 5 * sizeof(std::uint64_t);

// The part about tokens, behind that about images, which is then there as well. The names of the
// kinds are the header's label_names.
struct TokensHeader {
  std::uint64_t vocabulary = 0, room = 0;
  std::uint64_t tokens = 0;  // of the text
  // TextCounts of LoadReport.
  std::uint64_t empty_lines = 0, split_lines = 0, words = 0, unknown = 0, returns = 0;

  bool any() const { return vocabulary > 0; }
  static constexpr auto members() {
    using H = TokensHeader;
    return std::tuple(&H::vocabulary, &H::room, &H::tokens, &H::empty_lines, &H::split_lines,
                      &H::words, &H::unknown, &H::returns);
  }
};
inline constexpr std::size_t kSmallestTokensHeader = 8 * sizeof(std::uint64_t);

// The header of a file. Hashes are XXH3-64.
struct BinaryHeader {
  std::string name;
  std::vector<std::string> label_names;
  std::uint64_t key = 0;
  std::uint64_t content_hash = 0;
  std::uint64_t rows = 0;
  std::uint64_t features = 0;  // entries
  std::uint64_t labels = 0;    // entries
  std::uint64_t rows_without_labels = 0;
  std::uint64_t rows_without_features = 0;
  std::uint64_t payload_hash = 0;
  std::uint64_t head_hash = 0;   // of the payload before label_index
  std::uint64_t label_hash = 0;  // of label_index
  Index feature_count = 0;
  Index label_count = 0;
  std::uint8_t task = 0;
  std::uint8_t format = 0;
  std::uint8_t index_base = 0;
  ColumnsHeader columns;  // behind the others
  ImagesHeader images;    // behind these
  TokensHeader tokens;    // and behind these

  // The sparse features are a group that click data, images and tokens lack.
  bool has_sparse() const {
    return feature_count > 0 || !(columns.any() || images.any() || tokens.any());
  }

  static constexpr auto members() {
    using H = BinaryHeader;
    return std::tuple(&H::name, &H::label_names, &H::key, &H::content_hash, &H::rows, &H::features,
                      &H::labels, &H::rows_without_labels, &H::rows_without_features,
                      &H::payload_hash, &H::head_hash, &H::label_hash, &H::feature_count,
                      &H::label_count, &H::task, &H::format, &H::index_base);
  }
};

// The header and every array of the payload begin at a multiple of this.
inline constexpr std::size_t kBinaryAlignment = 64;
// Bytes from `size` to the next multiple.
inline constexpr std::size_t padding(std::size_t size) {
  return (kBinaryAlignment - size % kBinaryAlignment) % kBinaryAlignment;
}

// The offsets of the payload's arrays, in bytes from the start of the file.
struct PayloadLayout {
  PayloadLayout() = default;
  PayloadLayout(const BinaryHeader& header, std::uint64_t payload);

  std::uint64_t feature_begin = 0, label_begin = 0, row_sums = 0, field_first = 0, vocabulary = 0,
                token_begin = 0, token_length = 0, token_bytes = 0, label_index = 0,
                feature_index = 0, feature_value = 0, category = 0, dense = 0, pixel = 0, token = 0,
                end = 0;
};

struct BinaryFile {
  BinaryHeader header;
  PayloadLayout places;
};

// The header as it stands in the file, up to the payload.
std::vector<std::byte> sealed_header(const BinaryHeader& header);
// Reads the header. Throws Error(data) for other versions and a damaged header. Counts that do not
// fit the file are refused before anything is allocated for them.
BinaryFile read_header(const ByteSource& file, const std::string& path);
void check_sum(std::uint64_t found, std::uint64_t expected, const char* what,
               const std::string& path);
// Everything but the rows.
DecodedBinary read_description(BinaryHeader header, const std::string& path);
void require_valid(const Dataset& data, const std::string& path);

Images<Owned> images_without_pixels(const ImagesHeader& header);

// The checksum of one row.
std::uint32_t row_sum(const DataArrays<View>& data, std::uint64_t row);

}  // namespace hetsgd
