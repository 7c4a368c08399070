// Which kernels the CPU devices of this process run, for reports. They are the same bytes in all:
// the choice is one of speed.
#pragma once

#include <string>

namespace hetsgd {

struct CpuKernels {
  std::string fp32;    // the instructions of products in FP32: "avx512", "avx2"; else "generic"
  std::string bf16;    // those of products in BF16: "amx" or "fma"
  std::string no_amx;  // why not "amx": "CPUID", ...; empty where AMX multiplies
};

// The choice of this process, which does not change.
const CpuKernels& cpu_kernels();

}  // namespace hetsgd
