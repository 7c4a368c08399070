// The functions of mpi_cluster.hpp in a binary without MPI.
#include "cluster/mpi/mpi_cluster.hpp"
#include "core/error.hpp"

namespace hetsgd {

namespace {

[[noreturn]] void fail() {
  throw with_hint(device_error("--cluster mpi: this binary was built without MPI"),
                  "built without MPI: configure with -DHETSGD_MPI=ON");
}

}  // namespace

void mpi_call_the_roll(const std::vector<Fact>&, Seconds, Seconds) { fail(); }
void mpi_compare(const std::vector<Fact>&, Seconds) { fail(); }
const MpiRank& mpi_rank() { fail(); }
const std::vector<MpiRank>& mpi_ranks() { fail(); }
bool mpi_cuda_aware() { return false; }
Control& mpi_control() { fail(); }
std::string mpi_library() { return ""; }
void mpi_native_all_reduce(std::span<float>) { fail(); }
double mpi_agree(const std::function<double()>&, Seconds) { fail(); }
bool mpi_root_is_lost() { return false; }
int leave_mpi(int exit_code) { return exit_code; }

}  // namespace hetsgd
