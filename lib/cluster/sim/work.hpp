// Work under --charge: a run computes with a small model and is charged for the full-size one.
#pragma once

#include "core/units.hpp"

namespace hetsgd::sim {

// The same kernels on `scale` > 0 times the elements: as many launches, and as many learners.
inline Work scaled(const Work& work, double scale) {
  return {work.operations * scale,
          work.bytes * scale,
          work.launches,
          work.learners,
          work.host_link_bytes * scale,
          work.gather_bytes * scale,
          work.host_gather_bytes * scale,
          work.given_s * scale};
}

}  // namespace hetsgd::sim
