#include "core/host.hpp"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace hetsgd {

std::string host_name() {
  utsname system{};
  ::uname(&system);
  return system.nodename;
}

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

// The limit of this process (ulimit -v), which counts addresses.
double process_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnknown;
  return static_cast<double>(limit.rlim_cur);
}

double addresses_in_use() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  return file >> pages ? pages * static_cast<double>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

MachineMemory machine_memory() {
  const double own = process_limit();
  MachineMemory memory;
  memory.total_bytes = std::min({meminfo("MemTotal:"), group_limit(), own});
  memory.available_bytes =
      std::min({meminfo("MemAvailable:"), memory.total_bytes, own - addresses_in_use()});
  return memory;
}

}  // namespace hetsgd
