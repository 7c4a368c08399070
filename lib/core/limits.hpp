// Bounds of counts that several options share. They exclude values that nobody means and runs that
// would not end.
#pragma once

namespace hetsgd {

// Upper bound of a count of steps, rounds or batches between two events. Its product with the
// samples of a batch still fits 64 bits.
inline constexpr double kLargestRound = 1e12;
// Upper bound of the samples of a batch. A step of a larger one takes minutes, and cannot be
// interrupted.
inline constexpr double kLargestBatch = 1 << 22;
// Upper bound of the threads of this process that a user asks for by number.
inline constexpr double kMostHostThreads = 4096;

}  // namespace hetsgd
