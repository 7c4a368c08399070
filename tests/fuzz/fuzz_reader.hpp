// What the readers' fuzz targets share.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "core/error.hpp"
#include "data/image_files.hpp"
#include "data/summary.hpp"
#include "data/text_parser.hpp"

namespace hetsgd {

inline void require_valid(const Dataset& data) {
  for (const std::string& finding : verify(data)) {
    std::cerr << "finding: " << finding << '\n';
    std::abort();
  }
}

// The first byte chooses the options, the rest is the text.
inline void fuzz_text(const std::uint8_t* bytes, std::size_t size, DataFormat format) {
  if (size == 0) return;
  LoadOptions options;
  options.threads = 1;
  options.format = format;
  options.index_base = static_cast<IndexBase>(bytes[0] % 3);
  if ((bytes[0] & 0x10) != 0) options.task = static_cast<Task>((bytes[0] >> 5) % 3);
  if ((bytes[0] & 0x08) != 0) {
    options.minimum_features = 7;
    options.minimum_labels = 3;
    options.label_names = {"-1", "1"};
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  try {
    require_valid(*parse_text(text, "fuzz", options).data);
  } catch (const Error&) {
  }
}

// The first byte tells what part of the rest are the images; the labels follow.
inline void fuzz_idx(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return;
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  const std::size_t images = text.size() * bytes[0] / 256;
  try {
    require_valid(parse_idx(text.substr(0, images), text.substr(images), "fuzz").data);
  } catch (const Error&) {
  }
}

// Of whichever form the bytes have, and of the form that the first byte states.
inline void fuzz_cifar(const std::uint8_t* bytes, std::size_t size) {
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

// The same of click data, with a vocabulary of this text, of another one, or hashed.
inline void fuzz_clicks(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return;
  LoadOptions options;
  options.threads = 1;
  options.format = DataFormat::criteo;
  options.vocabulary.min_frequency = 1 + bytes[0] % 4;
  if ((bytes[0] & 0x10) != 0) options.vocabulary.hash_size = 1 + bytes[0] % 7;
  if ((bytes[0] & 0x20) != 0) options.held_out = {HeldOut::Which::tail, 0.5};
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  try {
    const LoadedData train = parse_text(text, "fuzz", options);
    require_valid(*train.data);
    require_valid(
        *parse_text(text.substr(0, text.size() / 2), "fuzz", options_for_test(options, train))
             .data);
  } catch (const Error&) {
  }
}

}  // namespace hetsgd
