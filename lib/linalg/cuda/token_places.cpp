#include "linalg/cuda/token_places.hpp"

#include <algorithm>

namespace hetsgd::cuda {

bool TokenPlaces::are_kept(const TokenSpans& rows) const {
  return map_.piece != nullptr && map_.tokens == rows.tokens && map_.rows == rows.rows &&
         std::equal(rows.begin, rows.begin + rows.rows, host_.begin()) &&
         std::equal(rows.length, rows.length + rows.rows,
                    host_.begin() + static_cast<std::ptrdiff_t>(rows.rows));
}

const TokenMap& TokenPlaces::of(const TokenSpans& rows) {
  backend_.use();
  if (are_kept(rows)) return map_;
  constexpr std::size_t kPieceNumbers = sizeof(TokenPiece) / sizeof(std::uint32_t);
  const std::size_t steps = 2 * rows.rows, pieces = steps + rows.tokens;
  host_.assign(rows.begin, rows.begin + rows.rows);
  host_.insert(host_.end(), rows.length, rows.length + rows.rows);
  host_.resize(pieces, kPaddingStep);
  std::size_t used = 0;
  for (std::uint32_t r = 0; r < rows.rows; ++r) {
    const std::uint32_t begin = rows.begin[r], length = rows.length[r];
    used += length;
    for (std::uint32_t t = 0; t < length; ++t) host_[steps + begin + t] = t;
    for (std::uint32_t first = 0; first < length; first += kPieceSteps) {
      host_.insert(host_.end(), {r, begin, length, first});
    }
  }
  auto* const device = memory_.reserve<std::uint32_t>(host_.size(), "the places of tokens");
  backend_.transfer.upload(device, host_.data(), host_.size() * sizeof(std::uint32_t));
  map_ = {.tokens = rows.tokens,
          .rows = rows.rows,
          .pieces = (host_.size() - pieces) / kPieceNumbers,
          .used = used,
          .begin = device,
          .length = device + rows.rows,
          .step = device + steps,
          .piece = reinterpret_cast<const TokenPiece*>(device + pieces)};
  return map_;
}

}  // namespace hetsgd::cuda
