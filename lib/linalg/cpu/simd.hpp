// Short vectors through GCC's vector extensions: one source for AVX-512, AVX2 and other machines.
//
// A Vec<Real> has 64 bytes, sixteen floats or eight doubles, on every machine: one register of
// AVX-512, two of AVX2, four of SSE2 or NEON. So a sum in the lanes of vectors is the same sum
// everywhere, to the bit. Arithmetic is IEEE arithmetic lane by lane (no fast-math), and NaN and
// infinities travel as they should. A product and a sum are rounded once where fused() says it, and
// twice elsewhere: the compiler has no choice (-ffp-contract=off).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#if defined(__FMA__)
#include <immintrin.h>
#endif

namespace hetsgd::cpu {

#if defined(__AVX512F__)
inline constexpr std::size_t kRegisterBytes = 64;
#elif defined(__AVX__)
inline constexpr std::size_t kRegisterBytes = 32;
#else
inline constexpr std::size_t kRegisterBytes = 16;
#endif
inline constexpr std::size_t kVectorBytes = 64;
inline constexpr std::size_t kRegisters = kVectorBytes / kRegisterBytes;  // of a vector

#define HETSGD_INLINE inline __attribute__((always_inline))

template <class Number>
struct RegisterTypes {
  typedef Number Value __attribute__((vector_size(kRegisterBytes)));
  typedef Number Unaligned
      __attribute__((vector_size(kRegisterBytes), aligned(alignof(Number)), may_alias));
};

// One register, for moves, where nothing is added up.
template <class Number>
using Register = typename RegisterTypes<Number>::Value;
template <class Number>
inline constexpr std::size_t kRegisterLanes = kRegisterBytes / sizeof(Number);

template <class Number>
HETSGD_INLINE Register<Number> load_register(const Number* p) {
  return *reinterpret_cast<const typename RegisterTypes<Number>::Unaligned*>(p);
}
template <class Number>
HETSGD_INLINE void store_register(Number* p, Register<Number> v) {
  *reinterpret_cast<typename RegisterTypes<Number>::Unaligned*>(p) = v;
}

template <class Number>
struct Vector {
  Register<Number> part[kRegisters];

  HETSGD_INLINE Number operator[](std::size_t lane) const {
    return part[lane / kRegisterLanes<Number>][lane % kRegisterLanes<Number>];
  }
  HETSGD_INLINE void set(std::size_t lane, Number x) {
    part[lane / kRegisterLanes<Number>][lane % kRegisterLanes<Number>] = x;
  }
};

template <class Real>
using Vec = Vector<Real>;
template <class Real>
inline constexpr std::size_t kLanes = kVectorBytes / sizeof(Real);

// The result of a comparison of lanes: -1 where it holds, else 0.
template <class Number>
using Mask = Vector<std::conditional_t<sizeof(Number) == 4, std::int32_t, std::int64_t>>;

template <class Number>
HETSGD_INLINE Vector<Number> broadcast(Number x) {
  Vector<Number> v;
  // A subtraction of +0 is exact for every x, -0 and NaN included, and compiles to the broadcast
  // alone.
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRegisters; ++i) v.part[i] = x - Register<Number>{};
  return v;
}

// Operators work lane by lane. One operand may be a number, which stands for all lanes.
#define HETSGD_OPERATOR(op, Result)                                                           \
  template <class Number>                                                                     \
  HETSGD_INLINE Result operator op(const Vector<Number>& x, const Vector<Number>& y) {        \
    Result z;                                                                                 \
    _Pragma("GCC unroll 4") for (std::size_t i = 0; i < kRegisters; ++i) {                    \
      z.part[i] = x.part[i] op y.part[i];                                                     \
    }                                                                                         \
    return z;                                                                                 \
  }                                                                                           \
  template <class Number>                                                                     \
  HETSGD_INLINE Result operator op(const Vector<Number>& x, std::type_identity_t<Number> y) { \
    return x op broadcast<Number>(y);                                                         \
  }                                                                                           \
  template <class Number>                                                                     \
  HETSGD_INLINE Result operator op(std::type_identity_t<Number> x, const Vector<Number>& y) { \
    return broadcast<Number>(x) op y;                                                         \
  }
HETSGD_OPERATOR(+, Vector<Number>)
HETSGD_OPERATOR(-, Vector<Number>)
HETSGD_OPERATOR(*, Vector<Number>)
HETSGD_OPERATOR(/, Vector<Number>)
HETSGD_OPERATOR(&, Vector<Number>)
HETSGD_OPERATOR(|, Vector<Number>)
HETSGD_OPERATOR(<, Mask<Number>)
HETSGD_OPERATOR(>, Mask<Number>)
HETSGD_OPERATOR(<=, Mask<Number>)
HETSGD_OPERATOR(==, Mask<Number>)
HETSGD_OPERATOR(!=, Mask<Number>)
#undef HETSGD_OPERATOR

template <class Number>
HETSGD_INLINE Vector<Number> operator-(const Vector<Number>& x) {
  Vector<Number> z;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRegisters; ++i) z.part[i] = -x.part[i];
  return z;
}
template <class Number>
HETSGD_INLINE Vector<Number> operator~(const Vector<Number>& x) {
  Vector<Number> z;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRegisters; ++i) z.part[i] = ~x.part[i];
  return z;
}
template <class Number>
HETSGD_INLINE Vector<Number> operator<<(const Vector<Number>& x, int bits) {
  Vector<Number> z;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRegisters; ++i) z.part[i] = x.part[i] << bits;
  return z;
}
template <class Number, class Other>
HETSGD_INLINE Vector<Number>& operator+=(Vector<Number>& x, const Other& y) {
  return x = x + y;
}

// In each lane x where the mask holds, else y.
template <class Number>
HETSGD_INLINE Vector<Number> select(const Mask<Number>& mask, const Vector<Number>& x,
                                    const Vector<Number>& y) {
  Vector<Number> z;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRegisters; ++i) {
    z.part[i] = mask.part[i] ? x.part[i] : y.part[i];
  }
  return z;
}

// The same bits as numbers of another type of this size.
template <class To, class Number>
HETSGD_INLINE Vector<To> bits_as(const Vector<Number>& x) {
  static_assert(sizeof(To) == sizeof(Number));
  Vector<To> z;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRegisters; ++i) {
    z.part[i] = reinterpret_cast<Register<To>>(x.part[i]);
  }
  return z;
}

template <class Real>
HETSGD_INLINE Vec<Real> load(const Real* p) {
  Vec<Real> v;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRegisters; ++i) {
    v.part[i] = load_register(p + i * kRegisterLanes<Real>);
  }
  return v;
}
template <class Real>
HETSGD_INLINE void store(Real* p, const Vec<Real>& v) {
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRegisters; ++i) {
    store_register(p + i * kRegisterLanes<Real>, v.part[i]);
  }
}

// a b + c, rounded once.
template <class Real>
HETSGD_INLINE Register<Real> fused_register(Register<Real> a, Register<Real> b, Register<Real> c) {
#if defined(__AVX512F__)
  if constexpr (sizeof(Real) == 4)
    return _mm512_fmadd_ps(a, b, c);
  else
    return _mm512_fmadd_pd(a, b, c);
#elif defined(__AVX__) && defined(__FMA__)
  if constexpr (sizeof(Real) == 4)
    return _mm256_fmadd_ps(a, b, c);
  else
    return _mm256_fmadd_pd(a, b, c);
#else
  for (std::size_t i = 0; i < kRegisterLanes<Real>; ++i) c[i] = std::fma(a[i], b[i], c[i]);
  return c;
#endif
}
HETSGD_INLINE float fused(float a, float b, float c) { return std::fma(a, b, c); }
HETSGD_INLINE double fused(double a, double b, double c) { return std::fma(a, b, c); }
template <class Real>
HETSGD_INLINE Vector<Real> fused(const Vector<Real>& a, const Vector<Real>& b,
                                 const Vector<Real>& c) {
  Vector<Real> z;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRegisters; ++i) {
    z.part[i] = fused_register<Real>(a.part[i], b.part[i], c.part[i]);
  }
  return z;
}
template <class Real>
HETSGD_INLINE Vector<Real> fused(const Vector<Real>& a, std::type_identity_t<Real> b,
                                 const Vector<Real>& c) {
  return fused(a, broadcast<Real>(b), c);
}
template <class Real>
HETSGD_INLINE Vector<Real> fused(const Vector<Real>& a, const Vector<Real>& b,
                                 std::type_identity_t<Real> c) {
  return fused(a, b, broadcast<Real>(c));
}
template <class Real>
HETSGD_INLINE Vector<Real> fused(const Vector<Real>& a, std::type_identity_t<Real> b,
                                 std::type_identity_t<Real> c) {
  return fused(a, broadcast<Real>(b), broadcast<Real>(c));
}

// Makes v a register's value. Otherwise compilers read an operand of several products from memory
// for each of them.
template <class Number>
HETSGD_INLINE void keep_in_registers(Vector<Number>& v) {
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRegisters; ++i) {
#if defined(__x86_64__)
    asm("" : "+v"(v.part[i]));
#elif defined(__aarch64__)
    asm("" : "+w"(v.part[i]));
#else
    asm("" : "+m"(v.part[i]));
#endif
  }
}

// The first `count` <= kLanes elements; the other lanes are `rest`.
template <class Real>
HETSGD_INLINE Vec<Real> load_partial(const Real* p, std::size_t count, Real rest) {
  Vec<Real> v = broadcast(rest);
  for (std::size_t i = 0; i < kLanes<Real> && i < count; ++i) v.set(i, p[i]);
  return v;
}
template <class Real>
HETSGD_INLINE void store_partial(Real* p, std::size_t count, Vec<Real> v) {
  for (std::size_t i = 0; i < kLanes<Real> && i < count; ++i) p[i] = v[i];
}

// max(x, y), or x if y is NaN. Which operand wins a tie does not matter (+0 against -0).
template <class Real>
HETSGD_INLINE Vec<Real> vector_max(Vec<Real> x, Vec<Real> y) {
  return select(y > x, y, x);
}
// max(x, 0), but NaN stays NaN.
template <class Real>
HETSGD_INLINE Vec<Real> vector_relu(Vec<Real> x) {
  return select(x < Vec<Real>{}, Vec<Real>{}, x);
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
template <class Number>
HETSGD_INLINE bool any_lane(const Vector<Number>& mask) {
  std::uint64_t words[sizeof(mask) / sizeof(std::uint64_t)];
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
  const V magic = broadcast(12582912.0F);
  const V shifted = fused(x, 1.44269504F, magic);
  const V n = shifted - magic;
  V r = fused(n, -0.693359375F, x);
  r = fused(n, 2.12194440e-4F, r);
  V p = fused(r, 1.0F / 5040, 1.0F / 720);
  for (const float c : {1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F, 1.0F, 1.0F}) p = fused(p, r, c);
  const V e = bits_as<float>(bits_as<std::uint32_t>(p) + (bits_as<std::uint32_t>(shifted) << 23));
  // A NaN x made p NaN, but adding to its exponent bits may have changed that, so x is taken then.
  return select(x == x, select(x < kExpFloor<float>, V{}, e), x);
}

HETSGD_INLINE Vec<double> exp_nonpositive(Vec<double> x) {
  using V = Vec<double>;
  const V magic = broadcast(6755399441055744.0);
  const V shifted = fused(x, 1.4426950408889634, magic);
  const V n = shifted - magic;
  V r = fused(n, -6.93147180369123816490e-01, x);
  r = fused(n, -1.90821492927058770002e-10, r);
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
  for (const double c : kInverseFactorial) p = fused(p, r, c);
  const V e = bits_as<double>(bits_as<std::uint64_t>(p) + (bits_as<std::uint64_t>(shifted) << 52));
  return select(x == x, select(x < kExpFloor<double>, V{}, e), x);
}

}  // namespace hetsgd::cpu
