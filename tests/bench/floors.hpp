// What this machine can do at best, measured in the same run as the benchmarks: the floors that
// their figures are held against.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "linalg/cpu/simd.hpp"

namespace hetsgd::bench {

// Time on the core, as Google Benchmark's CPU time: what other processes take is not ours.
inline double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Best rate of one core's float FMA units: independent sums in registers, no memory. Operations per
// second; the best of several runs, as noise only ever slows it down.
inline double peak_operations_per_s() {
  using V = cpu::Vec<float>;
  constexpr int kSums = 10;
  constexpr long kRounds = 1'000'000;
  const auto once = [] {
    V sum[kSums];
    for (int i = 0; i < kSums; ++i) sum[i] = cpu::broadcast(static_cast<float>(i));
    V factor = cpu::broadcast(0.999F), term = cpu::broadcast(0.001F);
    asm volatile("" : "+m"(factor), "+m"(term));  // not constants to the compiler
    const double start = cpu_seconds();
    for (long round = 0; round < kRounds; ++round) {
#pragma GCC unroll 10
      for (int i = 0; i < kSums; ++i) sum[i] = sum[i] * factor + term;
    }
    const double elapsed = cpu_seconds() - start;
    V total = sum[0];
    for (int i = 1; i < kSums; ++i) total += sum[i];
    asm volatile("" : : "m"(total));
    return 2.0 * kSums * static_cast<double>(cpu::kLanes<float>) * kRounds / elapsed;
  };
  double best = 0;
  for (int repeat = 0; repeat < 10; ++repeat) best = std::max(best, once());
  return best;
}

// Best rate of one core over arrays larger than its own caches: bytes read plus written by a copy.
inline double memory_bytes_per_s() {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  double best = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const double start = cpu_seconds();
    std::memcpy(to.data(), from.data(), kBytes);
    asm volatile("" : : "r"(to.data()) : "memory");
    best = std::max(best, 2.0 * kBytes / (cpu_seconds() - start));
  }
  return best;
}

struct Floors {
  double operations_per_s = peak_operations_per_s();
  double bytes_per_s = memory_bytes_per_s();
};

// Measured once per process, at first use.
inline const Floors& floors() {
  static const Floors measured;
  return measured;
}

}  // namespace hetsgd::bench
