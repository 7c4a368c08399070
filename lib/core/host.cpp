#include "core/host.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

namespace hetsgd {

std::string host_name() {
  utsname system{};
  ::uname(&system);
  return system.nodename;
}

std::vector<int> available_cores() {
  constexpr int kMostCores = 8192;
  std::vector<std::uint8_t> mask(CPU_ALLOC_SIZE(kMostCores));
  auto* const set = reinterpret_cast<cpu_set_t*>(mask.data());
  std::vector<int> cores;
  if (sched_getaffinity(0, mask.size(), set) == 0) {
    for (int core = 0; core < kMostCores; ++core) {
      if (CPU_ISSET_S(static_cast<std::size_t>(core), mask.size(), set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

std::filesystem::path own_program() {
  const std::filesystem::path running = std::filesystem::read_symlink("/proc/self/exe");
  if (running.filename() != "ld.so") return running;
  return running.parent_path().parent_path() / "bin" / "hetsgd";
}

std::string of_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string user_folder(const char* own, const char* shared, std::string_view at_home) {
  if (std::string folder = of_environment(own); !folder.empty()) return folder;
  if (const std::string folder = of_environment(shared); !folder.empty()) return folder + "/hetsgd";
  const std::string home = of_environment("HOME");
  return home.empty() ? "" : home + "/" + std::string(at_home) + "/hetsgd";
}

namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

// The value of `key` in /proc/meminfo (there in kB), in bytes.
double meminfo(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  double kilobytes = 0;
  while (file >> word) {
    if (word == key && file >> kilobytes) return kilobytes * 1024;
  }
  return kUnknown;
}

// The memory limit of the control group (version 2) of a container, in bytes; "max" means none.
double group_limit() {
  std::ifstream file("/sys/fs/cgroup/memory.max");
  double bytes = 0;
  return file >> bytes ? bytes : kUnknown;
}

// The limit of this process (ulimit -v), which counts addresses, not memory in use.
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
