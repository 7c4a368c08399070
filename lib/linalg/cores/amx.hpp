// Intel's AMX, which multiplies factors in BF16: whether this process may use it.
#pragma once

#include <string>

namespace hetsgd::cpu {

// Why not, "CPUID" (the processor has no AMX with BF16), "kernel older than 5.16" or "permission
// refused"; empty: it may. The first call asks the kernel for the permission, which threads that
// start later have, too.
const std::string& no_amx();

}  // namespace hetsgd::cpu
