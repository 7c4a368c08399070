// mpirun hetsgd doctor: where the ranks are and what carries their messages.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hetsgd {

// Name and text of each line: the MPI library, and every rank with its host, its cores and the
// device that --devices gives it. None where no launcher started this process. Collective. Errors:
// usage, device (as train's).
std::vector<std::pair<std::string, std::string>> describe_ranks(
    const std::vector<std::string>& devices);

}  // namespace hetsgd
