// How much a test does under a sanitizer, which finds what it finds in the first runs: that many seeds
// end, many workers fit and runs of every size learn is shown by the release run, which does all of it
// (tests/README.md).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace hetsgd::test {

enum class Sanitizer { none, address, thread };

#if defined(__SANITIZE_THREAD__)
inline constexpr Sanitizer kSanitizer = Sanitizer::thread;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr Sanitizer kSanitizer = Sanitizer::address;
#else
inline constexpr Sanitizer kSanitizer = Sanitizer::none;
#endif

inline constexpr bool kSanitized = kSanitizer != Sanitizer::none;

// Of workers, ranks and the like: all, or the number for the sanitizer of this build.
constexpr int effort(int all, int address, int thread) {
  if (kSanitizer == Sanitizer::address) return address;
  return kSanitizer == Sanitizer::thread ? thread : all;
}

// Of so many random runs: all, or a tenth and 4 at least.
constexpr std::uint64_t random_runs(std::uint64_t all) {
  return kSanitized ? std::max<std::uint64_t>(all / 10, 4) : all;
}

// Runs that show learning on every cluster of one process: where, with how many workers, and for how
// many samples. Under a sanitizer they end before they have learnt, so that a test asks for that
// unless kSanitized; ThreadSanitizer sees those whose workers are threads.
inline std::vector<std::string> learning_clusters() {
  if (kSanitizer == Sanitizer::thread) return {"threads"};
  return {"sim", "threads"};
}
inline std::vector<std::string> learning_sizes() {
  if (kSanitized) return {"3"};
  return {"1", "2", "3", "4", "8"};
}
inline std::string learning_samples(int all) {
  return std::to_string(kSanitized ? std::min(all, 3200) : all);
}

}  // namespace hetsgd::test
