// The micro-kernel of convolutions with a channel in each lane (channel_lanes.hpp):
//
//   to_i[lane] = start_i[lane] + sum over d of from_i[step_d] b[d][lane].
//
// Unlike the tile of dense products (tile.hpp), rows and depth go through lists of places, so that
// windows of an image are summed where they lie.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "linalg/cores/cores.hpp"
#include "linalg/cpu/tile.hpp"

namespace hetsgd::cpu {

// Rows of a tile. The first `count` are wanted; the others repeat the last one.
template <class Real>
struct TileRows {
  const Real* from[kTileRows];
  Real* to[kTileRows];
  std::size_t count;
};

// The terms of a tile's sums: `segments` runs of `depth` terms each. The strides lead from one run
// to the next.
template <class Real>
struct TileDepth {
  std::size_t depth;
  const std::size_t* step;
  const Real* b;  // [depth x (vectors * lanes)]
  std::size_t segments = 1, from_stride = 0, b_stride = 0;
};

// `start` holds [vectors * lanes] values for every row; null: the sums start with `to`.
template <class Real, int vectors>
void add_tile(const TileRows<Real>& rows, const TileDepth<Real>& sums, const Real* start) {
  constexpr std::size_t kWidth = vectors * kLanes<Real>;
  Vec<Real> sum[kTileRows][vectors] = {};
  const Real* from[kTileRows];
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; ++i) from[i] = rows.from[i];
  for (std::size_t segment = 0; segment < sums.segments; ++segment) {
    const Real* b = sums.b + segment * sums.b_stride;
    for (std::size_t d = 0; d < sums.depth; ++d, b += kWidth) {
      const std::size_t at = sums.step[d];
      Vec<Real> bd[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        bd[v] = load(b + static_cast<std::size_t>(v) * kLanes<Real>);
      }
#pragma GCC unroll 16
      for (int i = 0; i < kTileRows; ++i) {
        const Vec<Real> x = broadcast(from[i][at]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sum[i][v] = fused(x, bd[v], sum[i][v]);
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i) from[i] += sums.from_stride;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; ++i) {
    if (static_cast<std::size_t>(i) >= rows.count) break;
    const Real* const plus = start ? start : rows.to[i];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const std::size_t lane = static_cast<std::size_t>(v) * kLanes<Real>;
      store(rows.to[i] + lane, load(plus + lane) + sum[i][v]);
    }
  }
}

// Calls tile(rows) for tiles that cover `count` rows; row i reads from(i) and writes to(i).
template <class Real, class From, class To, class Tile>
HETSGD_INLINE void for_tiles(std::size_t count, From&& from, To&& to, Tile&& tile) {
  constexpr std::size_t kRows = kTileRows;
  TileRows<Real> rows;
  for (std::size_t first = 0; first < count; first += kRows) {
    rows.count = std::min(kRows, count - first);
    for (std::size_t i = 0; i < kRows; ++i) {
      const std::size_t at = first + std::min(i, rows.count - 1);
      rows.from[i] = from(at);
      rows.to[i] = to(at);
    }
    tile(rows);
  }
}

// The channels of a group in lanes. kTileVectors vectors of channels are a panel. If the number of
// vectors is odd, the last one is a panel of its own.
template <class Real>
struct ChannelPanels {
  static constexpr std::size_t kPair = kTileVectors * kLanes<Real>;

  std::size_t channels;
  std::size_t lanes() const { return (channels + kLanes<Real> - 1) / kLanes<Real> * kLanes<Real>; }
  std::size_t count() const { return (channels + kPair - 1) / kPair; }

  // Calls f(first lane, number of channels there, integral_constant<vectors>) for one panel.
  template <class F>
  void visit(std::size_t panel, F&& f) const {
    const std::size_t lane = panel * kPair, wanted = std::min(kPair, channels - lane);
    if (lanes() - lane >= kPair) {
      f(lane, wanted, std::integral_constant<int, kTileVectors>{});
    } else {
      f(lane, wanted, std::integral_constant<int, 1>{});
    }
  }
};

}  // namespace hetsgd::cpu
