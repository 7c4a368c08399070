// GPUs as devices, and which ones there are.
//
// A device object has a stream of its own, so several on one GPU work side by side; those of
// streams() are ordered by events before and after what their device does. Its memory
// comes from the GPU's pool, which keeps what it ever had: allocations stop once the largest batch
// has passed. Nothing waits for the GPU but who reads a result.
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

// What this process sees. No GPU is no error here: `problem` says why there is none.
struct CudaPlatform {
  bool built_in = false;  // this binary has CUDA devices
  std::string driver;     // newest CUDA version that the driver knows, "13.0"; empty: no driver
  std::string runtime;    // CUDA version that this binary was built with
  std::string problem;    // empty: there are GPUs
  std::vector<CudaGpu> gpus;
};

CudaPlatform cuda_platform();

struct CudaDeviceOptions {
  Precision precision = Precision::fp32;  // of products of floats; double stays double
  ConvolutionLibrary convolution_library = ConvolutionLibrary::own;
  // softmax_layer keeps at most so many bytes of logits between its passes and computes the others
  // twice, with the same bits; 0: an eighth of the GPU's memory.
  std::size_t logit_bytes = 0;
  // They are computed about so many bytes at a time, which has a say in the bits; 0: 1 GiB.
  std::size_t logit_block_bytes = 0;
};

// GPU `ordinal`, whose name is "cuda:0 (NVIDIA H200)". Errors (device): no CUDA in this binary, no
// driver, no such GPU, one that this binary has no code for, no cuBLAS, no memory; each with a
// hint. A cuDNN that is missing shows when the device is asked for its convolutions. Instantiated for
// float and double.
template <class Real>
std::unique_ptr<BasicDevice<Real>> make_cuda_device(int ordinal,
                                                    const CudaDeviceOptions& options = {});

// The GPU's name as that of its device; throws what make_cuda_device would for a missing one.
std::string cuda_device_name(int ordinal);

// What computes convolutions, with its version: "cuDNN 9.6.0", or "own, cuBLAS 13.0.2". Loads the
// library. Errors (device): there is none, or one of a version that is not known here.
std::string convolution_library_version(ConvolutionLibrary library);

}  // namespace hetsgd
