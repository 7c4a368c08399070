// Embeddings, norms and gelu on the CPU. Sums over the tokens go over them in their order, or over
// chunks of fixed size, whose sums are added in order.
#include <algorithm>
#include <cmath>

#include "linalg/cores/memory.hpp"
#include "linalg/cpu/backend.hpp"
#include "linalg/cpu/gelu.hpp"
#include "linalg/cpu/lane_sum.hpp"
#include "linalg/token_kernels.hpp"

namespace hetsgd::cpu {

namespace {

constexpr std::size_t kTokens = 64;       // tokens of a chunk
constexpr std::size_t kSumColumns = 512;  // columns whose sums stay in L1

// to <- beta to + alpha sum; beta = 0 never reads it.
template <class Real>
void put_sums(std::size_t n, Real alpha, const Real* sum, Real beta, Real* to) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) {
    to[i] = beta == Real(0) ? alpha * sum[i] : beta * to[i] + alpha * sum[i];
  }
}

template <class Real>
void add_to(std::size_t n, const Real* x, Real* sum) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) sum[i] += x[i];
}

// A token's dX, and its part of the sums of scale [width] and shift [width]:
//   q = g dy,  dx = r (q - mean q - x^ mean(q x^)),  x^ = (x - mean) r
template <class Real>
void norm_token_gradient(std::size_t width, const Real* x, const Real* statistics,
                         const Real* scale, const Real* dy, Real beta, Real* dx, Real* sums) {
  const Real mean = statistics[0], r = statistics[1];
  const auto n = static_cast<Real>(width);
  const auto q = [](auto d, auto g) { return d * g; };
  const auto qx = [=](auto d, auto g, auto value) { return d * g * ((value - mean) * r); };
  const Real q_mean = dx ? sum_in_lanes<Real>(width, q, dy, scale) / n : Real(0);
  const Real qx_mean = dx ? sum_in_lanes<Real>(width, qx, dy, scale, x) / n : Real(0);
#pragma GCC ivdep
  for (std::size_t c = 0; c < width; ++c) {
    const Real d = dy[c], centred = (x[c] - mean) * r;
    sums[c] += d * centred;
    sums[width + c] += d;
    if (dx == nullptr) continue;
    const Real gradient = r * (d * scale[c] - q_mean - centred * qx_mean);
    dx[c] = beta == Real(0) ? gradient : beta * dx[c] + gradient;
  }
}

template <class Real>
void gelu_range(GeluLaw law, Range range, const Real* X, Real* Y) {
  constexpr std::size_t kWidth = kLanes<Real>;
  std::size_t i = range.begin;
  for (; i + kWidth <= range.end; i += kWidth) store(Y + i, gelu_of<Real>(law, load(X + i)).value);
  const std::size_t rest = range.end - i;
  store_partial(Y + i, rest, gelu_of<Real>(law, load_partial(X + i, rest, Real(0))).value);
}

template <class Real>
void gelu_gradient_range(GeluLaw law, Range range, const Real* X, const Real* dY, Real beta,
                         Real* dX) {
  constexpr std::size_t kWidth = kLanes<Real>;
  const auto put = [=](Vec<Real> x, Vec<Real> dy, const Vec<Real>& before) {
    const Vec<Real> gradient = dy * gelu_of<Real>(law, x).slope;
    return beta == Real(0) ? gradient : beta * before + gradient;
  };
  std::size_t i = range.begin;
  for (; i + kWidth <= range.end; i += kWidth) {
    store(dX + i, put(load(X + i), load(dY + i), load(dX + i)));
  }
  const std::size_t rest = range.end - i;
  store_partial(dX + i, rest,
                put(load_partial(X + i, rest, Real(0)), load_partial(dY + i, rest, Real(0)),
                    load_partial(dX + i, rest, Real(0))));
}

template <class Real>
class CpuTokenKernels final : public BasicTokenKernels<Real> {
 public:
  explicit CpuTokenKernels(const Cores& cores) : cores_(cores), sums_(cores), order_(cores) {}

  void embed(const EmbedShape& shape, const TokenSpans& rows, const Real* X, const Real* parameters,
             Real* Y) override {
    const std::size_t width = shape.width;
    const Real* const positions = parameters + shape.tokens * width;
    const Real* const segment = shape.segments > 0 ? positions + shape.block * width : nullptr;
    cores_.split(rows.rows, 1, rows_worth_a_core(rows, width), [&](Range range) {
      for (std::size_t r = range.begin; r < range.end; ++r) {
        for (std::size_t t = 0; t < rows.length[r]; ++t) {
          const std::size_t token = rows.begin[r] + t;
          Real* const y = Y + token * width;
          std::copy_n(parameters + static_cast<std::size_t>(X[token]) * width, width, y);
          if (shape.block > 0) add_to(width, positions + t * width, y);
          if (segment) add_to(width, segment, y);
        }
      }
    });
    rows.for_padding([&](std::size_t first, std::size_t count) {
      std::fill_n(Y + first * width, count * width, Real(0));
    });
  }

  void embed_gradient(const EmbedShape& shape, const TokenSpans& rows, const Real* X,
                      const Real* dY, Real alpha, Real tokens_beta, Real beta, Real* to) override {
    const std::size_t width = shape.width;
    std::uint32_t* const begin = order_.get().reserve(shape.tokens + 1 + rows.tokens);
    const std::uint32_t* const order = sort_by_token(shape.tokens, rows, X, begin);
    cores_.split(width, 16, kWorthACore / (rows.tokens + 1) + 16, [&](Range all) {
      for (std::size_t c = all.begin; c < all.end; c += kSumColumns) {
        const Range columns{c, std::min(all.end, c + kSumColumns)};
        put_token_sums(shape, columns, begin, order, dY, alpha, tokens_beta, to);
        Real* const positions = to + shape.tokens * width;
        put_position_sums(shape, columns, rows, dY, alpha, beta, positions);
        put_segment_sums(shape, columns, rows, dY, alpha, beta, positions + shape.block * width);
      }
    });
  }

  void norm(std::size_t tokens, std::size_t width, const Real* X, Real epsilon, const Real* scale,
            const Real* shift, Real* statistics, Real* Y) override {
    const auto n = static_cast<Real>(width);
    cores_.split(tokens, 1, kWorthACore / width + 1, [=](Range range) {
      for (std::size_t token = range.begin; token < range.end; ++token) {
        const Real* const x = X + token * width;
        Real* const y = Y + token * width;
        const Real mean = sum_in_lanes<Real>(
                              width, [](auto value) { return value; }, x) /
                          n;
        const auto square = [=](auto value) { return (value - mean) * (value - mean); };
        const Real r = 1 / std::sqrt(sum_in_lanes<Real>(width, square, x) / n + epsilon);
        statistics[2 * token] = mean;
        statistics[2 * token + 1] = r;
#pragma GCC ivdep
        for (std::size_t c = 0; c < width; ++c) {
          const Real value = scale[c] * ((x[c] - mean) * r);
          y[c] = shift ? value + shift[c] : value;
        }
      }
    });
  }

  void norm_gradient(std::size_t tokens, std::size_t width, const Real* X, const Real* statistics,
                     const Real* scale, const Real* dY, Real beta, Real* dX, Real alpha,
                     Real parameter_beta, Real* G, Real* g) override {
    const std::size_t chunks = (tokens + kTokens - 1) / kTokens;
    Real* const sums = sums_.get().reserve(std::max<std::size_t>(chunks, 1) * 2 * width);
    std::fill_n(sums, 2 * width, Real(0));
    cores_.split(chunks, 1, kWorthACore / (width * kTokens) + 1, [=](Range range) {
      for (std::size_t chunk = range.begin; chunk < range.end; ++chunk) {
        Real* const sum = sums + chunk * 2 * width;
        std::fill_n(sum, 2 * width, Real(0));
        const std::size_t end = std::min(tokens, (chunk + 1) * kTokens);
        for (std::size_t token = chunk * kTokens; token < end; ++token) {
          norm_token_gradient(width, X + token * width, statistics + 2 * token, scale,
                              dY + token * width, beta, dX ? dX + token * width : nullptr, sum);
        }
      }
    });
    for (std::size_t chunk = 1; chunk < chunks; ++chunk) {
      add_to(2 * width, sums + chunk * 2 * width, sums);
    }
    put_sums(width, alpha, sums, parameter_beta, G);
    if (g) put_sums(width, alpha, sums + width, parameter_beta, g);
  }

  void gelu(GeluLaw law, std::size_t count, const Real* X, Real* Y) override {
    cores_.split(count, 16, kWorthACore / 4, [=](Range range) { gelu_range(law, range, X, Y); });
  }
  void gelu_gradient(GeluLaw law, std::size_t count, const Real* X, const Real* dY, Real beta,
                     Real* dX) override {
    cores_.split(count, 16, kWorthACore / 4,
                 [=](Range range) { gelu_gradient_range(law, range, X, dY, beta, dX); });
  }

 private:
  static std::size_t rows_worth_a_core(const TokenSpans& rows, std::size_t width) {
    return kWorthACore * rows.rows / (rows.tokens * width + 1) + 1;
  }

  // A counting sort. begin [kinds + 1] <- where the tokens of each kind begin in the result.
  static const std::uint32_t* sort_by_token(std::size_t kinds, const TokenSpans& rows,
                                            const Real* X, std::uint32_t* begin) {
    std::uint32_t* const order = begin + kinds + 1;
    const auto for_tokens = [&](const auto& f) {
      for (std::size_t r = 0; r < rows.rows; ++r) {
        for (std::uint32_t t = rows.begin[r]; t < rows.begin[r] + rows.length[r]; ++t) {
          f(static_cast<std::size_t>(X[t]), t);
        }
      }
    };
    std::fill_n(begin, kinds + 1, 0U);
    for_tokens([&](std::size_t kind, std::uint32_t) { ++begin[kind + 1]; });
    for (std::size_t kind = 0; kind < kinds; ++kind) begin[kind + 1] += begin[kind];
    // Afterwards begin[kind] is the end of the kind, which is the beginning of the next one.
    for_tokens([&](std::size_t kind, std::uint32_t t) { order[begin[kind]++] = t; });
    for (std::size_t kind = kinds; kind > 0; --kind) begin[kind] = begin[kind - 1];
    begin[0] = 0;
    return order;
  }

  static void put_token_sums(const EmbedShape& shape, Range columns, const std::uint32_t* begin,
                             const std::uint32_t* order, const Real* dY, Real alpha, Real beta,
                             Real* to) {
    Real sum[kSumColumns];
    for (std::size_t kind = 0; kind < shape.tokens; ++kind) {
      if (begin[kind] == begin[kind + 1] && beta == Real(1)) continue;
      std::fill_n(sum, columns.size(), Real(0));
      for (std::size_t at = begin[kind]; at < begin[kind + 1]; ++at) {
        add_to(columns.size(), dY + order[at] * shape.width + columns.begin, sum);
      }
      put_sums(columns.size(), alpha, sum, beta, to + kind * shape.width + columns.begin);
    }
  }

  static void put_position_sums(const EmbedShape& shape, Range columns, const TokenSpans& rows,
                                const Real* dY, Real alpha, Real beta, Real* to) {
    Real sum[kSumColumns];
    for (std::size_t t = 0; t < shape.block; ++t) {
      std::fill_n(sum, columns.size(), Real(0));
      for (std::size_t r = 0; r < rows.rows; ++r) {
        if (t >= rows.length[r]) continue;
        add_to(columns.size(), dY + (rows.begin[r] + t) * shape.width + columns.begin, sum);
      }
      put_sums(columns.size(), alpha, sum, beta, to + t * shape.width + columns.begin);
    }
  }

  // All tokens are in segment 0.
  static void put_segment_sums(const EmbedShape& shape, Range columns, const TokenSpans& rows,
                               const Real* dY, Real alpha, Real beta, Real* to) {
    Real sum[kSumColumns] = {};
    for (std::size_t segment = 0; segment < shape.segments; ++segment) {
      std::fill_n(sum, columns.size(), Real(0));
      for (std::size_t r = 0; segment == 0 && r < rows.rows; ++r) {
        for (std::size_t t = 0; t < rows.length[r]; ++t) {
          add_to(columns.size(), dY + (rows.begin[r] + t) * shape.width + columns.begin, sum);
        }
      }
      put_sums(columns.size(), alpha, sum, beta, to + segment * shape.width + columns.begin);
    }
  }

  const Cores& cores_;
  DeviceScratch<Scratch<Real>> sums_;
  DeviceScratch<Scratch<std::uint32_t>> order_;
};

const RegisterKernels<Backend, BasicTokenKernels, CpuTokenKernels> token_kernels;

}  // namespace

}  // namespace hetsgd::cpu
