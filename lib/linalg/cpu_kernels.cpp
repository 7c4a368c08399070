// The choice among the kernel sets of this program.
#include "linalg/cpu_kernels.hpp"

#include <fmt/ranges.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"
#include "linalg/cores/amx.hpp"
#include "linalg/device.hpp"
#include "linalg/kernel_set.hpp"

extern "C" {
#ifdef HETSGD_KERNEL_SETS
extern const hetsgd::KernelSet hetsgd_cpu_v3, hetsgd_cpu_v4;
#else
extern const hetsgd::KernelSet hetsgd_cpu_own;
#endif
}

namespace hetsgd {

namespace {

struct Candidate {
  std::string_view name;
  const KernelSet* set;
  bool runs;  // on this processor
};

// The sets of this program, the best one first.
std::vector<Candidate> candidates() {
#ifdef HETSGD_KERNEL_SETS
  // These features of a set say enough: no processor has them without the rest.
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return {{"v4", &hetsgd_cpu_v4, v4}, {"v3", &hetsgd_cpu_v3, v3}};
#else
  return {{HETSGD_OWN_MARCH, &hetsgd_cpu_own, true}};
#endif
}

// $HETSGD_CPU, or the best set that runs here.
const KernelSet& choose() {
  constexpr const char* kVariable = "HETSGD_CPU";
  const char* const variable = std::getenv(kVariable);
  const std::string wanted = variable == nullptr ? "" : variable;
  std::vector<std::string_view> names;
  for (const Candidate& each : candidates()) {
    names.push_back(each.name);
    if (wanted.empty() ? !each.runs : each.name != wanted) continue;
    if (each.runs) return *each.set;
    refuse(kVariable, wanted, "a kernel set that this processor runs",
           "without the variable hetsgd takes the best one", ExitCode::device);
  }
  if (wanted.empty()) throw device_error("this processor runs no kernel set of this program");
  refuse(kVariable, quote(wanted), fmt::format("{}", fmt::join(names, " or ")),
         "without the variable hetsgd takes the best kernel set that this processor runs");
}

const KernelSet& chosen() {
  static const KernelSet& set = []() -> const KernelSet& {
    const KernelSet& found = choose();
    cpu::no_amx();  // asks for the permission before a device starts threads
    for (const auto* each = found.constructors; each != found.constructors_end; ++each) (*each)();
    return found;
  }();
  return set;
}

}  // namespace

const CpuKernels& cpu_kernels() {
  static const CpuKernels kernels = [] {
    CpuKernels found{.fp32 = chosen().fp32, .bf16 = "fma", .no_amx = cpu::no_amx()};
    if (found.fp32 != "avx512") found.no_amx = "no kernels for AVX-512";  // among which AMX's are
    if (found.no_amx.empty()) found.bf16 = "amx";
    return found;
  }();
  return kernels;
}

const LaneCodes& lane_codes() { return *chosen().codes; }

template <class Real>
std::unique_ptr<BasicDevice<Real>> make_cpu_device(int cores, Precision precision) {
  if (cores < 1 || cores > 1024) {
    throw device_error("cpu:{0}: found {0} cores, expected 1 to 1024", cores);
  }
  if constexpr (std::is_same_v<Real, float>) {
    return chosen().make_float(cores, precision);
  } else {
    return chosen().make_double(cores, precision);
  }
}

template std::unique_ptr<BasicDevice<float>> make_cpu_device<float>(int, Precision);
template std::unique_ptr<BasicDevice<double>> make_cpu_device<double>(int, Precision);

}  // namespace hetsgd
