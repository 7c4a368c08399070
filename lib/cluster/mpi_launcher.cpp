// What the environment says about MPI; compiled with and without it.
#include <cstdlib>

#include "cluster/mpi/mpi_cluster.hpp"

namespace hetsgd {

bool launched_by_mpi() {
  // Open MPI's mpirun; MPICH's and Intel's Hydra, srun with PMI-1 or PMI-2; PMIx (srun --mpi=pmix,
  // prterun).
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"}) {
    if (std::getenv(name)) return true;
  }
  // Inside of a job srun sets a step with a number of tasks; the batch script itself runs in a step
  // of its own, in which SLURM_STEP_NUM_TASKS is not set.
  return std::getenv("SLURM_PROCID") && std::getenv("SLURM_STEP_NUM_TASKS");
}

}  // namespace hetsgd
