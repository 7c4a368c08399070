// The result file, which is one run's record as JSON (scripts/hetsgd/schemas/result.json; README,
// "Result format").
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "result/output.hpp"
#include "training/record.hpp"

namespace hetsgd {

struct ResultOptions {
  std::vector<std::string> args;    // command line without the program's name
  bool redact = false;              // drop host names, and the folders of all paths
  nlohmann::json tuning = nullptr;  // origin of the learning rate; null: not tuned
};

// The complete document, valid under the schema at every moment of a run (status "running" until it
// ends).
//
// Only `environment`, `wall`, `started_at` and `finished_at` depend on the host or its load. On a
// virtual-time cluster all the rest is a function of the options and the seed, except
// workers[].waited_for, which only a run with --trace has. Numbers that are not finite become null,
// with the reason beside them: {"test_loss": null, "test_loss_reason": "nan"}. File names and other
// external texts that are not UTF-8 become "bytes:data/caf%E9.txt" (core/text.hpp). In `config`
// and `args` these can be read back.
nlohmann::json result_json(const Record& record, const ResultOptions& options);

// The machine that a result was made on:
// {hostname, os, kernel, cpu_model, cores, cores_available, topology, memory_bytes, build,
// variables}.
// `build` is version_json(). `variables` are the environment variables that change results or
// speed: HETSGD_*, OMP_*, and listed ones of CUDA, NCCL, Open MPI, UCX and Slurm. There are no
// others, so that a result contains no secrets and no addresses of a launcher. `cores_available` is
// the number of cores in the affinity mask of this process. `topology` is that of machine_cores().
nlohmann::json environment_json();
// The instructions of products on the CPU of this host, and why not AMX, as a line for people:
// "fp32 avx512 | bf16 fma (no AMX: CPUID)".
std::string products_text();

// Whether a result's status means that the run is over and need not be repeated.
bool is_done(const std::string& status);

}  // namespace hetsgd
