// One line about a run that is going on.
#pragma once

#include <string>

#include "training/training.hpp"

namespace hetsgd {

// Share done, epoch, samples, losses, metric, host speed, slowest and fastest worker, time left.
// `bar`: with a bar in front.
std::string progress_text(const Progress& progress, bool bar);

}  // namespace hetsgd
