// The sequence kernels of the CPU, split by samples.
#include "linalg/cpu/cores.hpp"
#include "linalg/sequence_rules.hpp"

namespace hetsgd::cpu {
namespace {

template <class Real>
class CpuSequenceKernels final : public BasicSequenceKernels<Real> {
 public:
  explicit CpuSequenceKernels(const Cores& cores) : cores_(cores) {}

  void read_step(const SequenceStep& step, std::size_t n, const Real* X, Real* rows,
                 std::size_t stride) override {
    each(n, step.numbers, rule::ReadStep<Real>{step, X, rows, stride});
  }
  void write_step(const SequenceStep& step, std::size_t n, const Real* rows, std::size_t stride,
                  Real beta, Real* X) override {
    each(n, step.numbers, rule::WriteStep<Real>{step, rows, stride, beta, X});
  }
  void gates(std::size_t n, std::size_t units, const Real* Z, const Real* before, Real* kept,
             Real* h, std::size_t stride) override {
    each(n, units, rule::Gates<Real>{units, Z, before, kept, h, stride});
  }
  void gates_gradient(std::size_t n, std::size_t units, const Real* kept, const Real* before,
                      const Real* dh, Real* dc, Real* dZ) override {
    each(n, units, rule::GatesBack<Real>{units, kept, before, dh, dc, dZ});
  }

 private:
  static constexpr std::size_t kWorth = std::size_t{1} << 10;  // units worth a second core

  template <class Rule>
  void each(std::size_t n, std::size_t units, const Rule& rule) const {
    cores_.split(n, 1, kWorth / units + 1, [&](Range samples) {
      for (std::size_t sample = samples.begin; sample < samples.end; ++sample) {
        for (std::size_t j = 0; j < units; ++j) rule(sample, j);
      }
    });
  }

  const Cores& cores_;
};

const RegisterKernels<Cores, BasicSequenceKernels, CpuSequenceKernels> sequence_kernels;

}  // namespace
}  // namespace hetsgd::cpu
