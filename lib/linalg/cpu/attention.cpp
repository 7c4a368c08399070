// Attention on the CPU. One task is a head of a row, so that nothing is shared between tasks and
// nothing is added across them; long rows come first. A task goes through blocks of 64 queries and
// 64 keys, both in ascending order.
//
// A tile of scores lies key by key, [64 keys x 64 queries], so that the queries are in the lanes of
// vectors and softmax needs no sums across lanes. The operands of the head are copied into scratch
// first: as rows of `depth` elements, padded to whole panels of vectors, and where queries must be
// lanes as blocks [depth x 64]. Nothing grows with the square of the length.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "core/random.hpp"
#include "linalg/attention_kernels.hpp"
#include "linalg/cores/memory.hpp"
#include "linalg/cpu/backend.hpp"
#include "linalg/cpu/lane_sum.hpp"
#include "linalg/cpu/lanes.hpp"
#include "linalg/cpu/tile.hpp"

namespace hetsgd::cpu {

namespace {

constexpr std::size_t kSide = 64;
constexpr std::size_t kTile = kSide * kSide;

// to[rows x columns] = a b, or += it: a(i, k) = a[i a_row + k a_k], b(k) = b + k ldb. `columns` is
// a multiple of kPanel. terms(i, end, j): the range of k of rows i .. end and columns from j on.
template <class Real, bool add, class Terms>
HETSGD_INLINE void multiply(std::size_t rows, std::size_t columns, const Real* a, std::size_t a_row,
                            std::size_t a_k, const Real* b, std::size_t ldb, Real* to,
                            std::size_t ld, const Terms& terms) {
  for (std::size_t j = 0; j < columns; j += kPanel<Real>) {
    for_row_tiles<kProductRows>(rows, [&](std::size_t i, auto tile) {
      constexpr int kRows = decltype(tile)::value;
      const Range k = terms(i, i + kRows, j);
      if (k.size() == 0) return;
      Real* const c = to + i * ld + j;
      Vec<Real> sum[kRows][kTileVectors] = {};
      if constexpr (add) load_tile<Real, kRows, kTileVectors>(c, ld, sum);
      accumulate<Real, kRows, kTileVectors>(k.size(), a + i * a_row + k.begin * a_k, a_row, a_k,
                                            b + k.begin * ldb + j, ldb, sum);
      store_tile<Real, kRows, kTileVectors>(sum, c, ld);
    });
  }
}

// The sizes of a head of a row.
template <class Real>
struct HeadSizes {
  HeadSizes(const AttentionShape& shape, std::size_t length)
      : tokens(length),
        blocks((length + kSide - 1) / kSide),
        depth(shape.depth()),
        width((depth + kPanel<Real> - 1) / kPanel<Real> * kPanel<Real>) {}

  std::size_t rows() const { return blocks * kSide * width; }  // elements of an operand
  // Queries as rows and lanes, keys, values; a block of outputs, a tile, and the maximum, sum and
  // factor of a block's queries.
  std::size_t forward() const { return 4 * rows() + kSide * width + kTile + 3 * kSide; }
  // Queries and dY as rows and lanes, keys, values and their gradients; a block of gradients of
  // queries, three tiles, and l and dY.Y of a block's queries.
  std::size_t backward() const { return 8 * rows() + kSide * width + 3 * kTile + 2 * kSide; }

  std::size_t tokens, blocks, depth;
  std::size_t width;  // of a row in scratch
};

template <class Real>
class Head {
 public:
  Head(const AttentionShape& shape, std::size_t row, std::size_t head, std::size_t tokens,
       Real* scratch)
      : shape_(shape),
        size_(shape, tokens),
        row_(row),
        head_(head),
        scale_(Real(1) / std::sqrt(static_cast<Real>(size_.depth))),
        next_(scratch) {}

  // X, Y, dY and dX begin at the row's first token, l at this token's of the head.
  void forward(const Real* X, Real* l, Real* Y);
  void backward(const Real* X, const Real* l, const Real* Y, const Real* dY, Real beta, Real* dX);

 private:
  // The tile of a block of queries and a block of keys.
  struct Place {
    std::size_t query_block, key_block, queries, keys;
    bool diagonal;  // later keys have no weight
  };

  Real* take(std::size_t count) { return std::exchange(next_, next_ + count); }
  Place place(std::size_t query_block, std::size_t key_block) const {
    const auto count = [&](std::size_t block) {
      return std::min(kSide, size_.tokens - block * kSide);
    };
    return {query_block, key_block, count(query_block), count(key_block),
            shape_.causal && query_block == key_block};
  }
  std::size_t key_blocks(std::size_t query_block) const {
    return shape_.causal ? query_block + 1 : size_.blocks;
  }
  const Real* block_of(const Real* operand, std::size_t block) const {
    return operand + block * kSide * size_.width;
  }
  Real* block_of(Real* operand, std::size_t block) const {
    return operand + block * kSide * size_.width;
  }

  const Real* pack_rows(const Real* from, std::size_t stride, Real factor);
  const Real* pack_lanes(const Real* rows);
  void score(const Place& at, const Real* lanes, const Real* rows, Real* tile) const;
  void hide_later_keys(const Place& at, Real* tile) const;
  static void exponentiate(std::size_t keys, Real* tile, Real* maximum, Real* sum, Real* factor);
  void drop(const Place& at, Real* tile) const;
  void add_over_keys(const Place& at, const Real* tile, const Real* rows, Real* to) const;
  void add_over_queries(const Place& at, const Real* tile, const Real* rows, Real* to) const;
  void weigh(const Place& at, const Real* l, Real* tile) const;
  void put_gradient(const Real* rows, std::size_t first, std::size_t count, Real factor, Real beta,
                    Real* to) const;

  const AttentionShape& shape_;
  HeadSizes<Real> size_;
  std::size_t row_, head_;
  Real scale_;
  Real* next_;  // of the scratch
};

// Rows of this head, times a factor, from rows `stride` apart.
template <class Real>
const Real* Head<Real>::pack_rows(const Real* from, std::size_t stride, Real factor) {
  Real* const rows = take(size_.rows());
  for (std::size_t t = 0; t < size_.tokens; ++t) {
    Real* const to = rows + t * size_.width;
    const Real* const x = from + t * stride;
    for (std::size_t d = 0; d < size_.depth; ++d) to[d] = factor * x[d];
    std::fill(to + size_.depth, to + size_.width, Real(0));
  }
  std::fill(rows + size_.tokens * size_.width, rows + size_.rows(), Real(0));
  return rows;
}

// The same rows as blocks [depth x 64].
template <class Real>
const Real* Head<Real>::pack_lanes(const Real* rows) {
  Real* const lanes = take(size_.rows());
  for (std::size_t block = 0; block < size_.blocks; ++block) {
    transpose<Real>(kSide, size_.width, block_of(rows, block), size_.width, block_of(lanes, block),
                    kSide);
  }
  return lanes;
}

// tile <- rows of keys times lanes of queries. On the diagonal, panels whose queries all come
// before a key are not computed.
template <class Real>
void Head<Real>::score(const Place& at, const Real* lanes, const Real* rows, Real* tile) const {
  const std::size_t depth = size_.depth;
  const bool diagonal = at.diagonal;
  multiply<Real, false>(at.keys, kSide, block_of(rows, at.key_block), size_.width, 1,
                        block_of(lanes, at.query_block), kSide, tile, kSide,
                        [=](std::size_t key, std::size_t, std::size_t query) {
                          const bool later = diagonal && key >= query + kPanel<Real>;
                          return Range{0, later ? 0 : depth};
                        });
}

template <class Real>
void Head<Real>::hide_later_keys(const Place& at, Real* tile) const {
  for (std::size_t key = 1; at.diagonal && key < at.keys; ++key) {
    std::fill_n(tile + key * kSide, key, -std::numeric_limits<Real>::infinity());
  }
}

// tile <- exp(tile - maximum) with the new maxima; factor <- what older exponentials shrink by.
template <class Real>
void Head<Real>::exponentiate(std::size_t keys, Real* tile, Real* maximum, Real* sum,
                              Real* factor) {
  for (std::size_t query = 0; query < kSide; query += kLanes<Real>) {
    Real* const s = tile + query;
    const Vec<Real> before = load(maximum + query);
    Vec<Real> largest = before;
    for (std::size_t key = 0; key < keys; ++key) {
      largest = vector_max<Real>(largest, load(s + key * kSide));
    }
    Vec<Real> total{};
    for (std::size_t key = 0; key < keys; ++key) {
      const Vec<Real> e = exp_nonpositive(load(s + key * kSide) - largest);
      store(s + key * kSide, e);
      total += e;
    }
    const Vec<Real> shrink = exp_nonpositive(before - largest);
    store(maximum + query, largest);
    store(factor + query, shrink);
    store(sum + query, fused(load(sum + query), shrink, total));
  }
}

// tile <- z tile.
template <class Real>
void Head<Real>::drop(const Place& at, Real* tile) const {
  const auto limit = static_cast<std::uint64_t>(shape_.drop.p * 0x1.0p32);
  const auto kept = static_cast<Real>(1 / (1 - shape_.drop.p));
  for (std::size_t i = 0; i < at.queries; ++i) {
    const std::uint64_t query = at.query_block * kSide + i;
    const std::uint64_t first =
        ((row_ * shape_.heads + head_) * shape_.block + query) * shape_.block +
        at.key_block * kSide;
    RandomBlock words{};
    for (std::size_t j = 0; j < at.keys; ++j) {
      const std::uint64_t element = first + j;
      if (j == 0 || element % 4 == 0) {
        words = random_block(shape_.drop.seed, Purpose::dropout, shape_.drop.a, shape_.drop.b,
                             static_cast<std::uint32_t>(element / 4));
      }
      tile[j * kSide + i] *= words[element % 4] >= limit ? kept : Real(0);
    }
  }
}

// to[query] += sum over keys of tile times rows of keys. `to` begins at the block.
template <class Real>
void Head<Real>::add_over_keys(const Place& at, const Real* tile, const Real* rows,
                               Real* to) const {
  const std::size_t keys = at.keys;
  const bool diagonal = at.diagonal;
  multiply<Real, true>(at.queries, size_.width, tile, 1, kSide, block_of(rows, at.key_block),
                       size_.width, to, size_.width,
                       [=](std::size_t, std::size_t end, std::size_t) {
                         return Range{0, diagonal ? std::min(end, keys) : keys};
                       });
}

// to[key] += sum over queries of tile times rows of queries. `to` begins at the block.
template <class Real>
void Head<Real>::add_over_queries(const Place& at, const Real* tile, const Real* rows,
                                  Real* to) const {
  const std::size_t queries = at.queries;
  const bool diagonal = at.diagonal;
  multiply<Real, true>(at.keys, size_.width, tile, kSide, 1, block_of(rows, at.query_block),
                       size_.width, to, size_.width,
                       [=](std::size_t begin, std::size_t, std::size_t) {
                         return Range{diagonal ? begin : 0, queries};
                       });
}

template <class Real>
void Head<Real>::forward(const Real* X, Real* l, Real* Y) {
  const std::size_t stride = 3 * shape_.width, width = size_.width;
  const Real* const q = X + head_ * size_.depth;
  const Real* const lanes = pack_lanes(pack_rows(q, stride, scale_));
  const Real* const keys = pack_rows(q + shape_.width, stride, Real(1));
  const Real* const values = pack_rows(q + 2 * shape_.width, stride, Real(1));
  Real* const outputs = take(kSide * width);
  Real* const tile = take(kTile);
  Real* const maximum = take(kSide);
  Real* const sum = take(kSide);
  Real* const factor = take(kSide);
  for (std::size_t block = 0; block < size_.blocks; ++block) {
    std::fill_n(outputs, kSide * width, Real(0));
    std::fill_n(maximum, kSide, -std::numeric_limits<Real>::infinity());
    std::fill_n(sum, kSide, Real(0));
    for (std::size_t key_block = 0; key_block < key_blocks(block); ++key_block) {
      const Place at = place(block, key_block);
      score(at, lanes, keys, tile);
      hide_later_keys(at, tile);
      exponentiate(at.keys, tile, maximum, sum, factor);
      for (std::size_t i = 0; key_block > 0 && i < at.queries; ++i) {
        for (std::size_t d = 0; d < width; ++d) outputs[i * width + d] *= factor[i];
      }
      if (shape_.drop.p > 0) drop(at, tile);
      add_over_keys(at, tile, values, outputs);
    }
    for (std::size_t i = 0, token = block * kSide; i < kSide && token < size_.tokens;
         ++i, ++token) {
      l[token] = maximum[i] + std::log(sum[i]);
      const Real inverse = 1 / sum[i];
      Real* const y = Y + token * shape_.width + head_ * size_.depth;
      for (std::size_t d = 0; d < size_.depth; ++d) y[d] = outputs[i * width + d] * inverse;
    }
  }
}

// tile <- exp(tile - l).
template <class Real>
void Head<Real>::weigh(const Place& at, const Real* l, Real* tile) const {
  hide_later_keys(at, tile);
  for (std::size_t query = 0; query < kSide; query += kLanes<Real>) {
    const Vec<Real> sums = load(l + query);
    for (std::size_t key = 0; key < at.keys; ++key) {
      Real* const s = tile + key * kSide + query;
      store(s, exp_nonpositive(load(s) - sums));
    }
  }
}

// Rows of a block as the gradient of `count` tokens of X from `first` on.
template <class Real>
void Head<Real>::put_gradient(const Real* rows, std::size_t first, std::size_t count, Real factor,
                              Real beta, Real* to) const {
  for (std::size_t i = 0; i < count; ++i) {
    const Real* const from = rows + i * size_.width;
    Real* const x = to + (first + i) * 3 * shape_.width + head_ * size_.depth;
    for (std::size_t d = 0; d < size_.depth; ++d) {
      const Real gradient = factor * from[d];
      x[d] = beta == Real(0) ? gradient : beta * x[d] + gradient;
    }
  }
}

//   e_i = dy_i.y_i,  dv_j = sum_i z_ij p_ij dy_i,  ds_ij = p_ij (z_ij dy_i.v_j - e_i),
//   dq_i = sum_j ds_ij k_j / sqrt(D),  dk_j = sum_i ds_ij q_i / sqrt(D)
template <class Real>
void Head<Real>::backward(const Real* X, const Real* l, const Real* Y, const Real* dY, Real beta,
                          Real* dX) {
  const std::size_t stride = 3 * shape_.width, width = size_.width, depth = size_.depth;
  const std::size_t column = head_ * depth;
  const Real* const queries = pack_rows(X + column, stride, scale_);
  const Real* const query_lanes = pack_lanes(queries);
  const Real* const keys = pack_rows(X + column + shape_.width, stride, Real(1));
  const Real* const values = pack_rows(X + column + 2 * shape_.width, stride, Real(1));
  const Real* const dy = pack_rows(dY + column, shape_.width, Real(1));
  const Real* const dy_lanes = pack_lanes(dy);
  Real* const dk = take(size_.rows());
  Real* const dv = take(size_.rows());
  Real* const dq = take(kSide * width);
  Real *const p = take(kTile), *const ds = take(kTile), *const dropped = take(kTile);
  Real *const sums = take(kSide), *const e = take(kSide);
  std::fill_n(dk, size_.rows(), Real(0));
  std::fill_n(dv, size_.rows(), Real(0));
  for (std::size_t block = 0; block < size_.blocks; ++block) {
    const std::size_t first = block * kSide, count = std::min(kSide, size_.tokens - first);
    std::fill_n(dq, kSide * width, Real(0));
    std::fill_n(sums, kSide, Real(0));
    std::fill_n(e, kSide, Real(0));
    std::copy_n(l + first, count, sums);
    for (std::size_t i = 0; i < count; ++i) {
      e[i] = sum_in_lanes<Real>(
          depth, [](auto a, auto b) { return a * b; }, dy + (first + i) * width,
          Y + (first + i) * shape_.width + column);
    }
    for (std::size_t key_block = 0; key_block < key_blocks(block); ++key_block) {
      const Place at = place(block, key_block);
      score(at, query_lanes, keys, p);
      weigh(at, sums, p);
      score(at, dy_lanes, values, ds);
      const Real* weights = p;
      if (shape_.drop.p > 0) {
        std::copy_n(p, kTile, dropped);
        drop(at, dropped);
        drop(at, ds);
        weights = dropped;
      }
      add_over_queries(at, weights, dy, block_of(dv, key_block));
      for (std::size_t key = 0; key < at.keys; ++key) {
        for (std::size_t i = at.diagonal ? key : 0; i < kSide; ++i) {
          ds[key * kSide + i] = p[key * kSide + i] * (ds[key * kSide + i] - e[i]);
        }
        std::fill_n(ds + key * kSide, at.diagonal ? key : 0, Real(0));
      }
      add_over_queries(at, ds, queries, block_of(dk, key_block));
      add_over_keys(at, ds, keys, dq);
    }
    put_gradient(dq, first, count, scale_, beta, dX);
  }
  put_gradient(dk, 0, size_.tokens, Real(1), beta, dX + shape_.width);
  put_gradient(dv, 0, size_.tokens, Real(1), beta, dX + 2 * shape_.width);
}

template <class Real>
class CpuAttentionKernels final : public BasicAttentionKernels<Real> {
 public:
  explicit CpuAttentionKernels(const Cores& cores) : cores_(cores), scratch_(cores) {}

  void attention(const AttentionShape& shape, const TokenSpans& rows, const Real* X, Real* sums,
                 Real* Y) override {
    each_head(shape, rows, longest(shape, rows).forward(), [&](const auto& task, Real* scratch) {
      const std::size_t first = rows.begin[task.row];
      Head<Real>(shape, task.row, task.head, rows.length[task.row], scratch)
          .forward(X + first * 3 * shape.width, sums + task.head * rows.tokens + first,
                   Y + first * shape.width);
    });
    clear_padding(rows, shape.width, Y);
  }

  void attention_gradient(const AttentionShape& shape, const TokenSpans& rows, const Real* X,
                          const Real* sums, const Real* Y, const Real* dY, Real beta,
                          Real* dX) override {
    each_head(shape, rows, longest(shape, rows).backward(), [&](const auto& task, Real* scratch) {
      const std::size_t first = rows.begin[task.row];
      Head<Real>(shape, task.row, task.head, rows.length[task.row], scratch)
          .backward(X + first * 3 * shape.width, sums + task.head * rows.tokens + first,
                    Y + first * shape.width, dY + first * shape.width, beta,
                    dX + first * 3 * shape.width);
    });
    if (beta == Real(0)) clear_padding(rows, 3 * shape.width, dX);
  }

 private:
  struct Task {
    std::size_t row, head;
  };

  static HeadSizes<Real> longest(const AttentionShape& shape, const TokenSpans& rows) {
    const std::size_t most =
        rows.rows == 0 ? 0 : *std::max_element(rows.length, rows.length + rows.rows);
    return HeadSizes<Real>(shape, most);
  }

  // Tasks are dealt out in turn, so that a core's share depends on nothing but the lengths.
  template <class F>
  void each_head(const AttentionShape& shape, const TokenSpans& rows, std::size_t room,
                 const F& f) {
    constexpr std::size_t kWorth = std::size_t{1} << 16;  // products that are worth a second core
    std::vector<std::size_t> order(rows.rows);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(
        order, [&](std::size_t a, std::size_t b) { return rows.length[a] > rows.length[b]; });
    const std::size_t tasks = rows.rows * shape.heads;
    std::size_t products = 0;
    for (std::size_t r = 0; r < rows.rows; ++r) {
      products += std::size_t{rows.length[r]} * rows.length[r] * shape.width;
    }
    const std::size_t worth = products / (kWorth * cores_.hand_over_cost()) + 1;
    const std::size_t parts = std::min({std::max<std::size_t>(tasks, 1), worth, cores_.count()});
    constexpr std::size_t kLine = 64 / sizeof(Real);
    room = (room + kLine - 1) / kLine * kLine;
    Real* const scratch = scratch_.get().reserve(parts * room);
    cores_.run(parts, [&](std::size_t part) {
      for (std::size_t task = part; task < tasks; task += parts) {
        f(Task{order[task / shape.heads], task % shape.heads}, scratch + part * room);
      }
    });
  }

  static void clear_padding(const TokenSpans& rows, std::size_t width, Real* map) {
    rows.for_padding([&](std::size_t first, std::size_t count) {
      std::fill_n(map + first * width, count * width, Real(0));
    });
  }

  const Cores& cores_;
  DeviceScratch<Scratch<Real>> scratch_;
};

const RegisterKernels<Backend, BasicAttentionKernels, CpuAttentionKernels> attention_kernels;

}  // namespace

}  // namespace hetsgd::cpu
