// The .hsgd reader and the decompressors. A fuzzer cannot guess checksums, so the target corrects
// them.
#include <xxhash.h>

#include <cstring>
#include <string>

#include "data/binary.hpp"
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
    constexpr std::size_t kHeader = 120, kPayloadHash = 24, kHeaderHash = 112;
    if (size >= kHeader) {
      const std::uint64_t payload = XXH3_64bits(file.data() + kHeader, size - kHeader);
      std::memcpy(file.data() + kPayloadHash, &payload, sizeof payload);
      const std::uint64_t header = XXH3_64bits(file.data(), kHeaderHash);
      std::memcpy(file.data() + kHeaderHash, &header, sizeof header);
    }
    hetsgd::require_valid(hetsgd::decode_binary(file, "fuzz").parsed.data);
  } catch (const hetsgd::Error&) {
  }
  return 0;
}
