#include "linalg/cpu/vectors.hpp"

#include <algorithm>

#include "linalg/cpu/simd.hpp"

namespace hetsgd::cpu {

namespace {

constexpr std::size_t kLeast = std::size_t{1} << 15;  // numbers that are worth a second core
constexpr std::size_t kChunk = std::size_t{1} << 16;  // numbers per partial sum

template <class Real>
HETSGD_INLINE Vec<double> widen(const Real* p) {
  if constexpr (sizeof(Real) == sizeof(double)) {
    return load(p);
  } else {
    Vec<double> v;
    for (std::size_t i = 0; i < kLanes<double>; ++i) v[i] = static_cast<double>(p[i]);
    return v;
  }
}

template <class Real>
double chunk_dot(std::size_t n, const Real* x, const Real* y) {
  constexpr std::size_t kWidth = kLanes<double>;
  constexpr std::size_t kSums = 4;  // independent sums, to hide the latency of the additions
  Vec<double> sum[kSums] = {};
  std::size_t i = 0;
  for (; i + kSums * kWidth <= n; i += kSums * kWidth) {
#pragma GCC unroll 4
    for (std::size_t s = 0; s < kSums; ++s) {
      sum[s] += widen(x + i + s * kWidth) * widen(y + i + s * kWidth);
    }
  }
  double rest = 0;
  for (; i < n; ++i) rest += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  return horizontal_sum<double>((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest;
}

// Six independent sums hide the latency of the additions.
template <class Real>
Products chunk_products(std::size_t n, const Real* x, const Real* y) {
  constexpr std::size_t kWidth = kLanes<double>;
  constexpr std::size_t kSums = 2;
  Vec<double> xy[kSums] = {}, xx[kSums] = {}, yy[kSums] = {};
  std::size_t i = 0;
  for (; i + kSums * kWidth <= n; i += kSums * kWidth) {
#pragma GCC unroll 2
    for (std::size_t s = 0; s < kSums; ++s) {
      const Vec<double> a = widen(x + i + s * kWidth), b = widen(y + i + s * kWidth);
      xy[s] += a * b;
      xx[s] += a * a;
      yy[s] += b * b;
    }
  }
  Products sum{horizontal_sum<double>(xy[0] + xy[1]), horizontal_sum<double>(xx[0] + xx[1]),
               horizontal_sum<double>(yy[0] + yy[1])};
  for (; i < n; ++i) {
    const auto a = static_cast<double>(x[i]), b = static_cast<double>(y[i]);
    sum.xy += a * b;
    sum.xx += a * a;
    sum.yy += b * b;
  }
  return sum;
}

}  // namespace

template <class Real>
void fill(const Cores& cores, std::size_t n, Real a, Real* y) {
  cores.split(n, 16, kLeast, [&](Range r) { std::fill(y + r.begin, y + r.end, a); });
}

template <class Real>
void axpby(const Cores& cores, std::size_t n, Real a, const Real* x, Real b, Real* y) {
  cores.split(n, 16, kLeast, [&](Range r) {
    if (b == Real(0)) {
      for (std::size_t i = r.begin; i < r.end; ++i) y[i] = a * x[i];
    } else if (b == Real(1)) {
      for (std::size_t i = r.begin; i < r.end; ++i) y[i] += a * x[i];
    } else {
      for (std::size_t i = r.begin; i < r.end; ++i) y[i] = a * x[i] + b * y[i];
    }
  });
}

template <class Real>
void combine(const Cores& cores, std::size_t n, double a, const Real* x, double b, const Real* y,
             Real* z) {
  cores.split(n, 16, kLeast, [&](Range r) {
  // Number i depends on x[i] and y[i] alone, also where z is x or y.
#pragma GCC ivdep
    for (std::size_t i = r.begin; i < r.end; ++i) {
      z[i] = static_cast<Real>(a * static_cast<double>(x[i]) + b * static_cast<double>(y[i]));
    }
  });
}

template <class Real>
void momentum_merge(const Cores& cores, std::size_t n, const Real* merged, Real gamma, Real* w,
                    Real* previous) {
  cores.split(n, 16, kLeast, [&](Range r) {
    for (std::size_t i = r.begin; i < r.end; ++i) {
      const Real next = merged[i] + gamma * (w[i] - previous[i]);
      previous[i] = w[i];
      w[i] = next;
    }
  });
}

template <class Real>
void fill_rows(const Cores& cores, std::span<const std::uint32_t> rows, std::size_t n, Real a,
               Real* Y) {
  cores.split(rows.size(), 1, kLeast / (n + 1) + 1, [&](Range range) {
    for (std::size_t i = range.begin; i < range.end; ++i) std::fill_n(Y + rows[i] * n, n, a);
  });
}

template <class Real>
void add_rows(const Cores& cores, std::span<const std::uint32_t> rows, std::size_t n, Real a,
              const Real* X, Real* Y) {
  cores.split(rows.size(), 1, kLeast / (n + 1) + 1, [&](Range range) {
    for (std::size_t i = range.begin; i < range.end; ++i) {
      const Real* x = X + rows[i] * n;
      Real* y = Y + rows[i] * n;
      for (std::size_t j = 0; j < n; ++j) y[j] += a * x[j];
    }
  });
}

template <class Real>
double dot(const Cores& cores, std::size_t n, const Real* x, const Real* y,
           Scratch<double>& partial) {
  const std::size_t chunks = (n + kChunk - 1) / kChunk;
  const auto chunk = [&](std::size_t c) {
    return chunk_dot(std::min(kChunk, n - c * kChunk), x + c * kChunk, y + c * kChunk);
  };
  double sum = 0;
  if (cores.count() == 1 || chunks < 2) {
    for (std::size_t c = 0; c < chunks; ++c) sum += chunk(c);
    return sum;
  }
  double* sums = partial.reserve(chunks);
  cores.split(chunks, 1, 1, [&](Range r) {
    for (std::size_t c = r.begin; c < r.end; ++c) sums[c] = chunk(c);
  });
  for (std::size_t c = 0; c < chunks; ++c) sum += sums[c];
  return sum;
}

template <class Real>
Products products(const Cores& cores, std::size_t n, const Real* x, const Real* y,
                  Scratch<double>& partial) {
  const std::size_t chunks = (n + kChunk - 1) / kChunk;
  double* const sums = chunks > 1 ? partial.reserve(3 * chunks) : nullptr;
  const auto chunk = [&](std::size_t c) {
    return chunk_products(std::min(kChunk, n - c * kChunk), x + c * kChunk, y + c * kChunk);
  };
  if (chunks < 2) return chunks == 0 ? Products() : chunk(0);
  cores.split(chunks, 1, 1, [&](Range r) {
    for (std::size_t c = r.begin; c < r.end; ++c) {
      const Products part = chunk(c);
      sums[3 * c] = part.xy;
      sums[3 * c + 1] = part.xx;
      sums[3 * c + 2] = part.yy;
    }
  });
  Products sum;
  for (std::size_t c = 0; c < chunks; ++c) {
    sum.xy += sums[3 * c];
    sum.xx += sums[3 * c + 1];
    sum.yy += sums[3 * c + 2];
  }
  return sum;
}

#define HETSGD_INSTANTIATE(Real)                                                                   \
  template void fill<Real>(const Cores&, std::size_t, Real, Real*);                                \
  template void axpby<Real>(const Cores&, std::size_t, Real, const Real*, Real, Real*);            \
  template void combine<Real>(const Cores&, std::size_t, double, const Real*, double, const Real*, \
                              Real*);                                                              \
  template void momentum_merge<Real>(const Cores&, std::size_t, const Real*, Real, Real*, Real*);  \
  template void fill_rows<Real>(const Cores&, std::span<const std::uint32_t>, std::size_t, Real,   \
                                Real*);                                                            \
  template void add_rows<Real>(const Cores&, std::span<const std::uint32_t>, std::size_t, Real,    \
                               const Real*, Real*);                                                \
  template double dot<Real>(const Cores&, std::size_t, const Real*, const Real*,                   \
                            Scratch<double>&);                                                     \
  template Products products<Real>(const Cores&, std::size_t, const Real*, const Real*,            \
                                   Scratch<double>&);
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd::cpu
