// The sequence kernels of all backends (sequence_kernels.hpp has the shapes). Each is a rule for
// one element, or unit, of one sample, on the host and on GPUs alike.
//
// Free of fmt and of C++20: CUDA sources include this.
#pragma once

#include <cmath>
#include <cstddef>

#include "core/host_device.hpp"
#include "linalg/sequence_kernels.hpp"

namespace hetsgd {

namespace rule {

template <class Real>
struct ReadStep {
  SequenceStep step;
  const Real* X;
  Real* rows;
  std::size_t stride;
  HETSGD_HOST_DEVICE void operator()(std::size_t sample, std::size_t j) const {
    rows[sample * stride + j] = X[(sample * step.numbers + j) * step.steps + step.step];
  }
};

template <class Real>
struct WriteStep {
  SequenceStep step;
  const Real* rows;
  std::size_t stride;
  Real beta;
  Real* X;
  HETSGD_HOST_DEVICE void operator()(std::size_t sample, std::size_t j) const {
    Real& to = X[(sample * step.numbers + j) * step.steps + step.step];
    const Real value = rows[sample * stride + j];
    to = beta == Real(0) ? value : beta * to + value;
  }
};

template <class Real>
HETSGD_HOST_DEVICE Real gate_sigmoid(Real z) {
  return Real(1) / (Real(1) + std::exp(-z));
}

template <class Real>
struct Gates {
  std::size_t units;
  const Real* Z;
  const Real* before;
  Real* kept;
  Real* h;
  std::size_t stride;
  HETSGD_HOST_DEVICE void operator()(std::size_t sample, std::size_t j) const {
    const Real* const z = Z + sample * 4 * units + j;
    Real* const k = kept + sample * 6 * units + j;
    const Real input = gate_sigmoid(z[0]), forget = gate_sigmoid(z[units]);
    const Real cell = std::tanh(z[2 * units]), output = gate_sigmoid(z[3 * units]);
    const Real last = before != nullptr ? before[sample * 6 * units + 4 * units + j] : Real(0);
    const Real c = forget * last + input * cell;
    const Real hidden = output * std::tanh(c);
    k[0] = input;
    k[units] = forget;
    k[2 * units] = cell;
    k[3 * units] = output;
    k[4 * units] = c;
    k[5 * units] = hidden;
    h[sample * stride + j] = hidden;
  }
};

// dc' = f dc for dc = dc + dh o (1 - tanh(c)^2); a sigmoid s has the derivative s (1 - s).
template <class Real>
struct GatesBack {
  std::size_t units;
  const Real* kept;
  const Real* before;
  const Real* dh;
  Real* dc;
  Real* dZ;
  HETSGD_HOST_DEVICE void operator()(std::size_t sample, std::size_t j) const {
    const Real* const k = kept + sample * 6 * units + j;
    Real* const dz = dZ + sample * 4 * units + j;
    const Real input = k[0], forget = k[units], cell = k[2 * units], output = k[3 * units];
    const Real seen = std::tanh(k[4 * units]);
    const Real last = before != nullptr ? before[sample * 6 * units + 4 * units + j] : Real(0);
    const Real d = dh[sample * units + j];
    Real& state = dc[sample * units + j];
    const Real through = state + d * output * (Real(1) - seen * seen);
    dz[0] = through * cell * input * (Real(1) - input);
    dz[units] = through * last * forget * (Real(1) - forget);
    dz[2 * units] = through * input * (Real(1) - cell * cell);
    dz[3 * units] = d * seen * output * (Real(1) - output);
    state = through * forget;
  }
};

}  // namespace rule

// ParallelFor is that of one backend.
template <class Real, class ParallelFor>
class SequenceKernels final : public BasicSequenceKernels<Real> {
 public:
  explicit SequenceKernels(typename ParallelFor::Owner& owner) : parallel_for_(owner) {}

  void read_step(const SequenceStep& step, std::size_t n, const Real* X, Real* rows,
                 std::size_t stride) override {
    parallel_for_.rows(n, step.numbers, rule::ReadStep<Real>{step, X, rows, stride},
                       "kernel read_step", kCost);
  }
  void write_step(const SequenceStep& step, std::size_t n, const Real* rows, std::size_t stride,
                  Real beta, Real* X) override {
    parallel_for_.rows(n, step.numbers, rule::WriteStep<Real>{step, rows, stride, beta, X},
                       "kernel write_step", kCost);
  }
  void gates(std::size_t n, std::size_t units, const Real* Z, const Real* before, Real* kept,
             Real* h, std::size_t stride) override {
    parallel_for_.rows(n, units, rule::Gates<Real>{units, Z, before, kept, h, stride},
                       "kernel gates", kCost);
  }
  void gates_gradient(std::size_t n, std::size_t units, const Real* kept, const Real* before,
                      const Real* dh, Real* dc, Real* dZ) override {
    parallel_for_.rows(n, units, rule::GatesBack<Real>{units, kept, before, dh, dc, dZ},
                       "kernel gates_gradient", kCost);
  }

 private:
  static constexpr std::size_t kCost = 8;

  ParallelFor parallel_for_;
};

}  // namespace hetsgd
