#include "linalg/cpu_kernels.hpp"

#include "linalg/cpu/simd.hpp"

namespace hetsgd {

const CpuKernels& cpu_kernels() {
  static const CpuKernels kernels{.fp32 = cpu::kRegisterBytes == 64   ? "avx512"
                                          : cpu::kRegisterBytes == 32 ? "avx2"
                                                                      : "generic",
                                  .bf16 = "fma",
                                  .no_amx = "no kernel of this program uses it"};
  return kernels;
}

}  // namespace hetsgd
