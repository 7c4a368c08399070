// Bounds of counts that several options share: what nobody means, and what would not end.
#pragma once

namespace hetsgd {

// The most that a count of steps, rounds or batches between two events may be, which still can be
// multiplied by a batch's samples.
inline constexpr double kLargestRound = 1e12;
// Samples of a batch: a step of a larger one takes minutes, and cannot be stopped inside.
inline constexpr double kLargestBatch = 1 << 22;
// Threads of this process that one asks for by number.
inline constexpr double kMostHostThreads = 4096;

}  // namespace hetsgd
