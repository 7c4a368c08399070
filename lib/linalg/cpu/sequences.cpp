// The sequence kernels of the CPU.
#include "linalg/cpu/backend.hpp"
#include "linalg/sequence_rules.hpp"

namespace hetsgd::cpu {
namespace {

template <class Real>
using CpuSequenceKernels = SequenceKernels<Real, ParallelFor>;

const RegisterKernels<Backend, BasicSequenceKernels, CpuSequenceKernels> sequence_kernels;

}  // namespace
}  // namespace hetsgd::cpu
