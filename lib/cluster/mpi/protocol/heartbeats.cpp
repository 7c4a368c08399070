#include "cluster/mpi/protocol/heartbeats.hpp"

#include "core/error.hpp"

namespace hetsgd::mpi {

// The range is all other ranks on rank 0, and rank 0 alone elsewhere.
void Heartbeats::look() {
  const bool root = control_.rank() == 0;
  const int end = root ? control_.size() : 1;
  for (int peer = root ? 1 : 0; peer < end; ++peer) {
    const Seconds silence = silence_(peer);
    if (silence < timeout() || errors_.lost()) continue;  // one loss ends the run, more say nothing
    errors_.lose_a_rank(
        {.code = static_cast<int>(ExitCode::runtime),
         .text = fmt::format("rank {} ({}) has sent no heartbeat for {:.0f} s", peer,
                             places_[static_cast<std::size_t>(peer)].host, silence.count()),
         .hint =
             "look for its end in its host's log; --peer-timeout sets the time that is waited"});
  }
}

}  // namespace hetsgd::mpi
