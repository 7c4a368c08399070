// Cost of handing empty work to a second core and learning that it is done, by the microseconds
// that the first core has worked alone before. Two cases: the other thread still spins, or has
// begun to sleep. The time shown is only that of the hand-over. Needs two idle cores.
#include <benchmark/benchmark.h>

#include <chrono>

#include "linalg/cores/cores.hpp"

namespace hetsgd {
namespace {

using Clock = std::chrono::steady_clock;

void hand_over(benchmark::State& state) {
  const cpu::Cores cores(2);
  const std::chrono::microseconds alone(state.range(0));
  for (auto _ : state) {
    const auto end = Clock::now() + alone;
    while (Clock::now() < end) {
    }
    const auto start = Clock::now();
    cores.run(2, [](std::size_t) {});
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
  }
}
BENCHMARK(hand_over)
    ->ArgName("alone_us")
    ->Arg(0)
    ->Arg(10)
    ->Arg(100)
    ->Arg(1000)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(1000);

}  // namespace
}  // namespace hetsgd
