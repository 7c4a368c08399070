// The machine that a result was made on.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace hetsgd {

// {hostname, os, kernel, cpu_model, cores, cores_available, memory_bytes, build, variables}.
// `build` is version_json(). `variables` are the environment variables that change results or
// speed: HETSGD_*, OMP_*, and listed ones of CUDA, NCCL, Open MPI, UCX and Slurm. There are no
// others, so that a result contains no secrets and no addresses of a launcher. `cores_available` is
// the number of cores in the affinity mask of this process.
nlohmann::json environment_json();

}  // namespace hetsgd
