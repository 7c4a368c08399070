// The sequence kernels of a GPU: a thread per unit of a sample.
#include "linalg/cuda/backend.hpp"
#include "linalg/cuda/block.cuh"
#include "linalg/sequence_rules.hpp"

namespace hetsgd::cuda {

namespace {

template <class Real>
class CudaSequenceKernels final : public BasicSequenceKernels<Real> {
 public:
  explicit CudaSequenceKernels(Backend& backend) : backend_(backend) {}

  void read_step(const SequenceStep& step, std::size_t n, const Real* X, Real* rows,
                 std::size_t stride) override {
    launch_rowwise(backend_.use(), n, step.numbers, rule::ReadStep<Real>{step, X, rows, stride},
                   "kernel read_step");
  }
  void write_step(const SequenceStep& step, std::size_t n, const Real* rows, std::size_t stride,
                  Real beta, Real* X) override {
    launch_rowwise(backend_.use(), n, step.numbers,
                   rule::WriteStep<Real>{step, rows, stride, beta, X}, "kernel write_step");
  }
  void gates(std::size_t n, std::size_t units, const Real* Z, const Real* before, Real* kept,
             Real* h, std::size_t stride) override {
    launch_rowwise(backend_.use(), n, units, rule::Gates<Real>{units, Z, before, kept, h, stride},
                   "kernel gates");
  }
  void gates_gradient(std::size_t n, std::size_t units, const Real* kept, const Real* before,
                      const Real* dh, Real* dc, Real* dZ) override {
    launch_rowwise(backend_.use(), n, units, rule::GatesBack<Real>{units, kept, before, dh, dc, dZ},
                   "kernel gates_gradient");
  }

 private:
  Backend& backend_;
};

const RegisterKernels<Backend, BasicSequenceKernels, CudaSequenceKernels> sequence_kernels;

}  // namespace

}  // namespace hetsgd::cuda
