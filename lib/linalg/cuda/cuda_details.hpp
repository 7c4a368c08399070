// Facts about GPUs to know before measuring on them: clocks, which GPUs reach whose memory, which
// CUDA libraries there are. Only `devices` and `doctor` ask for them, because it takes its time.
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

// Details of platform.gpus[i], in the same order. Current clocks come from NVML, the driver's
// management library; without it they are not known.
std::vector<CudaGpuDetails> cuda_gpu_details(const CudaPlatform& platform);

// The driver's own version, "580.82.07"; empty if not known.
std::string cuda_driver_version();

struct CudaLibrary {
  std::string name;     // "cuBLAS"
  std::string purpose;  // "dense products"
  bool needed = false;  // no worker can use a GPU without it
  std::string file;     // where it was found; empty: not found
  std::string problem;  // the loader's message if it was not found
};

// cuBLAS, NCCL, cuDNN, cuSPARSE and NVML, searched for as when they are used.
std::vector<CudaLibrary> cuda_libraries();

}  // namespace hetsgd
