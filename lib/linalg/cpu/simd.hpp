// Short vectors through GCC's vector extensions: one source for AVX-512, AVX2, SSE2 and other
// machines.
//
// A Vec<Real> is one machine register; arithmetic on it is IEEE arithmetic lane by lane (no
// fast-math), so NaN and infinities travel as they should. A product that feeds a sum becomes one
// FMA where the machine has it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hetsgd::cpu {

#if defined(__AVX512F__)
inline constexpr std::size_t kVectorBytes = 64;
inline constexpr int kTileRows = 8;  // 8 x 2 sums, 2 operands: 18 of 32 registers
#elif defined(__AVX__)
inline constexpr std::size_t kVectorBytes = 32;
inline constexpr int kTileRows = 4;  // 4 x 2 sums, 2 operands, 1 broadcast: 11 of 16 registers
#else
inline constexpr std::size_t kVectorBytes = 16;
inline constexpr int kTileRows = 4;
#endif

#define HETSGD_INLINE inline __attribute__((always_inline))

template <class Real>
struct VecTypes;
template <>
struct VecTypes<float> {
  typedef float Value __attribute__((vector_size(kVectorBytes)));
  typedef float Unaligned __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
  typedef std::uint32_t Integer __attribute__((vector_size(kVectorBytes)));
};
template <>
struct VecTypes<double> {
  typedef double Value __attribute__((vector_size(kVectorBytes)));
  typedef double Unaligned __attribute__((vector_size(kVectorBytes), aligned(8), may_alias));
  typedef std::uint64_t Integer __attribute__((vector_size(kVectorBytes)));
};

template <class Real>
using Vec = typename VecTypes<Real>::Value;

template <class Real>
inline constexpr std::size_t kLanes = kVectorBytes / sizeof(Real);

template <class Real>
HETSGD_INLINE Vec<Real> load(const Real* p) {
  return *reinterpret_cast<const typename VecTypes<Real>::Unaligned*>(p);
}
template <class Real>
HETSGD_INLINE void store(Real* p, Vec<Real> v) {
  *reinterpret_cast<typename VecTypes<Real>::Unaligned*>(p) = v;
}
template <class Real>
HETSGD_INLINE Vec<Real> broadcast(Real x) {
  // A subtraction of +0 is exact for every x, -0 and NaN included, and compiles to the broadcast
  // alone.
  return x - Vec<Real>{};
}

// x, rounded here: a product does not become part of the FMA of a later sum. For sums of two
// products, where the compiler would choose differently in every place which one to round.
template <class Real>
HETSGD_INLINE Vec<Real> rounded(Vec<Real> x) {
#if defined(__x86_64__)
  asm("" : "+v"(x));
#else
  asm("" : "+m"(x));
#endif
  return x;
}

// The first `count` <= kLanes elements; the other lanes are `rest`.
template <class Real>
HETSGD_INLINE Vec<Real> load_partial(const Real* p, std::size_t count, Real rest) {
  Vec<Real> v = broadcast(rest);
  for (std::size_t i = 0; i < kLanes<Real> && i < count; ++i) v[i] = p[i];
  return v;
}
template <class Real>
HETSGD_INLINE void store_partial(Real* p, std::size_t count, Vec<Real> v) {
  for (std::size_t i = 0; i < kLanes<Real> && i < count; ++i) p[i] = v[i];
}

// max(x, y), or x if y is NaN. Which operand wins a tie does not matter (+0 against -0).
template <class Real>
HETSGD_INLINE Vec<Real> vector_max(Vec<Real> x, Vec<Real> y) {
  return y > x ? y : x;
}
// max(x, 0), but NaN stays NaN.
template <class Real>
HETSGD_INLINE Vec<Real> vector_relu(Vec<Real> x) {
  return x < Vec<Real>{} ? Vec<Real>{} : x;
}

// The sum of the lanes, added pairwise in a fixed order.
template <class Real>
HETSGD_INLINE Real horizontal_sum(Vec<Real> v) {
  Real lane[kLanes<Real>];
  store(lane, v);
  for (std::size_t width = kLanes<Real> / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lane[i] += lane[i + width];
  }
  return lane[0];
}
template <class Real>
HETSGD_INLINE Real horizontal_max(Vec<Real> v) {
  Real best = v[0];
  for (std::size_t i = 1; i < kLanes<Real>; ++i) best = v[i] > best ? v[i] : best;
  return best;
}

// Whether any lane of a comparison is true.
template <class Mask>
HETSGD_INLINE bool any_lane(Mask mask) {
  std::uint64_t words[sizeof(Mask) / sizeof(std::uint64_t)];
  __builtin_memcpy(words, &mask, sizeof(mask));
  std::uint64_t any = 0;
  for (const std::uint64_t word : words) any |= word;
  return any != 0;
}

// exp(x) for x <= 0, within 2 ulp. It is exactly 0 below kExpFloor (e^-30 in float is 1e-13, in
// double e^-300). Softmax multiplies two such factors and a scale. With this floor no product is
// ever denormal, and denormal operands cost a hundred cycles each. NaN gives NaN, -infinity gives
// 0.
//
// x = n ln 2 + r with |r| <= ln 2 / 2. n is split off by adding 1.5 * 2^(mantissa bits), whose low
// mantissa bits then hold n. e^r is its Taylor polynomial (degree 7 and 13: remainder below 2^-27
// and 2^-57). 2^n comes from adding n to the exponent.
template <class Real>
inline constexpr Real kExpFloor = sizeof(Real) == 4 ? Real(-30) : Real(-300);

HETSGD_INLINE Vec<float> exp_nonpositive(Vec<float> x) {
  using V = Vec<float>;
  using I = VecTypes<float>::Integer;
  const V magic = broadcast(12582912.0F);
  const V shifted = x * 1.44269504F + magic;
  const V n = shifted - magic;
  V r = x - n * 0.693359375F;
  r = r + n * 2.12194440e-4F;
  V p = r * (1.0F / 5040) + (1.0F / 720);
  p = p * r + (1.0F / 120);
  p = p * r + (1.0F / 24);
  p = p * r + (1.0F / 6);
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const V e = reinterpret_cast<V>(reinterpret_cast<I>(p) + (reinterpret_cast<I>(shifted) << 23));
  // A NaN x made p NaN, but adding to its exponent bits may have changed that, so x is taken then.
  const V result = x < broadcast(kExpFloor<float>) ? V{} : e;
  return x == x ? result : x;
}

HETSGD_INLINE Vec<double> exp_nonpositive(Vec<double> x) {
  using V = Vec<double>;
  using I = VecTypes<double>::Integer;
  const V magic = broadcast(6755399441055744.0);
  const V shifted = x * 1.4426950408889634 + magic;
  const V n = shifted - magic;
  V r = x - n * 6.93147180369123816490e-01;
  r = r - n * 1.90821492927058770002e-10;
  constexpr double kInverseFactorial[] = {1.0 / 479001600,
                                          1.0 / 39916800,
                                          1.0 / 3628800,
                                          1.0 / 362880,
                                          1.0 / 40320,
                                          1.0 / 5040,
                                          1.0 / 720,
                                          1.0 / 120,
                                          1.0 / 24,
                                          1.0 / 6,
                                          0.5,
                                          1.0,
                                          1.0};
  V p = broadcast(1.0 / 6227020800);
  for (const double c : kInverseFactorial) p = p * r + c;
  const V e = reinterpret_cast<V>(reinterpret_cast<I>(p) + (reinterpret_cast<I>(shifted) << 52));
  const V result = x < broadcast(kExpFloor<double>) ? V{} : e;
  return x == x ? result : x;
}

}  // namespace hetsgd::cpu
