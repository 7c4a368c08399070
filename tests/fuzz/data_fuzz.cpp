// The readers of data. Each program xc_fuzz, libsvm_fuzz, ... is made of this file, and
// HETSGD_FUZZED is its fuzz_xc, fuzz_libsvm, ... (CMakeLists.txt). Property: any bytes either raise
// hetsgd::Error or give a data set without findings of verify().
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "data/binary.hpp"
#include "data/image_files.hpp"
#include "data/load.hpp"
#include "data/source.hpp"
#include "data/summary.hpp"
#include "data/text_parser.hpp"

namespace hetsgd {

void require_valid(const Dataset& data) {
  for (const std::string& finding : verify(data)) {
    std::cerr << "finding: " << finding << '\n';
    std::abort();
  }
}

// The first byte chooses the options, the rest is the text.
void fuzz_text(const std::uint8_t* bytes, std::size_t size, DataFormat format) {
  if (size == 0) return;
  LoadOptions options;
  options.threads = 1;
  options.format = format;
  options.index_base = static_cast<IndexBase>(bytes[0] % 3);
  if ((bytes[0] & 0x10) != 0) {  // a test file
    options.task = static_cast<Task>((bytes[0] >> 5) % 3);
    options.base_is_stated = (bytes[0] & 0x08) != 0;
    if (options.index_base == IndexBase::detect) options.index_base = IndexBase::one;
    options.trained_features = 7;
    options.trained_labels = *options.task == Task::binary ? 1 : 2;
    if (*options.task != Task::multilabel) options.label_names = {"-1", "1"};
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  try {
    require_valid(*parse_text(text, "fuzz", options).data);
  } catch (const Error&) {
  }
}

void fuzz_xc(const std::uint8_t* bytes, std::size_t size) {
  fuzz_text(bytes, size, DataFormat::xc);
}

// Detection is part of the property: text with a header goes to the XC reader.
void fuzz_libsvm(const std::uint8_t* bytes, std::size_t size) {
  fuzz_text(bytes, size, DataFormat::detect);
}

// The first byte tells what part of the rest are the images; the labels follow.
void fuzz_idx(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return;
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  const std::size_t images = text.size() * bytes[0] / 256;
  try {
    require_valid(parse_idx(text.substr(0, images), text.substr(images), "fuzz").data);
  } catch (const Error&) {
  }
}

// Reads the bytes once with the detected format, and once with the format that the first byte
// states.
void fuzz_cifar(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return;
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  const auto stated = bytes[0] % 2 == 0 ? DataFormat::cifar10 : DataFormat::cifar100;
  const auto found = image_format(text, DataFormat::detect);
  try {
    if (found && *found != DataFormat::idx) require_valid(parse_cifar(text, *found, "fuzz").data);
    require_valid(parse_cifar(text, stated, "fuzz").data);
  } catch (const Error&) {
  }
}

// The text as training data, and its first half as the test data of these.
void parse_with_half(std::string_view text, const LoadOptions& options) {
  try {
    const LoadedData train = parse_text(text, "fuzz", options);
    require_valid(*train.data);
    require_valid(
        *parse_text(text.substr(0, text.size() / 2), "fuzz", options_for_test(options, train))
             .data);
  } catch (const Error&) {
  }
}

// Click data, with a vocabulary of this text, of another one, or hashed.
void fuzz_criteo(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return;
  LoadOptions options;
  options.threads = 1;
  options.format = DataFormat::criteo;
  options.vocabulary.min_frequency = 1 + bytes[0] % 4;
  if ((bytes[0] & 0x10) != 0) options.vocabulary.hash_size = 1 + bytes[0] % 7;
  if ((bytes[0] & 0x20) != 0) options.held_out = {HeldOut::Which::tail, 0.5};
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  parse_with_half(text, options);
}

// Text of tokens, and half of it as the test text of the whole. The first byte chooses the rules.
void fuzz_tokens(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return;
  LoadOptions options;
  options.threads = 1;
  options.format = DataFormat::text;
  options.text.tokens = static_cast<TokenKind>(bytes[0] % 3);
  options.text.rows = static_cast<TextRows>((bytes[0] >> 2) % 2);
  options.text.long_lines = static_cast<LongLines>((bytes[0] >> 3) % 2);
  options.text.block = 1 + bytes[0] / 16;
  options.text.vocabulary_size = 3 + bytes[0] / 8;
  if ((bytes[0] & 0x20) != 0) options.held_out = {HeldOut::Which::tail, 0.5};
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  parse_with_half(text, options);
}

// The .hsgd reader and the decompressors. A fuzzer cannot guess checksums, so this corrects them.
void fuzz_binary(const std::uint8_t* bytes, std::size_t size) {
  std::string file(reinterpret_cast<const char*>(bytes), size);
  try {
    if (const auto compression = detect_compression(file); compression != Compression::none) {
      decompress(file, compression, "fuzz");
      return;
    }
    try {
      decode_binary(MemorySource(file), "fuzz");
    } catch (const Error&) {
    }
    // A whole file is read behind its seal, any other input from its start.
    const bool whole = file.starts_with(kBinaryMagic) && size > kSealBytes;
    ByteReader reader(std::as_bytes(std::span(file)).subspan(whole ? kSealBytes : 0), "fuzz");
    auto header = reader.get<BinaryHeader>();
    const bool text = header.format == static_cast<std::uint8_t>(DataFormat::text);
    if (text || header.format == static_cast<std::uint8_t>(DataFormat::criteo)) {
      header.columns = reader.get<ColumnsHeader>();
      if (text) header.images = reader.get<ImagesHeader>();
      if (text) header.tokens = reader.get<TokensHeader>();
      const std::uint64_t widest = std::max(header.columns.fields, header.columns.dense_columns);
      if (widest > 65536) return;  // the places would not fit 64 bits
    }
    const std::string payload(text_of(reader.rest()));
    const PayloadLayout places(header, 0);
    header.payload_hash = content_hash(payload);
    if (places.label_index <= places.feature_index && places.feature_index <= payload.size()) {
      const std::string_view head = payload;
      header.head_hash = content_hash(head.substr(0, places.label_index));
      header.label_hash =
          content_hash(head.substr(places.label_index, places.feature_index - places.label_index));
    }
    file = std::string(text_of(sealed_header(header))) + payload;
    // The same sums for both readers; those of the rows end the second one, after it has read them.
    const RowChoice some{.rows =
                             [](const Dataset& outline) {
                               std::vector<Index> rows(outline.rows());
                               std::iota(rows.rbegin(), rows.rend(), 0U);
                               return rows;
                             },
                         .needs_labels = size % 2 == 0};
    try {
      require_valid(decode_binary_rows(MemorySource(file), "fuzz", some).parsed.data);
    } catch (const Error&) {
    }
    require_valid(decode_binary(MemorySource(file), "fuzz").parsed.data);
  } catch (const Error&) {
  }
}

}  // namespace hetsgd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  hetsgd::HETSGD_FUZZED(bytes, size);
  return 0;
}
