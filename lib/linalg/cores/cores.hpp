// The cores of one device: fixed splits of work over them.
//
// The parts depend on sizes, on the number of cores and, for split(), on the cost of a hand-over.
// They never depend on the thread that happens to be free. So caches stay warm: a core next reads
// the data that it has written. A result has the same bits on an idle and on a loaded host, because
// functions passed to split() must give the same bits for any parts.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "core/non_copyable.hpp"
#include "core/racy_region.hpp"

namespace hetsgd::cpu {

// Elements of a pass over memory that are worth a second core. A core reads and writes them in two
// or three times the microsecond that it takes to hand work to a thread that spins.
inline constexpr std::size_t kWorthACore = std::size_t{1} << 13;

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};

// Part `part` of `parts` of 0..n, cut at multiples of `grain`.
inline Range part_of(std::size_t n, std::size_t parts, std::size_t part, std::size_t grain = 1) {
  const std::size_t units = (n + grain - 1) / grain;
  return {std::min(n, units * part / parts * grain),
          std::min(n, units * (part + 1) / parts * grain)};
}

// A wait that spins before it sleeps. Waking a sleeping thread costs more than many a part of a
// small step, but spinning only helps if the other thread runs meanwhile. A wait that had to sleep
// halves the time that the next one may spin, and one that did not doubles it. So a waiter whose
// partner has no core of its own, or is idle, soon sleeps at once. Not thread-safe.
class SpinningWait {
 public:
  static constexpr std::int64_t kLongestNs = 200'000, kShortestNs = 10'000;

  // Returns when `value` differs from `old`, with the new value. `spin` says whether to spin at
  // all.
  std::uint32_t operator()(const std::atomic<std::uint32_t>& value, std::uint32_t old, bool spin);
  std::int64_t budget_ns() const { return budget_ns_; }

 private:
  std::int64_t budget_ns_ = kLongestNs;
};

// count - 1 helper threads beside the calling one. Between calls they spin for a moment, then they
// sleep. They sleep at once if the devices of the process have more threads than the machine has
// cores, or if this one has more than it may run on. A device has its own threads and no task pool,
// because all devices would share a pool, and part p would run on any core.
//
// A team is some of the cores of `whole` as cores of their own: it has no threads, and computes
// only while threads of `whole` are lent to it:
//
//   owner    team.gather() ... whole.run(...) { lead or follow } ... all parts are through
//   part 0                     team.run(...) as often as it likes, then team.dismiss()
//   part p                     team.follow(p), until it is dismissed
class Cores : NonCopyable {
 public:
  explicit Cores(int count);
  // A team of `count` of the cores of `whole`, which outlives it.
  Cores(const Cores& whole, std::size_t count);
  ~Cores();

  std::size_t count() const { return count_; }
  // Whether every thread of all devices with several cores can have its own core.
  bool may_spin() const;
  // The cost of handing over work, relative to a thread that spins. If other devices have the
  // cores, the thread sleeps and takes 20 to 30 us to wake up.
  std::size_t hand_over_cost() const { return enough_cores_ && !may_spin() ? kWaking : 1; }

  // Calls f(part) for part = 0..parts-1, parts <= count(), with part p on helper p (0: the caller).
  // Returns when all are done. f must not throw.
  template <class F>
  void run(std::size_t parts, F&& f) const {
    if (count_ == 1 || parts < 2) {
      for (std::size_t part = 0; part < parts; ++part) f(part);
      return;
    }
    using Function = std::remove_reference_t<F>;
    const auto call = [](const void* context, std::size_t part) {
      (*static_cast<const Function*>(context))(part);
    };
    start({call, std::addressof(f), parts, RacyRegion::current()});
    f(std::size_t{0});
    finish();
  }

  // Calls f(range) over a split of 0..n into at most count() parts. Each part has at least `least`
  // elements times hand_over_cost(). A loop over the elements of a range is best a function whose
  // arguments are values. Behind the references of a closure that another thread runs, a compiler
  // must read pointers and factors again for each element.
  template <class F>
  void split(std::size_t n, std::size_t grain, std::size_t least, F&& f) const {
    const std::size_t worth = std::max<std::size_t>(least, 1) * hand_over_cost();
    const std::size_t parts = std::clamp<std::size_t>(n / worth, 1, count());
    run(parts, [&](std::size_t part) {
      const Range range = part_of(n, parts, part, grain);
      if (range.size() > 0) f(range);
    });
  }

  // A team's session, as drawn above.
  void gather() const { gathered_at_ = generation_.load(std::memory_order_relaxed); }
  void follow(std::size_t part) const { help(part, gathered_at_); }
  void dismiss() const { start({}); }

 private:
  struct Job {
    void (*call)(const void* context, std::size_t part) = nullptr;  // null: end of help()
    const void* context = nullptr;
    std::size_t parts = 0;
    RacyRegion::Mark racing{};  // the mark, if the caller is in a region of intended races
  };

  void start(const Job& job) const;
  void finish() const;
  // Takes part in every job after `generation`, up to one that ends the thread.
  void help(std::size_t part, std::uint32_t generation) const;

  // A job is written before `generation_` moves on and read afterwards. The next one is not written
  // before every helper has counted itself out of `busy_`. Data that one side polls do not share a
  // cache line with data that the other side writes.
  static constexpr std::size_t kCacheLine = 64;
  static constexpr std::size_t kWaking = 16;
  mutable Job job_;
  mutable SpinningWait wait_for_helpers_;
  const std::size_t count_;
  const bool enough_cores_;                // for this device alone
  mutable std::uint32_t gathered_at_ = 0;  // the generation that a team's session began with
  alignas(kCacheLine) mutable std::atomic<std::uint32_t> generation_{0};
  alignas(kCacheLine) mutable std::atomic<std::uint32_t> busy_{0};
  std::vector<std::thread> helpers_;
};

// Calls rules (*_rules.hpp), for which an element of the result depends on no other one.
// cuda/block.cuh has the same for GPUs. `cost` says how long an element takes, relative to a pass
// over memory.
class ParallelFor {
 public:
  using Owner = const Cores;
  explicit ParallelFor(const Cores& cores) : cores_(cores) {}

  // Calls rule(row, j) for the elements of `count` rows of n. GPUs need the name, for errors.
  template <class Rule>
  void rows(std::size_t count, std::size_t n, const Rule& rule, const char* /*name*/,
            std::size_t cost = 1) const {
    if (count == 1) {
      cores_.split(n, 64, kWorthACore / cost, [&](Range columns) {
        for_rows({0, 1}, columns, rule);
      });
    } else if (n > 0) {
      cores_.split(count, 1, kWorthACore / cost / n + 1, [&](Range range) {
        for_rows(range, {0, n}, rule);
      });
    }
  }

  // Calls rule(map, h, w) for the pixels of `maps` maps.
  template <class Rule>
  void pixels(std::size_t maps, std::size_t height, std::size_t width, const Rule& rule,
              const char* /*name*/, std::size_t cost = 1) const {
    if (height == 0 || width == 0) return;
    cores_.split(maps, 1, kWorthACore / cost / (height * width) + 1,
                 [&](Range range) { for_pixels(range, height, width, rule); });
  }

 private:
  // The rules are values, so that their members are no memory that a store could change.
  template <class Rule>
  [[gnu::flatten]] static void for_rows(Range rows, Range columns, const Rule rule) {
    for (std::size_t row = rows.begin; row < rows.end; ++row) {
#pragma GCC ivdep
      for (std::size_t j = columns.begin; j < columns.end; ++j) rule(row, j);
    }
  }
  template <class Rule>
  [[gnu::flatten]] static void for_pixels(Range maps, std::size_t height, std::size_t width,
                                          const Rule rule) {
    for (std::size_t map = maps.begin; map < maps.end; ++map) {
      for (std::size_t h = 0; h < height; ++h) {
#pragma GCC ivdep
        for (std::size_t w = 0; w < width; ++w) rule(map, h, w);
      }
    }
  }

  const Cores& cores_;
};

}  // namespace hetsgd::cpu
