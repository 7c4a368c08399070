// What a person should be told of a run beyond its numbers.
#pragma once

#include <string>
#include <vector>

#include "result/summary.hpp"
#include "training/record.hpp"

namespace hetsgd {

// A time to a target has the resolution of the evaluations: with fewer than these before it, one
// more or less changes it by over 5 %.
inline constexpr std::size_t kFineEvaluations = 20;

// The run's own warnings, and one for each target whose time is coarse. They stand in the result.
std::vector<std::string> warnings_of(const Record& record, const Summary& summary);

// Lines for the end of a run: what the algorithm says of its settings, how busy the services' link
// was, and, with --trace, for whom the workers waited most.
std::vector<std::string> remarks_of(const Record& record, const Summary& summary);

}  // namespace hetsgd
