// The machine that a result was made on.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace hetsgd {

// {hostname, os, kernel, cpu_model, cores, cores_available, memory_bytes, build, variables}.
// `build` is version_json(); `variables` are those of the environment that change what is computed
// or how fast (HETSGD_*, OMP_*, and by name what tunes CUDA, NCCL, Open MPI, UCX and Slurm), and no
// others: a result carries no secrets, and no addresses of a launcher. `cores_available` is what the
// affinity mask of this process allows.
nlohmann::json environment_json();

}  // namespace hetsgd
