// GPUs as devices, and the list of available ones.
//
// A device object has its own stream, so several on one GPU work side by side. The devices of
// streams() are ordered by events before and after the work of their device. Memory comes from the
// GPU's pool, which keeps all that it ever had: allocations stop once the largest batch has passed.
// Only a call that reads a result waits for the GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "linalg/convolution_kernels.hpp"
#include "linalg/device.hpp"

namespace hetsgd {

struct CudaGpu {
  int ordinal = 0;
  std::string name;  // "NVIDIA H200"
  std::size_t memory_bytes = 0;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
};

// The GPUs that this process sees. Having none is no error here: `problem` gives the reason.
struct CudaPlatform {
  bool built_in = false;  // this binary has CUDA devices
  std::string driver;     // newest CUDA version that the driver knows, "13.0"; empty: no driver
  std::string runtime;    // CUDA version that this binary was built with
  std::string problem;    // empty: there are GPUs
  std::vector<CudaGpu> gpus;
};

CudaPlatform cuda_platform();

struct CudaDeviceOptions {
  Precision precision = Precision::fp32;  // precision of float products; double stays double
  ConvolutionLibrary convolution_library = ConvolutionLibrary::own;
  // softmax_layer keeps at most this many bytes of logits between its passes and computes the
  // others twice, with the same bits. 0: an eighth of the GPU's memory.
  std::size_t logit_bytes = 0;
  // Logits are computed about this many bytes at a time, which affects the bits. 0: 1 GiB.
  std::size_t logit_block_bytes = 0;
  // FP32 layers with at least this many logits are computed by products of halves, which are as
  // exact and gain where tensor cores are far faster than FP32 units. 0: where a GPU gains by it.
  std::size_t split_from_logits = 0;
};

// GPU `ordinal`, whose name is "cuda:0 (NVIDIA H200)". Throws Error(device) with a hint if this
// binary has no CUDA or no code for the GPU, or if there is no driver, no such GPU, no cuBLAS or no
// memory. A missing cuDNN is reported when the device is asked for its convolutions. Instantiated
// for float and double.
template <class Real>
std::unique_ptr<BasicDevice<Real>> make_cuda_device(int ordinal,
                                                    const CudaDeviceOptions& options = {});

// The GPU's name as its device gives it. Throws as make_cuda_device does if it is missing.
std::string cuda_device_name(int ordinal);

// The library that computes convolutions, with its version: "cuDNN 9.6.0", or "own, cuBLAS 13.0.2".
// Loads the library. Throws Error(device) if it is missing or has an unknown version.
std::string convolution_library_version(ConvolutionLibrary library);

}  // namespace hetsgd
