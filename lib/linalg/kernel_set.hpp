// A set of CPU kernels: linalg/cpu, compiled for one kind of processor.
//
// A program for all processors holds several sets, which define the same names. Therefore each set
// is linked to one object whose symbols are local, but for its table (hetsgd_kernel_sets() in
// cmake/HetsgdTargets.cmake). No code of a set runs before cpu_kernels.cpp chooses it: another
// processor would not know its instructions. Headers of linalg/cpu are included there alone.
#pragma once

#include <memory>

#include "linalg/device.hpp"
#include "linalg/lane_codes.hpp"

namespace hetsgd {

// The table of a set, made at compile time.
struct KernelSet {
  using Constructor = void (*)();

  const char* fp32;  // the instructions of products in FP32: "avx512", "avx2"; else "generic"
  std::unique_ptr<BasicDevice<float>> (*make_float)(int cores, Precision precision);
  std::unique_ptr<BasicDevice<double>> (*make_double)(int cores, Precision precision);
  const LaneCodes* codes;
  // The constructors of the objects at namespace scope, which register kernel families. They are
  // called when the set is chosen. None where the start of the program calls them.
  const Constructor* constructors;
  const Constructor* constructors_end;
};

}  // namespace hetsgd
