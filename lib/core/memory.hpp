// How much memory there is, to refuse what cannot fit before it is asked for: the system kills who
// takes too much, without a word.
#pragma once

namespace hetsgd {

struct MachineMemory {
  double total_bytes = 0;      // of the machine, or what its control group or this process may have
  double available_bytes = 0;  // of it, without driving out what is in use
};

// As the system says now; infinite where it says nothing.
MachineMemory machine_memory();

}  // namespace hetsgd
