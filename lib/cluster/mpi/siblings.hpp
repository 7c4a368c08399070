// The other ranks of this host, as the system shows them: before MPI is initialised, and where it
// never is, nothing else tells what they are.
#pragma once

#include <string>

namespace hetsgd::mpi {

// The name of the thread by which a rank shows the others of its host that it has come to the start.
inline constexpr char kStartMark[] = "hetsgd-start";

struct StartState {
  bool is_first = true;  // no lower rank of this host has come
  std::string missing;   // "rank 1 runs `sleep 100`, rank 2 has ended"
};
// Reads /proc.
StartState state_of_start();

}  // namespace hetsgd::mpi
