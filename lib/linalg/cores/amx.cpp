#include "linalg/cores/amx.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#endif

namespace hetsgd::cpu {

namespace {

#if defined(__x86_64__)
std::string ask() {
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24;  // CPUID 7.0, EDX
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & kBf16) == 0 || (d & kTile) == 0) {
    return "CPUID";
  }
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // asm/prctl.h since Linux 5.16
  if (::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) return "";
  return errno == EINVAL ? "kernel older than 5.16" : "permission refused";
}
#else
std::string ask() { return "no x86-64"; }
#endif

}  // namespace

const std::string& no_amx() {
  static const std::string reason = ask();
  return reason;
}

}  // namespace hetsgd::cpu
