// An emulated libnvidia-ml: clocks and the driver's version.
#include <cstring>

#include "emulation.hpp"

using hetsgd_emulation::settings;

namespace {
constexpr int kSuccess = 0, kNotFound = 6, kNotSupported = 3, kDriverNotLoaded = 9;
enum Clock : unsigned { kGraphics = 0, kSm = 1, kMemory = 2 };

int clock(unsigned type, unsigned sm, unsigned* mhz) {
  if (type > kMemory) return kNotSupported;
  *mhz = type == kMemory ? 1500 : sm;
  return kSuccess;
}
}  // namespace

extern "C" {

int nvmlInit_v2() { return settings().driver == 0 ? kDriverNotLoaded : kSuccess; }
int nvmlShutdown() { return kSuccess; }
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::strncpy(text, "000.00", length);
  return kSuccess;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  for (int gpu = 0; gpu < settings().gpus; ++gpu) {
    if (fmt::format("0000:{:02X}:00.0", gpu + 1) != id) continue;
    *device = reinterpret_cast<void*>(static_cast<std::uintptr_t>(gpu + 1));
    return kSuccess;
  }
  return kNotFound;
}
int nvmlDeviceGetClockInfo(void*, unsigned type, unsigned* mhz) { return clock(type, 600, mhz); }
int nvmlDeviceGetMaxClockInfo(void*, unsigned type, unsigned* mhz) {
  return clock(type, 1000, mhz);
}

}  // extern "C"
