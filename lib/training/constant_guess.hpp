// The constant guess, beside which every run is to be seen, and the runs that end no better than it.
#pragma once

#include <string>
#include <vector>

#include "model/objective.hpp"
#include "training/record.hpp"

namespace hetsgd {

// The metrics that models of these data have, and the loss of this objective. A shard of the
// training rows does not know their base rates: then the measured rows stand for them.
ConstantGuess constant_guess(const BasicObjective<float>& objective, const Dataset& train,
                             const Dataset& test);

// What a user must know of a run that has failed to learn, at its end, one sentence each:
//   collapsed  the training loss before each of the last kCollapsedPoints points is that of a
//              constant guess or above, and so is the accuracy after them;
//   rose       a mean training loss was more than kHugeRise times the constant guess's.
// A run that learns slowly is not meant: its accuracy is better before its loss is.
inline constexpr std::size_t kCollapsedPoints = 3;
inline constexpr double kHugeRise = 100;
std::vector<std::string> collapse_warnings(const std::vector<CurvePoint>& curve,
                                           const ConstantGuess& guess);

}  // namespace hetsgd
