// What people want to know of GPUs before they measure on them: clocks, who reaches whose memory,
// which CUDA libraries there are. Asked by `devices` and `doctor` only: it takes its time.
#pragma once

#include <string>
#include <vector>

#include "linalg/cuda/cuda_device.hpp"

namespace hetsgd {

struct CudaClock {  // 0: not known
  double now_mhz = 0;
  double most_mhz = 0;
};

struct CudaGpuDetails {
  std::string pci_bus_id;  // "0000:01:00.0"
  CudaClock sm, memory;
  // The other GPUs whose memory this one's copies and kernels reach without the host.
  std::vector<int> peers;
};

// Of platform.gpus[i], in the same order. Current clocks come from NVML, the driver's library for
// management; without it they are not known.
std::vector<CudaGpuDetails> cuda_gpu_details(const CudaPlatform& platform);

// The driver's own version, "580.82.07"; empty: not known.
std::string cuda_driver_version();

struct CudaLibrary {
  std::string name;     // "cuBLAS"
  std::string purpose;  // "dense products"
  bool needed = false;  // no worker runs on a GPU without it
  std::string file;     // where it was found; empty: it was not
  std::string problem;  // why not, in the loader's words
};

// cuBLAS, NCCL, cuDNN, cuSPARSE and NVML, looked for as they are when they are used.
std::vector<CudaLibrary> cuda_libraries();

}  // namespace hetsgd
