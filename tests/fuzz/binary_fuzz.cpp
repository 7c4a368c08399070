// The .hsgd reader and the decompressors. A fuzzer cannot guess checksums, so the target corrects
// them.
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "data/binary_format.hpp"
#include "data/source.hpp"
#include "fuzz_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  std::string file(reinterpret_cast<const char*>(bytes), size);
  try {
    if (const auto compression = hetsgd::detect_compression(file);
        compression != hetsgd::Compression::none) {
      hetsgd::decompress(file, compression, "fuzz");
      return 0;
    }
    try {
      hetsgd::decode_binary(hetsgd::MemorySource(file), "fuzz");
    } catch (const hetsgd::Error&) {
    }
    // Of a whole file what is behind the seal, of anything else all.
    const bool whole = file.starts_with(hetsgd::kBinaryMagic) && size > hetsgd::kSealBytes;
    hetsgd::ByteReader reader(
        std::as_bytes(std::span(file)).subspan(whole ? hetsgd::kSealBytes : 0), "fuzz");
    auto header = reader.get<hetsgd::BinaryHeader>();
    if (header.format == static_cast<std::uint8_t>(hetsgd::DataFormat::criteo)) {
      header.columns = reader.get<hetsgd::ColumnsHeader>();
      const std::uint64_t widest = std::max(header.columns.fields, header.columns.dense_columns);
      if (widest > 65536) return 0;  // the places would not fit 64 bits
    }
    const std::string payload(hetsgd::text_of(reader.rest()));
    const hetsgd::PayloadLayout places(header, 0);
    header.payload_hash = hetsgd::content_hash(payload);
    if (places.label_index <= places.feature_index && places.feature_index <= payload.size()) {
      const std::string_view head = payload;
      header.head_hash = hetsgd::content_hash(head.substr(0, places.label_index));
      header.label_hash = hetsgd::content_hash(
          head.substr(places.label_index, places.feature_index - places.label_index));
    }
    file = std::string(hetsgd::text_of(hetsgd::sealed_header(header))) + payload;
    // The same sums for both readers; those of the rows end the second one, after it has read them.
    const hetsgd::RowChoice some{.rows =
                                     [](const hetsgd::Dataset& outline) {
                                       std::vector<hetsgd::Index> rows(outline.rows());
                                       std::iota(rows.rbegin(), rows.rend(), 0U);
                                       return rows;
                                     },
                                 .needs_labels = size % 2 == 0};
    try {
      hetsgd::require_valid(
          hetsgd::decode_binary_rows(hetsgd::MemorySource(file), "fuzz", some).parsed.data);
    } catch (const hetsgd::Error&) {
    }
    hetsgd::require_valid(hetsgd::decode_binary(hetsgd::MemorySource(file), "fuzz").parsed.data);
  } catch (const hetsgd::Error&) {
  }
  return 0;
}
