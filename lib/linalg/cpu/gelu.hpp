// Gelu and its derivative on vectors.
#pragma once

#include <cmath>
#include <cstddef>

#include "linalg/cpu/simd.hpp"
#include "linalg/token_kernels.hpp"

namespace hetsgd::cpu {

template <class Real>
struct GeluPair {
  Vec<Real> value, slope;
};

template <class Real>
HETSGD_INLINE Vec<Real> magnitude(Vec<Real> x) {
  return select(x < Vec<Real>{}, -x, x);
}

// Phi(x), and e = exp(-x^2 / 2). The polynomials interpolate at Chebyshev nodes: (Phi(x) - 1/2) / x
// in x^2 up to 1.2, and beyond it the tail times exp(x^2 / 2) in 1 / (1 + 0.35 |x|).
HETSGD_INLINE Vec<float> normal_distribution(Vec<float> x, Vec<float> e) {
  using V = Vec<float>;
  constexpr float kInner[] = {-9.11410097614862e-06F, 0.00011511878983581301F,
                              -0.001187171321362257F, 0.00997351948171854F,
                              -0.06649037450551987F,  0.3989422917366028F};
  constexpr float kTail[] = {-0.22595958411693573F,  0.2781467139720917F,  -0.04865313693881035F,
                             0.17138424515724182F,   0.12901021540164948F, 0.14092521369457245F,
                             -6.809609476476908e-05F};
  const V far = magnitude<float>(x), square = x * x;
  V inner = broadcast(4.894125709142827e-07F);
  for (const float c : kInner) inner = fused(inner, square, c);
  const V t = 1.0F / (1.0F + 0.35F * far);
  V tail = broadcast(0.05521867051720619F);
  for (const float c : kTail) tail = fused(tail, t, c);
  tail = e * tail;
  const V beyond = select(x > V{}, 1.0F - tail, tail);
  // NaN is not below the border, so it passes through `beyond` by way of the tail.
  return select(far < 1.2F, 0.5F + x * inner, beyond);
}

HETSGD_INLINE Vec<double> normal_distribution(Vec<double> x, Vec<double>) {
  Vec<double> result;
  for (std::size_t i = 0; i < kLanes<double>; ++i) {
    result.set(i, 0.5 * std::erfc(-x[i] / M_SQRT2));
  }
  return result;
}

template <class Real>
HETSGD_INLINE GeluPair<Real> exact_gelu(Vec<Real> x) {
  constexpr auto kDensity = static_cast<Real>(0.39894228040143267794);  // 1 / sqrt(2 pi)
  const Vec<Real> e = exp_nonpositive(Real(-0.5) * x * x);
  const Vec<Real> phi = normal_distribution(x, e);
  return {x * phi, phi + x * (kDensity * e)};
}

template <class Real>
HETSGD_INLINE GeluPair<Real> tanh_gelu(Vec<Real> x) {
  constexpr auto kScale = static_cast<Real>(0.79788456080286535588);  // sqrt(2 / pi)
  constexpr auto kCube = static_cast<Real>(0.044715);
  const Vec<Real> square = x * x;
  const Vec<Real> u = kScale * (x + kCube * square * x);
  const Vec<Real> e = exp_nonpositive(Real(-2) * magnitude<Real>(u));
  const Vec<Real> size = (Real(1) - e) / (Real(1) + e);
  const Vec<Real> tanh = select(u < Vec<Real>{}, -size, size);
  const Vec<Real> half = Real(0.5) * (Real(1) + tanh);
  const Vec<Real> inside = kScale * (Real(1) + Real(3) * kCube * square);
  return {x * half, half + Real(0.5) * x * (Real(1) - tanh * tanh) * inside};
}

template <class Real>
HETSGD_INLINE GeluPair<Real> gelu_of(GeluLaw law, Vec<Real> x) {
  return law == GeluLaw::exact ? exact_gelu<Real>(x) : tanh_gelu<Real>(x);
}

}  // namespace hetsgd::cpu
