// The MPI library of this process: initialised once, ended once.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <memory>
#include <string_view>
#include <vector>

#include "cluster/mpi/mpi_cluster.hpp"

namespace hetsgd::mpi {

class Channel;
class Coordinator;

// Throws Error(runtime) with the library's text unless `code` is MPI_SUCCESS.
void check(int code, std::string_view call);

class Environment {
 public:
  // Initialises MPI at the first call, under a watch. Errors: device, as mpi_rank().
  static Environment& get();
  ~Environment();

  const MpiRank& rank() const { return rank_; }
  const std::vector<MpiRank>& ranks() const { return ranks_; }  // of all
  Channel& channel() { return *channel_; }
  Coordinator& coordinator() { return *coordinator_; }
  // A run has failed: who leaves waits for the others for a limited time only.
  void note_failure() { failed_ = true; }
  int leave(int exit_code);

 private:
  Environment();
  void gather_ranks();

  MpiRank rank_;
  std::vector<MpiRank> ranks_;
  MPI_Comm control_ = MPI_COMM_NULL;
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<Coordinator> coordinator_;
  bool failed_ = false;
  bool left_ = false;
};

}  // namespace hetsgd::mpi
