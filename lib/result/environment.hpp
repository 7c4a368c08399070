// The machine that a result was made on.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace hetsgd {

// {hostname, os, kernel, cpu_model, cores, cores_available, memory_bytes, build, variables}.
// `build` is version_json(); `variables` are those of the environment whose names begin with CUDA_
// NCCL_ OMP_ OMPI_ UCX_ OPENBLAS_ SLURM_ HETSGD_, and no others: a result must not carry secrets.
// `cores_available` is what the affinity mask of this process allows.
nlohmann::json environment_json();

}  // namespace hetsgd
