// Types of quantities: seconds, and the work of a computation.
#pragma once

#include <chrono>
#include <cstdint>

namespace hetsgd {

// A duration or a point on a run's clock (zero = start of training). In `sim` it is never
// wall-clock time of the host.
using Seconds = std::chrono::duration<double>;

using namespace std::chrono_literals;  // NOLINT: 50ms, 1.5s read as in the papers

// The work of a computation on a device: floating-point operations, bytes moved through its memory,
// kernel launches, bytes between its memory and the host's, bytes of rows that lie scattered in
// either. A device profile turns it into seconds (cluster/profile.hpp).
struct Work {
  double operations = 0;
  double bytes = 0;
  double launches = 0;
  // The number of equal pieces of this work that run at once and share the device (learners,
  // CROSSBOW). A sum takes it from its left side.
  int learners = 1;
  double host_link_bytes = 0;  // costs nothing where the device's memory is the host's
  // Bytes of rows at random places, each read or written once: in the device's memory, and in the
  // host's memory by the host.
  double gather_bytes = 0, host_gather_bytes = 0;
  double given_s = 0;  // measured or fitted, not derived from rates; the same on any device

  // The same launches on `scale` > 0 times as many elements.
  Work scaled(double scale) const {
    return {operations * scale,
            bytes * scale,
            launches,
            learners,
            host_link_bytes * scale,
            gather_bytes * scale,
            host_gather_bytes * scale,
            given_s * scale};
  }
  Work& operator+=(const Work& other) {
    operations += other.operations;
    bytes += other.bytes;
    launches += other.launches;
    host_link_bytes += other.host_link_bytes;
    gather_bytes += other.gather_bytes;
    host_gather_bytes += other.host_gather_bytes;
    given_s += other.given_s;
    return *this;
  }
  friend Work operator+(Work a, const Work& b) { return a += b; }
  // The work that is left of `a` when its part `b` is done.
  friend Work operator-(const Work& a, const Work& b) {
    return {a.operations - b.operations, a.bytes - b.bytes, a.launches - b.launches, a.learners};
  }
};

}  // namespace hetsgd
