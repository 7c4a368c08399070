// The .hsgd reader and the decompressors. A fuzzer cannot guess checksums, so the target corrects
// them.
#include <xxhash.h>

#include <cstddef>
#include <cstring>
#include <numeric>
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
    hetsgd::BinaryHeader header;
    if (size >= sizeof header) {
      std::memcpy(&header, file.data(), sizeof header);
      const std::string_view payload = std::string_view(file).substr(sizeof header);
      header.payload_hash = hetsgd::content_hash(payload);
      const auto padded = [](std::uint64_t n) { return n + hetsgd::padding(n); };
      const std::uint64_t head =
          padded(header.name_bytes) + 16 * (header.rows + 1) + padded(4 * header.rows);
      const std::uint64_t labels = padded(4 * header.labels);
      if (head <= payload.size() && labels <= payload.size() - head) {
        header.head_hash = hetsgd::content_hash(payload.substr(0, head));
        header.label_hash = hetsgd::content_hash(payload.substr(head, labels));
      }
      header.header_hash = XXH3_64bits(&header, offsetof(hetsgd::BinaryHeader, header_hash));
      std::memcpy(file.data(), &header, sizeof header);
    }
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
