// The cores of one device: fixed splits of work over them.
//
// A split depends on the sizes and on the number of cores alone, never on which thread is free, so
// a result has the same bits on an idle and on a loaded host.
#pragma once

#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cstddef>
#include <memory>

namespace hetsgd::cpu {

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

class Cores {
 public:
  explicit Cores(int count) : count_(static_cast<std::size_t>(count)) {
    // Never more threads than the process may use; the split stays the one for `count` cores.
    if (count > 1) {
      arena_ = std::make_unique<tbb::task_arena>(std::min(count, tbb::info::default_concurrency()));
    }
  }

  std::size_t count() const { return count_; }

  // f(part) for part = 0..parts-1, at once where there are several cores; returns when all are
  // done.
  template <class F>
  void run(std::size_t parts, F&& f) const {
    if (!arena_ || parts < 2) {
      for (std::size_t part = 0; part < parts; ++part) f(part);
      return;
    }
    arena_->execute([&] {
      tbb::parallel_for(
          std::size_t{0}, parts, [&](std::size_t part) { f(part); }, tbb::simple_partitioner{});
    });
  }

  // f(range) over a split of 0..n into at most count() parts of at least `least` elements each.
  template <class F>
  void split(std::size_t n, std::size_t grain, std::size_t least, F&& f) const {
    const std::size_t parts =
        std::clamp<std::size_t>(n / std::max<std::size_t>(least, 1), 1, count_);
    run(parts, [&](std::size_t part) {
      const Range range = part_of(n, parts, part, grain);
      if (range.size() > 0) f(range);
    });
  }

 private:
  std::size_t count_;
  std::unique_ptr<tbb::task_arena> arena_;
};

}  // namespace hetsgd::cpu
