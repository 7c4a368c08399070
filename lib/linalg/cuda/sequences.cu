// The sequence kernels of a GPU.
#include "linalg/cuda/block.cuh"
#include "linalg/sequence_rules.hpp"

namespace hetsgd::cuda {
namespace {

template <class Real>
using CudaSequenceKernels = SequenceKernels<Real, ParallelFor>;

const RegisterKernels<Backend, BasicSequenceKernels, CudaSequenceKernels> sequence_kernels;

}  // namespace
}  // namespace hetsgd::cuda
