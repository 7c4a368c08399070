// How much a test does under a sanitizer, which finds its faults in the first runs. The release run
// does all of it: it shows that many seeds end, many workers fit and runs of every size learn
// (tests/README.md).
#pragma once

#include <cstdint>

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

// A number of workers, ranks and the like: all, or the number for the sanitizer of this build.
constexpr int effort(int all, int address, int thread) {
  if (kSanitizer == Sanitizer::address) return address;
  return kSanitizer == Sanitizer::thread ? thread : all;
}

// A number of random runs: all, or under a sanitizer a tenth and at least 4.
constexpr std::uint64_t random_runs(std::uint64_t all) {
  return kSanitized ? std::max<std::uint64_t>(all / 10, 4) : all;
}

// Runs that show learning on every cluster of one process: where, with how many workers, and for
// how many samples. Under a sanitizer they end before they have learnt, so a test checks learning
// only unless kSanitized. ThreadSanitizer runs only clusters whose workers are threads.
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
