#include "core/memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace hetsgd {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

// The number of kB behind `key` in /proc/meminfo, in bytes.
double meminfo(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  double kilobytes = 0;
  while (file >> word) {
    if (word == key && file >> kilobytes) return kilobytes * 1024;
  }
  return kUnknown;
}

// The limit of the control group (version 2) that a container lives in; "max" is none.
double group_limit() {
  std::ifstream file("/sys/fs/cgroup/memory.max");
  double bytes = 0;
  return file >> bytes ? bytes : kUnknown;
}

}  // namespace

MachineMemory machine_memory() {
  MachineMemory memory;
  memory.total_bytes = std::min(meminfo("MemTotal:"), group_limit());
  memory.available_bytes = std::min(meminfo("MemAvailable:"), memory.total_bytes);
  return memory;
}

}  // namespace hetsgd
