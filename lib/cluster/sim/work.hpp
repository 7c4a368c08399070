// Work under --charge.
#pragma once

#include "core/units.hpp"

namespace hetsgd::sim {

// The same kernels on `scale` times the numbers: as many launches.
inline Work scaled(const Work& work, double scale) {
  return {work.operations * scale, work.bytes * scale, work.launches, work.learners};
}

}  // namespace hetsgd::sim
