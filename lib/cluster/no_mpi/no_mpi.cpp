// The cluster "mpi" in a binary without MPI: its name, and how to build a binary that has it.
#include "cluster/cluster.hpp"
#include "core/error.hpp"

namespace hetsgd {

namespace {

const bool no_mpi_registered = register_cluster(
    {.name = "mpi",
     .help = "",
     .join = [](Seconds) -> ProcessGroup& { throw runtime_failure("built without MPI"); },
     .missing = "configure with -DHETSGD_MPI=ON to build it"});

}  // namespace

}  // namespace hetsgd
