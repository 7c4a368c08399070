// Attention on a GPU without a map of scores (Dao and others 2022). A block of threads owns 64
// queries, or 64 keys, of a head of a row, and goes through the row's keys, or queries, 64 at a
// time in ascending order:
//   forward      queries: S = Q K^T; the maximum and sum so far; O <- O shrunk + P V
//   queries back queries: S and dP = dY V^T; dQ += dS K
//   keys back    keys: S^T and dP^T; dV += P^T dY, dK += dS^T Q
// So nothing is added by two blocks, and every sum has one order. The backward pass has 7 products,
// two of them twice, for which a GPU has blocks enough to do.
//
// A tile of scores is 64 x 64: each of 16 x 16 threads has 4 x 4 numbers of it in registers, and 4
// rows of the sums. The factors of a product lie in shared memory, a few terms at a time.
#include <cmath>
#include <type_traits>

#include "core/philox.hpp"
#include "linalg/attention_kernels.hpp"
#include "linalg/cuda/block.cuh"
#include "linalg/cuda/token_places.hpp"

namespace hetsgd::cuda {

namespace {

constexpr unsigned kSide = kPieceSteps;
constexpr unsigned kGrid = 16;  // threads along a side of a tile
constexpr int kRows = kSide / kGrid;
static_assert(kGrid * kGrid == kThreads);
constexpr std::size_t kMostDepth = 256;

template <class Real>
constexpr unsigned kTerms = 64 / sizeof(Real);  // of a product in shared memory at a time
// From term to term of a factor whose rows are the tile's. Packs of rows stay aligned, and threads
// that store side by side meet fewer equal banks. Doubles have no room for that: the widest take
// 48 KiB, which is all that a block of threads gets unasked.
template <class Real>
constexpr unsigned kStride = sizeof(Real) == 4 ? kSide + 4 : kSide;

// The columns of a thread in a tile of 16 G columns: column(0), ..., column(G - 1).
template <int G>
__device__ unsigned column(int g) {
  constexpr int V = G < 4 ? G : 4;
  const auto v = static_cast<unsigned>(g);
  return v / V * kGrid * V + threadIdx.x % kGrid * V + v % V;
}
__device__ inline unsigned first_row() { return threadIdx.x / kGrid * kRows; }

// f(r, i) for the thread's rows and i = 0, ..., N - 1.
template <int N, class F>
__device__ __forceinline__ void unrolled(const F& f) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int i = 0; i < N; ++i) f(r, i);
  }
}

template <class Real, int G>
struct alignas(32) Shared {
  Real a[kSide * kStride<Real>];  // [terms x kStride] the factor of the tile's rows
  Real b[kTerms<Real> * (16 * G > kStride<Real> ? 16 * G : kStride<Real>)];  // that of its columns
};

// Rows of a head: its queries, keys, values or gradients, from the first one of a block on.
template <class Real>
struct HeadRows {
  const Real* first;
  std::size_t stride;
  unsigned count;  // all others are zeros, whatever lies there
};

// sum[r][g] += a b over kTerms terms: a [terms x kStride], b [terms x stride].
template <int G, class Real>
__device__ void multiply(const Real* a, const Real* b, unsigned stride, Real (&sum)[kRows][G]) {
  constexpr int V = G < 4 ? G : 4;
#pragma unroll
  for (unsigned k = 0; k < kTerms<Real>; ++k) {
    const auto rows = load_pack<Real, kRows>(a + k * kStride<Real> + first_row());
#pragma unroll
    for (int g = 0; g < G; g += V) {
      const auto columns = load_pack<Real, V>(b + k * stride + column<G>(g));
      unrolled<V>([&](int r, int v) { sum[r][g + v] += rows.at[r] * columns.at[v]; });
    }
  }
}

// to [terms x kStride] <- elements begin, begin + 1, ... of each row.
template <class Real>
__device__ void load_terms(const HeadRows<Real>& rows, unsigned begin, unsigned depth, Real* to) {
  for (unsigned i = threadIdx.x; i < kSide * kTerms<Real>; i += kThreads) {
    const unsigned term = i % kTerms<Real>, row = i / kTerms<Real>;
    const bool there = row < rows.count && begin + term < depth;
    to[term * kStride<Real> + row] = there ? rows.first[row * rows.stride + begin + term] : Real(0);
  }
}

// tile[r][c] <- row r of `own` times row c of `other`.
template <int G, class Real>
__device__ void score(const HeadRows<Real>& own, const HeadRows<Real>& other, unsigned depth,
                      Shared<Real, G>& shared, Real (&tile)[kRows][kRows]) {
  unrolled<kRows>([&](int r, int c) { tile[r][c] = 0; });
  for (unsigned begin = 0; begin < depth; begin += kTerms<Real>) {
    __syncthreads();  // all threads have read what was there
    load_terms(own, begin, depth, shared.a);
    load_terms(other, begin, depth, shared.b);
    __syncthreads();
    multiply<kRows>(shared.a, shared.b, kStride<Real>, tile);
  }
}

// sum[r][g] += the sum over c of tile[r][c] times element g of row c of `other`.
template <int G, class Real>
__device__ void accumulate(const Real (&tile)[kRows][kRows], const HeadRows<Real>& other,
                           unsigned depth, Shared<Real, G>& shared, Real (&sum)[kRows][G]) {
  constexpr unsigned kWidth = 16 * G;
  __syncthreads();
#pragma unroll
  for (int c = 0; c < kRows; ++c) {
    Pack<Real, kRows> rows;
#pragma unroll
    for (int r = 0; r < kRows; ++r) rows.at[r] = tile[r][c];
    store_pack(shared.a + column<kRows>(c) * kStride<Real> + first_row(), rows);
  }
  for (unsigned begin = 0; begin < other.count; begin += kTerms<Real>) {
    if (begin > 0) __syncthreads();
    for (unsigned i = threadIdx.x; i < kTerms<Real> * kWidth; i += kThreads) {
      const unsigned row = begin + i / kWidth, d = i % kWidth;
      const bool there = row < other.count && d < depth;
      shared.b[i] = there ? other.first[row * other.stride + d] : Real(0);
    }
    __syncthreads();
    multiply<G>(shared.a + begin * kStride<Real>, shared.b, kWidth, sum);
  }
}

template <class Real>
struct Operands {
  AttentionShape shape;
  TokenMap map;
  unsigned depth;       // of a head
  std::uint64_t limit;  // of a word whose probability is dropped
  Real kept;            // 1 / (1 - p)
  Real scale;           // 1 / sqrt(depth)
  const Real* X;
  Real* sums;        // l
  Real* projection;  // [heads x tokens] e = dY.Y
  Real* Y;
  const Real* dY;
  Real beta;
  Real* dX;
};

// The head of a row that a block of threads works on, and its own 64 steps.
template <class Real>
struct Head {
  __device__ Head(const Operands<Real>& operands, std::size_t task)
      : o(operands),
        piece(operands.map.piece[task / operands.shape.heads]),
        head(task % operands.shape.heads),
        depth(operands.depth) {}

  __device__ std::size_t token(unsigned step) const { return piece.begin + step; }
  // The steps from `first` on, of this tile's side.
  __device__ HeadRows<Real> rows(const Real* map, std::size_t stride, unsigned first) const {
    return {map + token(first) * stride + head * depth, stride,
            static_cast<unsigned>(smaller(piece.length - first, kSide))};
  }
  __device__ HeadRows<Real> part(unsigned which, unsigned first) const {  // 0 q, 1 k, 2 v
    return rows(o.X + which * o.shape.width, 3 * o.shape.width, first);
  }
  __device__ HeadRows<Real> gradient(unsigned first) const {
    return rows(o.dY, o.shape.width, first);
  }
  __device__ std::size_t sum_at(unsigned step) const { return head * o.map.tokens + token(step); }
  __device__ bool visible(unsigned query, unsigned key) const {
    return query < piece.length && key < piece.length && (!o.shape.causal || key <= query);
  }
  __device__ unsigned end_of_keys() const {
    return o.shape.causal ? piece.first + 1 : piece.length;
  }
  // Bit 4 i + j of 4 queries and 4 keys is 0 where the probability is dropped.
  __device__ unsigned kept(unsigned first_query, unsigned first_key) const {
    if (o.limit == 0) return 0xFFFFU;
    unsigned bits = 0;
    for (unsigned i = 0; i < kRows; ++i) {
      const std::uint64_t row =
          ((piece.row * o.shape.heads + head) * o.shape.block + first_query + i) * o.shape.block;
      PhiloxWords words;
      for (unsigned j = 0; j < kRows; ++j) {
        const std::uint64_t element = row + first_key + j;
        if (j == 0 || element % 4 == 0) {
          words = philox_words(o.shape.drop.seed, Purpose::dropout, o.shape.drop.a, o.shape.drop.b,
                               static_cast<std::uint32_t>(element / 4));
        }
        if (words.at[element % 4] >= o.limit) bits |= 1U << (kRows * i + j);
      }
    }
    return bits;
  }
  __device__ Real factor(unsigned kept_bits, unsigned i, unsigned j) const {  // z_ij
    return (kept_bits >> (kRows * i + j) & 1U) != 0 ? o.kept : Real(0);
  }
  // p <- z p_ij and ds <- ds_ij, from q.k and dy.v.
  __device__ void weigh(bool visible, Real z, Real l, Real e, Real& p, Real& ds) const {
    const Real weight = visible ? std::exp(o.scale * p - l) : Real(0);
    ds = visible ? weight * (z * ds - e) : Real(0);
    p = z * weight;
  }
  // A part of dX <- beta dX + factor (rows of the piece).
  template <int G>
  __device__ void put(unsigned which, Real factor, const Real (&sum)[kRows][G]) const {
    unrolled<G>([&](int r, int g) {
      const unsigned step = piece.first + first_row() + static_cast<unsigned>(r);
      if (step >= piece.length || column<G>(g) >= depth) return;
      Real& x = o.dX[(token(step) * 3 + which) * o.shape.width + head * depth + column<G>(g)];
      x = o.beta == Real(0) ? factor * sum[r][g] : o.beta * x + factor * sum[r][g];
    });
  }

  const Operands<Real>& o;
  const TokenPiece piece;
  const std::size_t head;
  const unsigned depth;
};

// tile <- exp(tile - the largest score so far) of the rows' scores, whose largest and sum it brings
// up to date. shrink <- the factor of what was added up before.
template <class Real>
__device__ void exponentiate(Real (&tile)[kRows][kRows], Real (&largest)[kRows],
                             Real (&total)[kRows], Real (&shrink)[kRows]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    Real best = largest[r], sum = 0;
#pragma unroll
    for (int c = 0; c < kRows; ++c) best = LargestNumber()(best, tile[r][c]);
    best = reduce_warp<kGrid>(best, LargestNumber());
#pragma unroll
    for (int c = 0; c < kRows; ++c) sum += tile[r][c] = std::exp(tile[r][c] - best);
    shrink[r] = std::exp(largest[r] - best);
    total[r] = total[r] * shrink[r] + reduce_warp<kGrid>(sum, Sum());
    largest[r] = best;
  }
}

template <class Real, int G>
__global__ void __launch_bounds__(kThreads) forward_kernel(Operands<Real> o) {
  __shared__ Shared<Real, G> shared;
  for (std::size_t task = blockIdx.x; task < o.map.pieces * o.shape.heads; task += gridDim.x) {
    const Head<Real> head(o, task);
    const unsigned query = head.piece.first + first_row();
    // The rows of queries behind the row's end see no key, and nobody reads them.
    Real sum[kRows][G] = {}, largest[kRows], total[kRows] = {};
    for (Real& x : largest) x = -static_cast<Real>(INFINITY);
    for (unsigned first = 0; first < head.end_of_keys(); first += kSide) {
      const unsigned key = first + column<kRows>(0);
      const unsigned bits = head.kept(query, key);
      Real tile[kRows][kRows], shrink[kRows];
      score(head.part(0, head.piece.first), head.part(1, first), head.depth, shared, tile);
      unrolled<kRows>([&](int r, int c) {
        tile[r][c] =
            head.visible(query + r, key + c) ? o.scale * tile[r][c] : -static_cast<Real>(INFINITY);
      });
      exponentiate(tile, largest, total, shrink);
      unrolled<G>([&](int r, int g) { sum[r][g] *= shrink[r]; });
      unrolled<kRows>([&](int r, int c) { tile[r][c] *= head.factor(bits, r, c); });
      accumulate(tile, head.part(2, first), head.depth, shared, sum);
    }
    unrolled<G>([&](int r, int g) {
      const unsigned step = query + static_cast<unsigned>(r);
      if (step >= head.piece.length) return;
      if (g == 0 && threadIdx.x % kGrid == 0) {
        o.sums[head.sum_at(step)] = largest[r] + std::log(total[r]);
      }
      if (column<G>(g) >= head.depth) return;
      o.Y[head.token(step) * o.shape.width + head.head * head.depth + column<G>(g)] =
          sum[r][g] / total[r];
    });
  }
}

// --- backward ------------------------------------------------------------------------------------
//   p_ij = exp(s_ij - l_i),  ds_ij = p_ij (z_ij dy_i.v_j - e_i)

template <class Real, int G>
__global__ void __launch_bounds__(kThreads) queries_back_kernel(Operands<Real> o) {
  __shared__ Shared<Real, G> shared;
  for (std::size_t task = blockIdx.x; task < o.map.pieces * o.shape.heads; task += gridDim.x) {
    const Head<Real> head(o, task);
    const unsigned own = head.piece.first, query = own + first_row();
    const HeadRows<Real> dy = head.gradient(own), y = head.rows(o.Y, o.shape.width, own);
    Real l[kRows], e[kRows], sum[kRows][G] = {};
#pragma unroll
    for (unsigned r = 0; r < kRows; ++r) {
      const bool there = query + r < head.piece.length;
      const std::size_t at = (first_row() + r) * dy.stride;
      Real part = 0;
      for (unsigned d = threadIdx.x % kGrid; there && d < head.depth; d += kGrid) {
        part += dy.first[at + d] * y.first[at + d];
      }
      e[r] = reduce_warp<kGrid>(part, Sum());
      l[r] = there ? o.sums[head.sum_at(query + r)] : Real(0);
      if (there && threadIdx.x % kGrid == 0) o.projection[head.sum_at(query + r)] = e[r];
    }
    for (unsigned first = 0; first < head.end_of_keys(); first += kSide) {
      const unsigned key = first + column<kRows>(0);
      const unsigned bits = head.kept(query, key);
      Real p[kRows][kRows], ds[kRows][kRows];
      score(head.part(0, own), head.part(1, first), head.depth, shared, p);
      score(dy, head.part(2, first), head.depth, shared, ds);
      unrolled<kRows>([&](int r, int c) {
        head.weigh(head.visible(query + r, key + c), head.factor(bits, r, c), l[r], e[r], p[r][c],
                   ds[r][c]);
      });
      accumulate(ds, head.part(1, first), head.depth, shared, sum);
    }
    head.put(0, o.scale, sum);
  }
}

// Reads the projections that the kernel above has left.
template <class Real, int G>
__global__ void __launch_bounds__(kThreads) keys_back_kernel(Operands<Real> o) {
  __shared__ Shared<Real, G> shared;
  for (std::size_t task = blockIdx.x; task < o.map.pieces * o.shape.heads; task += gridDim.x) {
    const Head<Real> head(o, task);
    const unsigned own = head.piece.first, key = own + first_row();
    Real dk[kRows][G] = {}, dv[kRows][G] = {};
    for (unsigned first = o.shape.causal ? own : 0; first < head.piece.length; first += kSide) {
      const unsigned query = first + column<kRows>(0);
      const unsigned bits = head.kept(query, key);
      Real p[kRows][kRows], ds[kRows][kRows];
      score(head.part(1, own), head.part(0, first), head.depth, shared, p);
      score(head.part(2, own), head.gradient(first), head.depth, shared, ds);
#pragma unroll
      for (unsigned c = 0; c < kRows; ++c) {
        const bool there = query + c < head.piece.length;
        const Real l = there ? o.sums[head.sum_at(query + c)] : Real(0);
        const Real e = there ? o.projection[head.sum_at(query + c)] : Real(0);
#pragma unroll
        for (unsigned r = 0; r < kRows; ++r) {
          head.weigh(head.visible(query + c, key + r), head.factor(bits, c, r), l, e, p[r][c],
                     ds[r][c]);
        }
      }
      accumulate(p, head.gradient(first), head.depth, shared, dv);
      accumulate(ds, head.part(0, first), head.depth, shared, dk);
    }
    head.put(1, o.scale, dk);
    head.put(2, Real(1), dv);
  }
}

template <class Real>
class CudaAttentionKernels final : public BasicAttentionKernels<Real> {
 public:
  explicit CudaAttentionKernels(Backend& backend)
      : backend_(backend), places_(backend), projection_(backend.stream) {}

  void attention(const AttentionShape& shape, const TokenSpans& rows, const Real* X, Real* sums,
                 Real* Y) override {
    Operands<Real> o = operands(shape, rows, X);
    o.sums = sums;
    o.Y = Y;
    clear_padding(o.map, shape.width, Y);
    for_depth(o, [&](auto groups) {
      launch(backend_.stream.get(), tasks(o), 1, "kernel attention",
             forward_kernel<Real, decltype(groups)::value>, o);
    });
  }

  void attention_gradient(const AttentionShape& shape, const TokenSpans& rows, const Real* X,
                          const Real* sums, const Real* Y, const Real* dY, Real beta,
                          Real* dX) override {
    Operands<Real> o = operands(shape, rows, X);
    o.sums = const_cast<Real*>(sums);  // the backward pass only reads them and Y
    o.Y = const_cast<Real*>(Y);
    o.projection = projection_.reserve<Real>(shape.heads * rows.tokens, "a gradient of attention");
    o.dY = dY;
    o.beta = beta;
    o.dX = dX;
    if (beta == Real(0)) clear_padding(o.map, 3 * shape.width, dX);
    for_depth(o, [&](auto groups) {
      const cudaStream_t stream = backend_.stream.get();
      launch(stream, tasks(o), 1, "kernel attention_queries_back",
             queries_back_kernel<Real, decltype(groups)::value>, o);
      launch(stream, tasks(o), 1, "kernel attention_keys_back",
             keys_back_kernel<Real, decltype(groups)::value>, o);
    });
  }

 private:
  Operands<Real> operands(const AttentionShape& shape, const TokenSpans& rows, const Real* X) {
    const TokenMap& map = places_.of(rows);
    if (shape.depth() > kMostDepth) {
      fail_size("numbers in a head of attention", shape.depth(), kMostDepth,
                "use more heads, or CPUs (--devices cpu:auto)");
    }
    Operands<Real> o{};
    o.shape = shape;
    o.map = map;
    o.depth = static_cast<unsigned>(shape.depth());
    o.limit = static_cast<std::uint64_t>(shape.drop.p * 0x1.0p32);
    o.kept = static_cast<Real>(1 / (1 - shape.drop.p));
    o.scale = Real(1) / std::sqrt(static_cast<Real>(shape.depth()));
    o.X = X;
    return o;
  }

  static std::size_t tasks(const Operands<Real>& o) { return o.map.pieces * o.shape.heads; }

  // f(G): 16 G is the least width of the sums that holds a head.
  template <class F>
  static void for_depth(const Operands<Real>& o, const F& f) {
    const std::size_t depth = o.shape.depth();
    if (o.map.pieces == 0) return;
    if (depth <= 32) return f(std::integral_constant<int, 2>());
    if (depth <= 64) return f(std::integral_constant<int, 4>());
    if (depth <= 128) return f(std::integral_constant<int, 8>());
    f(std::integral_constant<int, 16>());
  }

  // All of it is cleared, since rows are written afterwards.
  void clear_padding(const TokenMap& map, std::size_t width, Real* to) const {
    if (map.used == map.tokens) return;
    HETSGD_CUDA(cudaMemsetAsync(to, 0, map.tokens * width * sizeof(Real), backend_.stream.get()));
  }

  Backend& backend_;
  TokenPlaces places_;
  DeviceMemory projection_;
};

const RegisterKernels<Backend, BasicAttentionKernels, CudaAttentionKernels> attention_kernels;

}  // namespace

}  // namespace hetsgd::cuda
