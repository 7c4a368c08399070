// The codes of this set of kernels, for its table.
#pragma once

#include "linalg/lane_codes.hpp"

namespace hetsgd::cpu {

extern const LaneCodes kLaneCodes;

}  // namespace hetsgd::cpu
