// The binary form of a data set, used by the cache and by converted `.hsgd` files.
//
// Layout (little endian): the sealed header (core/byte_stream.hpp), then the payload:
// feature_begin, label_begin (64 bit), row_sum, the fields' first and value (32 bit), the tokens'
// begin (64 bit), length and bytes, label_index, feature_index, feature_value, category, dense (32
// bit), pixel (8 bit), token (16 bit). An array that a data set lacks takes no bytes. The header
// and each array end with zeros up to a multiple of 64 bytes. Sums (XXH3-64): one each of the
// header, the whole payload, the arrays before label_index, and label_index, and 32 bits of each
// row's. So damage is also found when only some rows are read.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/binary_format.hpp"

namespace hetsgd {

// Tells by the first bytes.
bool is_binary_dataset(const ByteSource& file);

// Calls `write` for the pieces of the file, in order. The caller may use `key` as it likes (the
// cache stores its own key).
void encode_binary(const Dataset& data, const LoadReport& report, std::uint64_t key,
                   const std::function<void(std::string_view)>& write);

// Reads what encode_binary() wrote. Throws Error(data) naming `path` for other versions, damage of
// any kind (sizes, sums) and content that is no valid data set. Reads every byte once, and checks
// the sums of the bytes that it has read, so that a file may change at any time. `in_place`, if
// given, is the whole file: it is not read again but becomes the data set's memory, and its bytes
// must stay as they are.
DecodedBinary decode_binary(const ByteSource& file, const std::string& path,
                            std::shared_ptr<const char> in_place = nullptr);

// Reads some rows only (RowChoice::rows must not be empty) and sets `whole`. It reads the names,
// row starts and row sums, the labels if `choice` needs them, and these rows in file order. The
// report is that of the whole data set.
DecodedBinary decode_binary_rows(const ByteSource& file, const std::string& path,
                                 const RowChoice& choice);

}  // namespace hetsgd
