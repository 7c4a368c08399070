#include "linalg/cpu/gemm.hpp"

#include "linalg/cpu/bf16_factors.hpp"
#include "linalg/cpu/panel.hpp"
#include "linalg/cpu/tile.hpp"

namespace hetsgd::cpu {

namespace {

// Blocks of the operands that stay in caches while they are reused: kDepth x kBlockColumns of
// op(B), one panel of kPanel columns (32 KiB) at a time in L1; kBlockRows x kDepth of op(A) in L2.
// kDepth is also the length of a sum, and so affects its bits.
constexpr std::size_t kDepth = 256;
constexpr std::size_t kBlockColumns = 512;
constexpr std::size_t kBlockRows = 256 / kProductRows * kProductRows;  // whole tiles
// Elements of a left operand up to which it is read in place.
constexpr std::size_t kFewNumbers = std::size_t{1} << 15;

// A block of op(A), rows by strides. Tile t of kProductRows rows begins at data + t * tile; its
// element (i, k) lies i * row + k * depth after that.
template <class Real>
struct LeftBlock {
  const Real* data;
  std::size_t tile, row, depth;
};

template <class Real>
LeftBlock<Real> in_place(const GemmArguments<Real>& g, Range rows, Range k) {
  return {g.A + rows.begin * g.a_row + k.begin * g.a_k, kProductRows * g.a_row, g.a_row, g.a_k};
}

// A copy of the block: tiles one after the other, in each k by k (A transposed) or row by row. So
// the data that the tiles of many panels read again and again lie in one piece. In place the rows
// of a tile are often a power of two apart. Then they evict each other from the caches, and every
// row costs a TLB entry.
template <class Real>
LeftBlock<Real> pack_left(const GemmArguments<Real>& g, Range rows, Range k, Real* to) {
  const LeftBlock<Real> block = in_place(g, rows, k);
  if (g.a_row != 1) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Real* const from = block.data + i * g.a_row;
      for (std::size_t kk = 0; kk < k.size(); ++kk) to[i * k.size() + kk] = from[kk * g.a_k];
    }
    return {to, kProductRows * k.size(), k.size(), 1};
  }
  // Two tiles at a time: a cache line of A.
  const std::size_t tile = kProductRows * k.size();
  for (std::size_t i = 0; i < rows.size(); i += 2 * kProductRows) {
    const std::size_t left = rows.size() - i;
    const std::size_t first = std::min<std::size_t>(left, kProductRows);
    const std::size_t second = std::min<std::size_t>(left - first, kProductRows);
    Real* pair = to + i * k.size();
    const Real* from = block.data + i;
    for (std::size_t kk = 0; kk < k.size(); ++kk, from += g.a_k, pair += kProductRows) {
      if (second == kProductRows) {
        for (std::size_t r = 0; r < kProductRows; ++r) pair[r] = from[r];
        for (std::size_t r = 0; r < kProductRows; ++r) pair[tile + r] = from[kProductRows + r];
      } else {
        for (std::size_t r = 0; r < first; ++r) pair[r] = from[r];
        for (std::size_t r = 0; r < second; ++r) pair[tile + r] = from[kProductRows + r];
      }
    }
  }
  return {to, tile, 1, kProductRows};
}

// Calls vectors(j) for every vector of a row of `columns` elements, and numbers(j) for the elements
// at its end.
template <class Real, class Vectors, class Numbers>
HETSGD_INLINE void for_numbers(std::size_t columns, const Vectors& vectors,
                               const Numbers& numbers) {
  std::size_t j = 0;
  for (; j + kLanes<Real> <= columns; j += kLanes<Real>) vectors(j);
  for (; j < columns; ++j) numbers(j);
}

// Applies bias or activation to the complete sums of some rows and columns. NaN stays NaN.
template <class Real>
HETSGD_INLINE void finish(const GemmArguments<Real>& g, Range rows, Range columns) {
  for (std::size_t i = rows.begin; i < rows.end; ++i) {
    Real* const c = g.C + i * g.ldc + columns.begin;
    if (g.bias) {
      const Real* const b = g.bias + columns.begin;
      for_numbers<Real>(
          columns.size(),
          [&](std::size_t j) { store(c + j, vector_relu<Real>(load(c + j) + load(b + j))); },
          [&](std::size_t j) {
            const Real x = c[j] + b[j];
            c[j] = x < Real(0) ? Real(0) : x;
          });
    } else {
      const Real* const y = g.activation + i * g.ldc + columns.begin;
      for_numbers<Real>(
          columns.size(),
          [&](std::size_t j) {
            store(c + j, select(load(y + j) <= Vec<Real>{}, Vec<Real>{}, load(c + j)));
          },
          [&](std::size_t j) { c[j] = y[j] <= Real(0) ? Real(0) : c[j]; });
    }
  }
}

// Multiplies a block by one panel. complete: these are the last terms of the sums.
template <class Real, int vectors>
void multiply_panel(const GemmArguments<Real>& g, Range rows, const LeftBlock<Real>& left,
                    std::size_t depth, Real beta, std::size_t j0, const Real* panel, std::size_t ld,
                    bool complete) {
  const bool finishes = complete && (g.bias || g.activation);
  const std::size_t end = std::min(g.n, j0 + vectors * kLanes<Real>);
  for_row_tiles<kProductRows>(rows.size(), [&](std::size_t i, auto tile) {
    constexpr int kTile = decltype(tile)::value;
    Real* const C = g.C + (rows.begin + i) * g.ldc + j0;
    for (int r = 0; r < kTile; ++r) {  // prefetches C, needed last, while there is work to do
      const Real* const row = C + static_cast<std::size_t>(r) * g.ldc;
      for (int v = 0; v < vectors; ++v) __builtin_prefetch(row + v * kLanes<Real>, 1);
    }
    Vec<Real> sum[kTile][vectors] = {};
    const Real* a = left.data + i / kProductRows * left.tile + i % kProductRows * left.row;
    if (left.row == 1) {
      accumulate<Real, kTile, vectors>(depth, a, 1, left.depth, panel, ld, sum);
    } else {
      accumulate<Real, kTile, vectors>(depth, a, left.row, left.depth, panel, ld, sum);
    }
    write_tile<Real, kTile, vectors>(sum, g.alpha, beta, C, g.ldc, g.n - j0);
    if (finishes) finish(g, {rows.begin + i, rows.begin + i + kTile}, {j0, end});
  });
}

// A core's room for packed operands.
template <class Real>
struct Packs {
  static constexpr std::size_t kSize = (kBlockRows + kBlockColumns) * kDepth;
  Real* left;   // [kBlockRows x kDepth]
  Real* right;  // [kBlockColumns / kPanel panels x kDepth x kPanel]
};

// Multiplies one chunk of k for the columns of a block. A panel of B is packed when its first rows
// need it; the rows of further blocks reuse it.
template <class Real>
void multiply_chunk(const GemmArguments<Real>& g, Range rows, Range columns, Range k,
                    const Packs<Real>& packs) {
  // A copy of A pays off if several panels read it and no cache next to the core holds all of it.
  const bool copy = columns.size() > 2 * kPanel<Real> && rows.size() * k.size() > kFewNumbers;
  // A copy of B does not pay off for one or two rows, as in the gradient of a weight vector.
  const bool few = rows.size() <= 2 && g.b_column == 1;
  const std::size_t next_panel = rows.size() > kBlockRows ? kDepth * kPanel<Real> : 0;
  const Real beta = k.begin == 0 ? g.beta : Real(1);
  for (std::size_t i = rows.begin; i < rows.end; i += kBlockRows) {
    const Range block{i, std::min(rows.end, i + kBlockRows)};
    const LeftBlock<Real> left = copy ? pack_left(g, block, k, packs.left) : in_place(g, block, k);
    Real* slot = packs.right;
    for (std::size_t j = columns.begin; j < columns.end; j += kPanel<Real>, slot += next_panel) {
      const Real* panel = slot;
      std::size_t ld = kPanel<Real>;
      if (few && g.n - j >= kPanel<Real>) {
        panel = g.B + k.begin * g.b_k + j;
        ld = g.b_k;
      } else if (i == rows.begin || next_panel == 0) {
        pack_panel(g.B + k.begin * g.b_k + j * g.b_column, g.b_k, g.b_column, k.size(),
                   std::min(kPanel<Real>, g.n - j), slot);
      }
      if (g.n - j > kLanes<Real>) {
        multiply_panel<Real, kTileVectors>(g, block, left, k.size(), beta, j, panel, ld,
                                           k.end == g.k);
      } else {
        multiply_panel<Real, 1>(g, block, left, k.size(), beta, j, panel, ld, k.end == g.k);
      }
    }
  }
}

template <class Real>
void multiply(const GemmArguments<Real>& g, Range rows, Range columns, Real* pack) {
  const Packs<Real> packs{pack, pack + kBlockRows * kDepth};
  for (std::size_t j = columns.begin; j < columns.end; j += kBlockColumns) {
    std::size_t k0 = 0;
    do {  // once for k = 0 too: C <- beta C
      const Range k{k0, std::min(g.k, k0 + kDepth)};
      multiply_chunk(g, rows, {j, std::min(columns.end, j + kBlockColumns)}, k, packs);
      k0 = k.end;
    } while (k0 < g.k);
  }
}

// Whether parts are columns rather than rows of C, whichever gives the largest part less work. A
// part packs the columns of B that it needs; packing a column takes the time of some kPacked
// products.
template <class Real>
bool by_columns(const GemmArguments<Real>& g, std::size_t parts) {
  constexpr std::size_t kPacked = 32;
  const auto largest = [&](std::size_t n, std::size_t unit) {
    const std::size_t units = (n + unit - 1) / unit;
    return std::min(n, (units + parts - 1) / parts * unit);
  };
  const std::size_t rows = largest(g.m, kProductRows), columns = largest(g.n, kPanel<Real>);
  return (g.m + kPacked) * columns <= (rows + kPacked) * g.n;
}

// --- factors in BF16 --------------------------------------------------------------------------

constexpr std::size_t kBf16BlockRows = 256;
constexpr std::size_t kGroupRows = 4 * kBf16BlockRows;  // rows whose S is in memory at a time

// A core's room. S begins anew with each panel if a chunk has all of k; else it is
// [panels of a block of columns][kGroupRows x kPanel].
struct Bf16Packs {
  explicit Bf16Packs(float* room)
      : left(room), right(left + kBf16BlockRows * kDepth), S(right + kBlockColumns * kDepth) {}
  float *left, *right, *S;
};
static_assert((kBf16BlockRows + kBlockColumns) * kDepth + kGroupRows * kBlockColumns <= kBf16Room);
static_assert(kDepth % kBf16Block == 0 && kBf16BlockRows % kBf16Padding == 0);

// C <- alpha S + beta C and what follows, for the panel from column j0 on.
void write_panel(const GemmArguments<float>& g, Range rows, std::size_t j0, const float* S) {
  const Range columns{j0, std::min(g.n, j0 + kPanel<float>)};
  for (std::size_t i = rows.begin; i < rows.end; ++i, S += kPanel<float>) {
    Vec<float> sum[1][kTileVectors];
    load_tile<float, 1, kTileVectors>(S, kPanel<float>, sum);
    write_tile<float, 1, kTileVectors>(sum, g.alpha, g.beta, g.C + i * g.ldc + j0, g.ldc, g.n - j0);
    if (g.bias || g.activation) finish(g, {i, i + 1}, columns);
  }
}

// One chunk of k for a block of columns and a group of rows.
void multiply_chunk_bf16(const GemmArguments<float>& g, Range rows, Range columns, Range k,
                         const Bf16Packs& packs) {
  const bool whole = k.size() == g.k;
  for (std::size_t i = rows.begin; i < rows.end; i += kBf16BlockRows) {
    const Range block{i, std::min(rows.end, i + kBf16BlockRows)};
    pack_bf16_left(block.size(), k.size(), g.A + i * g.a_row + k.begin * g.a_k, g.a_row, g.a_k,
                   packs.left);
    for (std::size_t j = columns.begin; j < columns.end; j += kPanel<float>) {
      float* const right = packs.right + (j - columns.begin) * kDepth;
      const std::size_t width = std::min(kPanel<float>, g.n - j);
      if (i == rows.begin) {
        pack_bf16_right(k.size(), width, g.B + k.begin * g.b_k + j * g.b_column, g.b_k, g.b_column,
                        right);
      }
      float* const S =
          whole ? packs.S
                : packs.S + (j - columns.begin) * kGroupRows + (i - rows.begin) * kPanel<float>;
      multiply_bf16(block.size(), width, k.size(), packs.left, right, k.begin == 0, S);
      if (k.end == g.k) write_panel(g, block, j, S);
    }
  }
}

void multiply_bf16(const GemmArguments<float>& g, Range rows, Range columns, float* room) {
  const Bf16Packs packs(room);
  for (std::size_t i = rows.begin; i < rows.end; i += kGroupRows) {
    const Range group{i, std::min(rows.end, i + kGroupRows)};
    for (std::size_t j = columns.begin; j < columns.end; j += kBlockColumns) {
      const Range block{j, std::min(columns.end, j + kBlockColumns)};
      std::size_t k0 = 0;
      do {  // once for k = 0 too: C <- beta C
        const Range k{k0, std::min(g.k, k0 + kDepth)};
        multiply_chunk_bf16(g, group, block, k, packs);
        k0 = k.end;
      } while (k0 < g.k);
    }
  }
}

// Calls multiply(rows, columns, room) for the parts of a product that the cores take. Each has
// `each` numbers of room.
template <class Real, class Multiply>
void divide(const Cores& cores, const GemmArguments<Real>& g, std::size_t each, Scratch<Real>& pack,
            const Multiply& multiply) {
  if (g.m == 0 || g.n == 0) return;
  // A hand-over to another core costs a microsecond. Below this much work one core does it all.
  constexpr std::size_t kWorthSharing = std::size_t{1} << 18;
  const std::size_t worth = kWorthSharing * cores.hand_over_cost();
  const std::size_t parts = g.m * g.n * (g.k + 1) < worth ? 1 : cores.count();
  Real* const room = pack.reserve(each * parts);
  const bool by_column = by_columns(g, parts);
  cores.run(parts, [&](std::size_t part) {
    const Range rows = by_column ? Range{0, g.m} : part_of(g.m, parts, part, kProductRows);
    const Range columns = by_column ? part_of(g.n, parts, part, kPanel<Real>) : Range{0, g.n};
    if (rows.size() > 0) multiply(rows, columns, room + part * each);
  });
}

}  // namespace

template <class Real>
void gemm(const Cores& cores, const GemmArguments<Real>& g, Scratch<Real>& pack) {
  divide(cores, g, Packs<Real>::kSize, pack,
         [&](Range rows, Range columns, Real* room) { multiply(g, rows, columns, room); });
}

template void gemm<float>(const Cores&, const GemmArguments<float>&, Scratch<float>&);
template void gemm<double>(const Cores&, const GemmArguments<double>&, Scratch<double>&);

void gemm_bf16(const Cores& cores, const GemmArguments<float>& g, Scratch<float>& pack) {
  divide(cores, g, kBf16Room, pack,
         [&](Range rows, Range columns, float* room) { multiply_bf16(g, rows, columns, room); });
}

void gemm_bf16_here(const GemmArguments<float>& g, float* room) {
  multiply_bf16(g, {0, g.m}, {0, g.n}, room);
}

}  // namespace hetsgd::cpu
