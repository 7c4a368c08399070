// Element-wise rules, which BasicDevice::apply applies to element i of its operands, for every i.
//
// A rule is one functor over numbers, which both backends compile. Operands that it takes by value
// are read; operands that it takes by reference are read and written. Its return value is written
// to one more operand (or, in apply_norm, squared and added up). Element i of a result depends on
// elements i alone, so operands may be the same memory; other overlaps are not allowed.
//
// A new rule is its functor here and its name in ElementRule, at the end of this file.
//
// Free of fmt and of C++20: CUDA sources include this.
#pragma once

#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/host_device.hpp"

namespace hetsgd {

namespace rule {

// y = a
template <class Real>
struct Fill {
  Real a = 0;
  HETSGD_HOST_DEVICE Real operator()() const { return a; }
};

// y = a x
template <class Real>
struct Scale {
  Real a = 1;
  HETSGD_HOST_DEVICE Real operator()(Real x) const { return a * x; }
};

// y <- y + a x
template <class Real>
struct AddScaled {
  Real a = 1;
  HETSGD_HOST_DEVICE void operator()(Real x, Real& y) const { y += a * x; }
};

// y <- y + a x, rounded once.
template <class Real>
struct FusedAddScaled {
  Real a = 1;
  HETSGD_HOST_DEVICE void operator()(Real x, Real& y) const { y = std::fma(a, x, y); }
};

// y <- a x + b y
template <class Real>
struct Axpby {
  Real a = 1, b = 1;
  HETSGD_HOST_DEVICE void operator()(Real x, Real& y) const { y = a * x + b * y; }
};

// z = a x + b y, computed in double and rounded once.
template <class Real>
struct Combine {
  double a = 1, b = 1;
  HETSGD_HOST_DEVICE Real operator()(Real x, Real y) const {
    return static_cast<Real>(a * static_cast<double>(x) + b * static_cast<double>(y));
  }
};

// d <- 0 where the activation y <= 0, the gradient of ReLU.
template <class Real>
struct ReluGradient {
  HETSGD_HOST_DEVICE void operator()(Real y, Real& d) const { d = y <= Real(0) ? Real(0) : d; }
};

// w' = merged + gamma (w - previous); previous <- w; w <- w': the momentum merge of Adaptive SGD
// (Ma et al. 2021), algorithm 2, lines 11 and 12.
template <class Real>
struct MomentumMerge {
  Real gamma = 0;
  HETSGD_HOST_DEVICE void operator()(Real merged, Real& w, Real& previous) const {
    const Real next = merged + gamma * (w - previous);
    previous = w;
    w = next;
  }
};

// d = w - z, and its part of a sum: s <- a d + keep s; keep = 0 takes s as zero. The corrections of
// CROSSBOW (Koliousis et al. 2019), algorithm 1, line 9.
template <class Real>
struct Correction {
  Real a = 1, keep = 1;
  HETSGD_HOST_DEVICE Real operator()(Real w, Real z, Real& s) const {
    const Real d = w - z;
    s = keep != Real(0) ? a * d + keep * s : a * d;
    return d;
  }
};

// w <- w - a d and z <- z + s, a replica's correction and the move of the average model without
// momentum: algorithm 1, lines 10 and 12.
template <class Real>
struct Averaging {
  Real a = 1;
  HETSGD_HOST_DEVICE void operator()(Real d, Real s, Real& w, Real& z) const {
    w -= a * d;
    z += s;
  }
};

// The same with momentum: z' = z + s + mu (z - previous); previous <- z; z <- z' (line 13).
template <class Real>
struct MomentumAveraging {
  Real a = 1, mu = 0;
  HETSGD_HOST_DEVICE void operator()(Real d, Real s, Real& w, Real& z, Real& previous) const {
    w -= a * d;
    MomentumMerge<Real>{mu}(s + z, z, previous);
  }
};

// An update with momentum:
//   u = gradient g + decay w,  v <- momentum v + u,  w <- w - velocity v - direct u
template <class Real>
struct MomentumStep {
  Real gradient = 1, decay = 0;
  Real momentum = 0;
  Real velocity = 0, direct = 0;
  HETSGD_HOST_DEVICE void operator()(Real g, Real& v, Real& w) const {
    const Real u = gradient * g + decay * w;
    v = momentum * v + u;
    w -= velocity * v + direct * u;
  }
};

// The factors of updates by the gradient's first two moments:
//   u = gradient g + decay w,  m <- beta1 m + fresh1 u,  v <- beta2 v + fresh2 u^2
//   r = (first m) / (sqrt(second v) + epsilon) + shrink w
template <class Real>
struct Moments {
  Real gradient = 1, decay = 0;
  Real beta1 = 0, beta2 = 0;
  Real fresh1 = 1, fresh2 = 1;  // 1 - beta1, 1 - beta2; subtracted in float they lose four digits
  Real first = 1, second = 1;   // bias corrections of the moments
  Real epsilon = 0;
  Real shrink = 0;  // decoupled weight decay

  HETSGD_HOST_DEVICE void take(Real g, Real w, Real& m, Real& v) const {
    const Real u = gradient * g + decay * w;
    m = beta1 * m + fresh1 * u;
    v = beta2 * v + fresh2 * (u * u);
  }
  HETSGD_HOST_DEVICE Real direction(Real m, Real v, Real w) const {
    return first * m / (std::sqrt(second * v) + epsilon) + shrink * w;
  }
};

// Updates m and v, then w <- w - step r.
template <class Real>
struct MomentStep {
  Moments<Real> moments;
  Real step = 0;
  HETSGD_HOST_DEVICE void operator()(Real g, Real& m, Real& v, Real& w) const {
    moments.take(g, w, m, v);
    w -= step * moments.direction(m, v, w);
  }
};

// The same for elements with g other than 0, with every rounding fixed.
template <class Real>
struct LazyMomentStep {
  Moments<Real> moments;
  Real step = 0;
  HETSGD_HOST_DEVICE void operator()(Real g, Real& m, Real& v, Real& w) const {
    if (g == Real(0)) return;
    const Moments<Real>& o = moments;
    m = std::fma(o.beta1, m, o.fresh1 * g);
    v = std::fma(o.beta2, v, o.fresh2 * (g * g));
    w = std::fma(-step, o.first * m / (std::sqrt(o.second * v) + o.epsilon), w);
  }
};

// u = gradient g + decay w,  h <- h + u^2,  w <- w - step u / (sqrt(h) + epsilon). Every rounding
// is fixed if gradient is 1 and decay 0.
template <class Real>
struct AdaGradStep {
  Real gradient = 1, decay = 0;
  Real step = 0, epsilon = 0;
  HETSGD_HOST_DEVICE void operator()(Real g, Real& h, Real& w) const {
    const Real u = gradient * g + decay * w;
    h = std::fma(u, u, h);
    w = std::fma(-step, u / (std::sqrt(h) + epsilon), w);
  }
};

// MomentStep in two calls, for a step that depends on r: the first updates m and v and returns r,
// the second updates w.
template <class Real>
struct MomentUpdate {
  Moments<Real> moments;
  HETSGD_HOST_DEVICE Real operator()(Real g, Real w, Real& m, Real& v) const {
    moments.take(g, w, m, v);
    return moments.direction(m, v, w);
  }
};
template <class Real>
struct MomentApply {
  Moments<Real> moments;
  Real step = 0;
  HETSGD_HOST_DEVICE void operator()(Real m, Real v, Real& w) const {
    w -= step * moments.direction(m, v, w);
  }
};

}  // namespace rule

// A rule with its operands. A backend loads an element of them, then applies the rule. The two are
// separate, so that a GPU can have several elements in flight.
template <class Rule, class Operator = decltype(&Rule::operator())>
class ElementCall;

template <template <class> class Rule, class Real, class Result, class... Parameters>
class ElementCall<Rule<Real>, Result (Rule<Real>::*)(Parameters...) const> {
  template <class Parameter>
  using Pointer = std::conditional_t<std::is_reference_v<Parameter>, Real*, const Real*>;
  using Indices = std::index_sequence_for<Parameters...>;

 public:
  static constexpr bool kReturns = !std::is_void_v<Result>;
  static constexpr std::size_t kParameters = sizeof...(Parameters);
  struct Operands {
    Real at[kParameters > 0 ? kParameters : 1];
  };

  explicit ElementCall(const Rule<Real>& rule, Pointer<Parameters>... operands,
                       Real* result = nullptr)
      : rule_(rule), operand_{const_cast<Real*>(operands)...}, result_(result) {}

  HETSGD_HOST_DEVICE Operands load(std::size_t i) const { return load(i, Indices()); }
  // Applies the rule to element i, whose x is loaded, and returns the rule's return value.
  HETSGD_HOST_DEVICE Result update(std::size_t i, Operands x) const {
    return update(i, x, Indices());
  }
  // The same, and stores the rule's return value.
  HETSGD_HOST_DEVICE void store(std::size_t i, const Operands& x) const {
    if constexpr (kReturns) {
      result_[i] = update(i, x);
    } else {
      update(i, x);
    }
  }

 private:
  template <std::size_t... I>
  HETSGD_HOST_DEVICE Operands load([[maybe_unused]] std::size_t i,
                                   std::index_sequence<I...>) const {
    return {{operand_[I][i]...}};
  }
  template <std::size_t... I>
  HETSGD_HOST_DEVICE Result update([[maybe_unused]] std::size_t i, [[maybe_unused]] Operands& x,
                                   std::index_sequence<I...>) const {
    if constexpr (kReturns) {
      const Result result = rule_(x.at[I]...);
      (write<Parameters, I>(i, x), ...);
      return result;
    } else {
      rule_(x.at[I]...);
      (write<Parameters, I>(i, x), ...);
    }
  }
  template <class Parameter, std::size_t I>
  HETSGD_HOST_DEVICE void write([[maybe_unused]] std::size_t i,
                                [[maybe_unused]] const Operands& x) const {
    if constexpr (std::is_reference_v<Parameter>) operand_[I][i] = x.at[I];
  }

  Rule<Real> rule_;
  Real* operand_[kParameters > 0 ? kParameters : 1];
  Real* result_;
};

template <class Real, template <class> class... Rules>
using AnyElementCall = std::variant<ElementCall<Rules<Real>>...>;

// Every rule that BasicDevice::apply and apply_rows take.
template <class Real>
using ElementRule =
    AnyElementCall<Real, rule::Fill, rule::Scale, rule::AddScaled, rule::FusedAddScaled,
                   rule::Axpby, rule::Combine, rule::ReluGradient, rule::MomentumMerge,
                   rule::Correction, rule::Averaging, rule::MomentumAveraging, rule::MomentumStep,
                   rule::MomentStep, rule::MomentApply, rule::LazyMomentStep, rule::AdaGradStep>;
// Every rule that BasicDevice::apply_norm takes.
template <class Real>
using NormRule = AnyElementCall<Real, rule::MomentUpdate>;

}  // namespace hetsgd
