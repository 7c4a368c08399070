// Bounds of counts that several options share: what nobody means, and what would not end.
#pragma once

namespace hetsgd {

// The most that a count of steps, rounds or batches between two events may be, which still can be
// multiplied by a batch's samples.
inline constexpr double kLargestRound = 1e12;
// Threads of this process that one asks for by number.
inline constexpr double kMostHostThreads = 4096;

}  // namespace hetsgd
