// The peak of a core, compiled for the best instructions of this machine.
#include "bench/support.hpp"
#include "linalg/cpu/simd.hpp"

namespace hetsgd::bench {

double peak_operations_per_s() {
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
      for (int i = 0; i < kSums; ++i) sum[i] = cpu::fused(sum[i], factor, term);
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

}  // namespace hetsgd::bench
