// The binary form from inside: what its writer and its two readers share (data/binary.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "data/binary.hpp"
#include "data/huge_pages.hpp"
#include "data/source.hpp"

namespace hetsgd {

struct BinaryHeader {
  std::array<char, 8> magic{};
  std::uint32_t version = 0;
  std::uint32_t header_bytes = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t payload_hash = 0;
  std::uint64_t head_hash = 0;   // of the payload up to label_index
  std::uint64_t label_hash = 0;  // of label_index
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
static_assert(sizeof(BinaryHeader) == 136 && std::is_trivially_copyable_v<BinaryHeader>);

// Bytes from `size` to the next multiple of 8.
inline std::size_t padding(std::size_t size) { return (8 - size % 8) % 8; }

// Of a row's labels, feature indices and values.
std::uint32_t row_sum(const Dataset& data, std::uint64_t row);

// Takes pieces off the front of the payload, with their sum; the sizes were checked before.
class PayloadReader {
 public:
  explicit PayloadReader(const ByteSource& file) : file_(file) {}

  // Into `to`, with the padding that follows.
  void take(std::span<char> to);
  template <class T>
  void take_into(std::vector<T>& values, std::uint64_t count) {
    resize_on_huge_pages(values, count);
    take({reinterpret_cast<char*>(values.data()), count * sizeof(T)});
  }
  // Passes over a piece: its bytes count for the sum.
  void skip(std::uint64_t size);
  // Of all that was taken so far.
  std::uint64_t sum() const { return sum_.value(); }
  std::uint64_t place() const { return place_; }  // in the file, of the next piece
  // From here on the sum is of what comes.
  void restart_sum() { sum_ = {}; }

 private:
  const ByteSource& file_;
  std::uint64_t place_ = sizeof(BinaryHeader);
  RunningHash sum_;
};

// Error(data) for other versions and a damaged header.
// Guards against counts that do not fit the file, before anything is allocated by them.
BinaryHeader read_header(const ByteSource& file, const std::string& path);
void check_sum(std::uint64_t found, std::uint64_t expected, const char* what,
               const std::string& path);
// All but the rows. `names`: the block of names.
void read_description(const BinaryHeader& header, std::string_view names, DecodedBinary& result,
                      const std::string& path);
void require_valid(const Dataset& data, const std::string& path);

}  // namespace hetsgd
