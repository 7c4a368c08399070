// The machine that this process runs on.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hetsgd {

// The name that the system gives this host ("nodename" of uname). It differs between the hosts of
// one cluster; containers that share a folder may have the same one.
std::string host_name();

// The cores that the calling thread may run on; a container may have bound it to some of the
// machine's. {0} if the system does not say.
std::vector<int> available_cores();

// The path of the program that runs. In a bundle with its own C library the running file is
// lib/ld.so, which starts bin/hetsgd; the path is then that of bin/hetsgd.
std::filesystem::path own_program();

// The value of an environment variable. An empty one counts as not set, as usual in the shell.
std::string of_environment(const char* name);

// Where this program keeps files of the user: the folder of the variable `own`, else `hetsgd` in
// the folder of `shared`, else `at_home`/hetsgd in the folder of HOME. Empty if none of the three
// is set.
std::string user_folder(const char* own, const char* shared, std::string_view at_home);

// The memory of the machine, to refuse what cannot fit before it is allocated. Else the system
// kills a process that takes too much, without a message.

struct MachineMemory {
  double total_bytes = 0;  // of the machine, or the limit of its control group or of this process
  double available_bytes = 0;  // the part of it that is free without evicting what is in use
};

// The system's present values; infinite where it reports none.
MachineMemory machine_memory();

// The host's clock, for everything off the training clock: loading, measuring, recording, limits.
// It never enters a simulated result.
using HostClock = std::chrono::steady_clock;

// Wall-clock seconds of this host from `start` to now.
inline double seconds_since(HostClock::time_point start) {
  return std::chrono::duration<double>(HostClock::now() - start).count();
}

}  // namespace hetsgd
