#pragma once

#include <span>

namespace hetsgd {

// The middle value, or the mean of the two middle ones. May be infinite. Needs at least one value,
// and none that is NaN.
double median(std::span<const double> values);

}  // namespace hetsgd
