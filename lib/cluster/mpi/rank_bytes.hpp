// What a rank tells the others of itself when MPI is initialised, as bytes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cluster/mpi/mpi_cluster.hpp"

namespace hetsgd::mpi {

// Of any length: a host may have a long name, and more cores than a table of fixed size holds.
std::vector<std::byte> pack(const MpiRank& rank);
MpiRank unpack_rank(std::span<const std::byte> bytes);

}  // namespace hetsgd::mpi
