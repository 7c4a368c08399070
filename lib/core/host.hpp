// The machine that this process runs on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hetsgd {

// The name that the system gives this host ("nodename" of uname). Hosts of one cluster have
// different ones; containers that share a folder may not.
std::string host_name();

// The cores that the calling thread may run on, which a container may have bound to some of the
// machine's; {0} where the system does not say.
std::vector<int> available_cores();

// The value of an environment variable; empty counts as not set, as everywhere in the shell.
std::string of_environment(const char* name);

// Where this program keeps files of the user: the folder that the variable `own` names, else
// `hetsgd` in that of `shared`, else `at_home`/hetsgd in that of HOME. Empty: none of the three is
// set.
std::string user_folder(const char* own, const char* shared, std::string_view at_home);

// How much memory there is, to refuse what cannot fit before it is asked for: the system kills who
// takes too much, without a word.

struct MachineMemory {
  double total_bytes = 0;      // of the machine, or what its control group or this process may have
  double available_bytes = 0;  // of it, without driving out what is in use
};

// As the system says now; infinite where it says nothing.
MachineMemory machine_memory();

}  // namespace hetsgd
