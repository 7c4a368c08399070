// The sequence kernels of the CPU.
#include "linalg/cpu/cores.hpp"
#include "linalg/sequence_rules.hpp"

namespace hetsgd::cpu {
namespace {

template <class Real>
using CpuSequenceKernels = SequenceKernels<Real, ParallelFor>;

const RegisterKernels<Cores, BasicSequenceKernels, CpuSequenceKernels> sequence_kernels;

}  // namespace
}  // namespace hetsgd::cpu
