// Where the rows of a batch of tokens lie, in the GPU's memory: TokenSpans in the forms that
// kernels read. Free of fmt, because CUDA sources include this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "linalg/cuda/backend.hpp"
#include "linalg/operands.hpp"

namespace hetsgd::cuda {

// At most kPieceSteps steps of a row, from step `first` on.
inline constexpr std::uint32_t kPieceSteps = 64;
struct TokenPiece {
  std::uint32_t row, begin, length;  // the row, its first token and its number of tokens
  std::uint32_t first;
};

inline constexpr std::uint32_t kPaddingStep = 0xFFFFFFFFU;

struct TokenMap {
  std::size_t tokens = 0, rows = 0, pieces = 0;
  std::size_t used = 0;                   // tokens that are no padding
  const std::uint32_t* begin = nullptr;   // [rows]
  const std::uint32_t* length = nullptr;  // [rows]
  const std::uint32_t* step = nullptr;    // [tokens] in its row, or kPaddingStep
  const TokenPiece* piece = nullptr;      // [pieces] all rows' in their order
};

class TokenPlaces {
 public:
  explicit TokenPlaces(Backend& backend) : backend_(backend), memory_(backend.stream) {}

  // Makes the GPU current. The map is valid until the next call, and is copied to the GPU only if
  // the rows are not those of the call before.
  const TokenMap& of(const TokenSpans& rows);

 private:
  bool are_kept(const TokenSpans& rows) const;

  Backend& backend_;
  DeviceMemory memory_;
  std::vector<std::uint32_t> host_;  // begin, length, step, pieces
  TokenMap map_;
};

}  // namespace hetsgd::cuda
