// The constant guess is the baseline of every run. This file computes it, and finds the runs that
// end no better than it.
#pragma once

#include <string>
#include <vector>

#include "model/objective.hpp"
#include "training/record.hpp"

namespace hetsgd {

// The metrics that apply to these data, as the model has them, and the loss under this objective. A
// shard of the training rows does not know the base rates of all; then those of the measured rows
// are used.
ConstantGuess constant_guess(const BasicObjective<float>& objective, const DataShape& data,
                             const Dataset& train, const Dataset& test);

// The warnings about a run that has failed to learn, at its end, one sentence each:
//   no better  after the last batch the first metric that improves upwards (P@1, AUC, accuracy) is
//              below that of the guess, or the test loss is not below it;
//   rose       a mean training loss was more than kHugeRise times the constant guess's.
inline constexpr double kHugeRise = 100;
std::vector<std::string> guess_warnings(const std::vector<CurvePoint>& curve,
                                        const ConstantGuess& guess);

}  // namespace hetsgd
