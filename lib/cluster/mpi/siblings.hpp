// The other ranks of this host, as the system shows them: before MPI is initialised, and where it
// never is, nothing else tells what they are.
//
// A process belongs to the same job if its environment has the same values of the launcher's
// variables, and its rank stands there too. Whether it has come to the start is seen by the name of
// one of its threads, since that is something that any process of the same user can read without a
// file or a socket that somebody must clean up.
#pragma once

#include <string>

namespace hetsgd::mpi {

// The name of the thread by which a rank shows the others of its host that it has come to the
// start. At most 15 characters, as the kernel keeps no more.
inline constexpr char kStartMark[] = "hetsgd-start";

// What one look at this host shows. Other hosts are out of sight.
struct StartState {
  // No lower rank of this host has come, so this one speaks for all of them.
  bool is_first = true;
  // "rank 1 runs `sleep 100`, rank 2 has ended".
  std::string missing;
};
// Reads /proc: what cannot be read counts as no process of the job. Never throws for a process that
// ends during the look.
StartState state_of_start();

}  // namespace hetsgd::mpi
