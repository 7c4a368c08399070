// The identity of a run. Two runs with the same identity and seed are the same run.
#pragma once

#include <cstdint>
#include <vector>

#include "experiment/configured_run.hpp"

namespace hetsgd {

struct RunIdentity {
  // A hash of the options that differ from their defaults, and of those whose default has changed
  // since identities exist. It excludes the seed, and options outside of a result's config
  // (outputs, and options that depend on the host). A data file counts by its name and size, any
  // other file that is read (profiles, networks, plugins) by its content. So a folder of runs can
  // move, and options that are added later change no name.
  std::uint64_t hash = 0;
  bool is_virtual = true;     // its time is simulated
  bool needs_launch = false;  // its workers are processes, which a launcher must start
};

// Resolves the options as the run will. Throws Error(usage) or Error(device) as the run would.
RunIdentity identify(const std::vector<Setting>& settings);

// The id of the run with this identity and seed.
std::uint64_t run_id(std::uint64_t identity, std::uint64_t seed);

}  // namespace hetsgd
