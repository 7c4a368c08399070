#include "linalg/cpu/updates.hpp"

#include <algorithm>
#include <cmath>

namespace hetsgd::cpu {

namespace {

constexpr std::size_t kLeast = std::size_t{1} << 14;  // numbers that are worth a second core
constexpr std::size_t kChunk = std::size_t{1} << 16;  // numbers per partial sum
constexpr std::size_t kBlock = 1024;                  // numbers whose r stays in the first cache

// m and v of one number.
template <class Real>
inline void take_moments(const MomentRule<Real>& o, Real g, Real w, Real& m, Real& v) {
  const Real u = o.gradient * g + o.decay * w;
  m = o.beta1 * m + o.fresh1 * u;
  v = o.beta2 * v + o.fresh2 * (u * u);
}

template <class Real>
inline Real direction(const MomentRule<Real>& o, Real m, Real v, Real w) {
  return o.first * m / (std::sqrt(o.second * v) + o.epsilon) + o.shrink * w;
}

// Four sums hide the latency of the additions.
template <class Real>
double sum_of_squares(std::size_t n, const Real* r) {
  double sum[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::size_t s = 0; s < 4; ++s) {
      sum[s] += static_cast<double>(r[i + s]) * static_cast<double>(r[i + s]);
    }
  }
  for (; i < n; ++i) sum[0] += static_cast<double>(r[i]) * static_cast<double>(r[i]);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

template <class Real>
double update_chunk(std::size_t n, const MomentRule<Real>& rule, const Real* __restrict g,
                    const Real* __restrict w, Real* __restrict m, Real* __restrict v) {
  const MomentRule<Real> o = rule;
  Real r[kBlock];
  double sum = 0;
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    const std::size_t count = std::min(kBlock, n - begin);
    for (std::size_t j = 0; j < count; ++j) {
      const std::size_t i = begin + j;
      take_moments(o, g[i], w[i], m[i], v[i]);
      r[j] = direction(o, m[i], v[i], w[i]);
    }
    sum += sum_of_squares(count, r);
  }
  return sum;
}

// Loops stand in functions of their own: a lambda would capture pointers of which the compiler does
// not know that they do not overlap.
template <class Real>
void momentum_range(std::size_t n, const MomentumRule<Real>& rule, const Real* __restrict g,
                    Real* __restrict v, Real* __restrict w) {
  const MomentumRule<Real> o = rule;
  for (std::size_t i = 0; i < n; ++i) {
    const Real u = o.gradient * g[i] + o.decay * w[i];
    v[i] = o.momentum * v[i] + u;
    w[i] -= o.velocity * v[i] + o.direct * u;
  }
}

template <class Real>
void step_range(std::size_t n, const MomentRule<Real>& rule, Real step, const Real* __restrict g,
                Real* __restrict m, Real* __restrict v, Real* __restrict w) {
  const MomentRule<Real> o = rule;
  for (std::size_t i = 0; i < n; ++i) {
    take_moments(o, g[i], w[i], m[i], v[i]);
    w[i] -= step * direction(o, m[i], v[i], w[i]);
  }
}

template <class Real>
void apply_range(std::size_t n, const MomentRule<Real>& rule, Real step, const Real* __restrict m,
                 const Real* __restrict v, Real* __restrict w) {
  const MomentRule<Real> o = rule;
  for (std::size_t i = 0; i < n; ++i) w[i] -= step * direction(o, m[i], v[i], w[i]);
}

}  // namespace

template <class Real>
void momentum_step(const Cores& cores, std::size_t n, const MomentumRule<Real>& rule, const Real* g,
                   Real* v, Real* w) {
  cores.split(n, 16, kLeast, [&](Range r) {
    momentum_range(r.size(), rule, g + r.begin, v + r.begin, w + r.begin);
  });
}

template <class Real>
void moment_step(const Cores& cores, std::size_t n, const MomentRule<Real>& rule, Real step,
                 const Real* g, Real* m, Real* v, Real* w) {
  cores.split(n, 16, kLeast, [&](Range r) {
    step_range(r.size(), rule, step, g + r.begin, m + r.begin, v + r.begin, w + r.begin);
  });
}

template <class Real>
double moment_update(const Cores& cores, std::size_t n, const MomentRule<Real>& rule, const Real* g,
                     const Real* w, Real* m, Real* v, Scratch<double>& partial) {
  const std::size_t chunks = (n + kChunk - 1) / kChunk;
  double* const sums = partial.reserve(chunks);
  cores.split(chunks, 1, 1, [&](Range range) {
    for (std::size_t c = range.begin; c < range.end; ++c) {
      const std::size_t at = c * kChunk;
      sums[c] = update_chunk(std::min(kChunk, n - at), rule, g + at, w + at, m + at, v + at);
    }
  });
  double sum = 0;
  for (std::size_t c = 0; c < chunks; ++c) sum += sums[c];
  return sum;
}

template <class Real>
void moment_apply(const Cores& cores, std::size_t n, const MomentRule<Real>& rule, Real step,
                  const Real* m, const Real* v, Real* w) {
  cores.split(n, 16, kLeast, [&](Range r) {
    apply_range(r.size(), rule, step, m + r.begin, v + r.begin, w + r.begin);
  });
}

#define HETSGD_INSTANTIATE(Real)                                                                 \
  template void momentum_step<Real>(const Cores&, std::size_t, const MomentumRule<Real>&,        \
                                    const Real*, Real*, Real*);                                  \
  template void moment_step<Real>(const Cores&, std::size_t, const MomentRule<Real>&, Real,      \
                                  const Real*, Real*, Real*, Real*);                             \
  template double moment_update<Real>(const Cores&, std::size_t, const MomentRule<Real>&,        \
                                      const Real*, const Real*, Real*, Real*, Scratch<double>&); \
  template void moment_apply<Real>(const Cores&, std::size_t, const MomentRule<Real>&, Real,     \
                                   const Real*, const Real*, Real*);
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd::cpu
