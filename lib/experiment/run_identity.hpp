// The identity of a run: two runs with one identity and one seed are the same run.
#pragma once

#include <cstdint>
#include <vector>

#include "experiment/configured_run.hpp"

namespace hetsgd {

struct RunIdentity {
  // A hash of the options that differ from their defaults (and of those whose default has changed
  // since runs have names), without the seed, and without what a result's config leaves out
  // (outputs, what depends on the host). A data file counts by its name
  // and size, any other file that is read (profiles, networks, plugins) by its content: so a folder
  // of runs can move, and options that come later change no name.
  std::uint64_t hash = 0;
  bool is_virtual = true;     // its time is simulated
  bool needs_launch = false;  // its workers are processes, which something has to start
};

// Resolves the options as the run will. Errors: usage, device.
RunIdentity identify(const std::vector<Setting>& settings);

// The name of the run with this seed.
std::uint64_t run_id(std::uint64_t identity, std::uint64_t seed);

}  // namespace hetsgd
