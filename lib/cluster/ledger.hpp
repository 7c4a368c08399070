// Where a worker's time and bytes went. Filled by the cluster, read by training/ for the result.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/units.hpp"

namespace hetsgd {

// What a message carries. Parameters and gradients are charged at the full-size model under
// --charge.
enum class Traffic : int { parameters = 0, gradients = 1, control = 2 };
inline constexpr std::array<std::string_view, 3> kTrafficNames = {"parameters", "gradients",
                                                                  "control"};

// Times of one worker's main process on the training clock; they and the idle rest add up to the
// run.
struct Ledger {
  Seconds compute{0};      // gradients, steps and vector operations, straggler delays included
  Seconds communicate{0};  // bytes on the wire: transfer of messages and collectives
  Seconds wait{0};         // blocked for somebody else: late peers, a deferred reply, a queue
  Seconds delay_requested{
      0};  // what the straggler scenario and --speed asked for on top of the compute
  Seconds delay_achieved{0};  // what was measured (threads, mpi); equals the request in sim
  std::uint64_t steps = 0;    // compute calls of kind `step`
  std::array<std::uint64_t, 3> bytes_sent{};  // by Traffic, as charged
  std::array<std::uint64_t, 3> bytes_received{};
};

}  // namespace hetsgd
