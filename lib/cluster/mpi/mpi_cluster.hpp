// What a program needs to know of MPI besides the Cluster "mpi": who this process is, messages
// beside the training, and the orderly end. Compiled without MPI too.
//
// MPI is initialised by the first call that needs it, so that a program which does not use it pays
// nothing. Only launched_by_mpi() never initialises it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cluster/control.hpp"
#include "cluster/roll_call.hpp"
#include "core/units.hpp"

namespace hetsgd {

// True if a launcher (mpirun, srun, ...) started this process as one of several or as the only one:
// read from the environment variables that it sets.
bool launched_by_mpi();
// The rank as the launcher says it in the environment; 0 where it does not.
int launched_rank();
// The variables in which launchers say it.
inline constexpr std::array kRankVariables = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                              "SLURM_PROCID"};

struct MpiRank {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the ranks of this host
  int local_size = 1;
  std::string host;
  std::int64_t pid = 0;
  std::vector<int> cores;  // that it may use, as the launcher has bound it
  int host_cores = 0;      // online
};

// How long ranks wait for each other at the start, where nobody says it.
inline constexpr Seconds kStartTimeout{60};

// Collective, and the first thing that ranks do together: initialises MPI and compares what they say
// of themselves. From here on a rank gives signs of life often enough for `peer_timeout`, whatever it
// does. When not all have come after `start_timeout` the process ends itself, with a message that
// says who is missing. Errors: device, as mpi_rank(); usage, the ranks differ.
void mpi_call_the_roll(const std::vector<Fact>& facts, Seconds start_timeout, Seconds peer_timeout);
// Collective: the comparison alone, at any later point outside of runs. Errors: usage; runtime, a
// rank gives no sign of life for `peer_timeout`.
void mpi_compare(const std::vector<Fact>& facts, Seconds peer_timeout);

// Initialises MPI, as mpi_call_the_roll() does with kStartTimeout. Errors: device (built without
// MPI; the library gives less than MPI_THREAD_MULTIPLE).
const MpiRank& mpi_rank();
// All, by rank.
const std::vector<MpiRank>& mpi_ranks();
// The MPI library takes pointers to GPU memory (MPIX_Query_cuda_support).
bool mpi_cuda_aware();
// Messages between the ranks, beside the training. Lives until leave_mpi(). Initialises MPI.
Control& mpi_control();
// "Open MPI v4.1.4, ..." of the library at run time; empty without MPI. Does not initialise it.
std::string mpi_library();
// In place, the sum over all ranks by MPI_Allreduce itself: what our own is compared with. Inside of
// a run, called by every rank's worker. Errors: device (built without MPI).
void mpi_native_all_reduce(std::span<float> x);

// Collective, outside of the cluster's run(): runs `prepare` on every rank, and when all have done
// it returns rank 0's answer. Where it throws, every rank throws the error of the lowest rank on
// which it did; the text names the rank, unless it is rank 0. Errors: runtime, a rank gives no sign
// of life for `peer_timeout`.
double mpi_agree(const std::function<double()>& prepare, Seconds peer_timeout);
// Rank 0, which talks for all, gives no sign of life.
bool mpi_root_is_lost();

// The last thing that a program does with MPI: waits until all ranks have come here, finalises MPI
// and returns the exit code. Where a rank cannot come any more (it was lost, or does not follow
// within 10 s of an error) it ends all ranks with the exit code instead. Nothing if MPI was never
// initialised. A program that exits without it does it in exit().
int leave_mpi(int exit_code);

}  // namespace hetsgd
