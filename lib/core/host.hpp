// The machine that this process runs on.
#pragma once

#include <string>

namespace hetsgd {

// The name that the system gives this host ("nodename" of uname). Hosts of one cluster have
// different ones; containers that share a folder may not.
std::string host_name();

// How much memory there is, to refuse what cannot fit before it is asked for: the system kills who
// takes too much, without a word.

struct MachineMemory {
  double total_bytes = 0;      // of the machine, or what its control group or this process may have
  double available_bytes = 0;  // of it, without driving out what is in use
};

// As the system says now; infinite where it says nothing.
MachineMemory machine_memory();

}  // namespace hetsgd
