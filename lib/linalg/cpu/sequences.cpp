// The sequence kernels of the CPU, split by samples.
#include <cmath>

#include "linalg/cpu/cores.hpp"
#include "linalg/sequence_kernels.hpp"

namespace hetsgd::cpu {

namespace {

template <class Real>
Real sigmoid_of(Real z) {
  return Real(1) / (Real(1) + std::exp(-z));
}

template <class Real>
class CpuSequenceKernels final : public BasicSequenceKernels<Real> {
 public:
  explicit CpuSequenceKernels(const Cores& cores) : cores_(cores) {}

  void read_step(const SequenceStep& step, std::size_t n, const Real* X, Real* rows,
                 std::size_t stride) override {
    each_number(step, n, [&](std::size_t sample, std::size_t j, std::size_t at) {
      rows[sample * stride + j] = X[at];
    });
  }

  void write_step(const SequenceStep& step, std::size_t n, const Real* rows, std::size_t stride,
                  Real beta, Real* X) override {
    each_number(step, n, [&](std::size_t sample, std::size_t j, std::size_t at) {
      const Real value = rows[sample * stride + j];
      X[at] = beta == Real(0) ? value : beta * X[at] + value;
    });
  }

  void gates(std::size_t n, std::size_t units, const Real* Z, const Real* before, Real* kept,
             Real* h, std::size_t stride) override {
    each_unit(n, units, [&](std::size_t sample, std::size_t j) {
      const Real* const z = Z + sample * 4 * units + j;
      Real* const k = kept + sample * 6 * units + j;
      const Real input = sigmoid_of(z[0]), forget = sigmoid_of(z[units]);
      const Real cell = std::tanh(z[2 * units]), output = sigmoid_of(z[3 * units]);
      const Real last = before ? before[sample * 6 * units + 4 * units + j] : Real(0);
      const Real c = forget * last + input * cell;
      const Real hidden = output * std::tanh(c);
      k[0] = input;
      k[units] = forget;
      k[2 * units] = cell;
      k[3 * units] = output;
      k[4 * units] = c;
      k[5 * units] = hidden;
      h[sample * stride + j] = hidden;
    });
  }

  // dc' = f dc for dc = dc + dh o (1 - tanh(c)^2); a sigmoid s has the derivative s (1 - s).
  void gates_gradient(std::size_t n, std::size_t units, const Real* kept, const Real* before,
                      const Real* dh, Real* dc, Real* dZ) override {
    each_unit(n, units, [&](std::size_t sample, std::size_t j) {
      const Real* const k = kept + sample * 6 * units + j;
      Real* const dz = dZ + sample * 4 * units + j;
      const Real input = k[0], forget = k[units], cell = k[2 * units], output = k[3 * units];
      const Real seen = std::tanh(k[4 * units]);
      const Real last = before ? before[sample * 6 * units + 4 * units + j] : Real(0);
      const Real d = dh[sample * units + j];
      Real& state = dc[sample * units + j];
      const Real through = state + d * output * (Real(1) - seen * seen);
      dz[0] = through * cell * input * (Real(1) - input);
      dz[units] = through * last * forget * (Real(1) - forget);
      dz[2 * units] = through * input * (Real(1) - cell * cell);
      dz[3 * units] = d * seen * output * (Real(1) - output);
      state = through * forget;
    });
  }

 private:
  static constexpr std::size_t kWorth = std::size_t{1} << 10;  // units worth a second core

  template <class F>
  void each_unit(std::size_t n, std::size_t units, F&& f) const {
    cores_.split(n, 1, kWorth / units + 1, [&](Range samples) {
      for (std::size_t sample = samples.begin; sample < samples.end; ++sample) {
        for (std::size_t j = 0; j < units; ++j) f(sample, j);
      }
    });
  }

  // f(sample, number, place in X).
  template <class F>
  void each_number(const SequenceStep& step, std::size_t n, F&& f) const {
    each_unit(n, step.numbers, [&](std::size_t sample, std::size_t j) {
      f(sample, j, (sample * step.numbers + j) * step.steps + step.step);
    });
  }

  const Cores& cores_;
};

const RegisterKernels<Cores, BasicSequenceKernels, CpuSequenceKernels> sequence_kernels;

}  // namespace

}  // namespace hetsgd::cpu
