#include "cluster/process_group.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "cluster/devices.hpp"

namespace hetsgd {

const std::vector<ProcessPlace>& ProcessGroup::places() const {
  static const std::vector<ProcessPlace> alone = {
      {.pid = ::getpid(),
       .cores = available_cores(),
       .host_cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN))}};
  return alone;
}

void ProcessGroup::call_the_roll(const std::vector<Fact>&, Seconds, Seconds) {}
void ProcessGroup::compare(const std::vector<Fact>&) {}
void ProcessGroup::library_all_reduce(std::span<float>) {}
void ProcessGroup::library_all_to_all(std::span<const float>, std::span<float>) {}
void ProcessGroup::agree_on(const std::function<void()>& prepare, std::span<std::byte>) {
  prepare();
}

bool launched() {
  // Open MPI's mpirun; MPICH's and Intel's Hydra, srun with PMI-1 or PMI-2; PMIx (srun --mpi=pmix,
  // prterun).
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"}) {
    if (std::getenv(name)) return true;
  }
  // Inside of a job srun sets a step with a number of tasks; the batch script itself runs in a step
  // of its own, in which SLURM_STEP_NUM_TASKS is not set.
  return std::getenv("SLURM_PROCID") && std::getenv("SLURM_STEP_NUM_TASKS");
}

int launched_rank() {
  for (const char* name : kRankVariables) {
    const char* const text = std::getenv(name);
    int rank = 0;
    if (text && std::from_chars(text, text + std::strlen(text), rank).ec == std::errc())
      return rank;
  }
  return 0;
}

}  // namespace hetsgd
