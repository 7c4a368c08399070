// IntervalSet: which parts of a time line are covered by intervals that come one after the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>

namespace hetsgd {

// All times and lengths are in one unit, which the caller chooses. Not thread-safe.
class IntervalSet {
 public:
  // Keeps at most `most` separate parts. Beyond that the earlier half is forgotten, and everything
  // before its end counts as covered. Nothing is lost if intervals come nearly in the order of
  // their times.
  explicit IntervalSet(std::size_t most = std::numeric_limits<std::size_t>::max()) : most_(most) {}

  // Adds [begin, end), which may be empty. Returns how much of it was not covered before.
  double add(double begin, double end) {
    begin = std::max(begin, forgotten_until_);
    if (!(begin < end)) return 0;
    const auto first = std::partition_point(parts_.begin(), parts_.end(),
                                            [&](const Part& p) { return p.end < begin; });
    auto last = first;
    Part merged{begin, end};
    double covered = 0;
    for (; last != parts_.end() && last->begin <= end; ++last) {
      covered += std::min(end, last->end) - std::max(begin, last->begin);
      merged = {std::min(merged.begin, last->begin), std::max(merged.end, last->end)};
    }
    parts_.insert(parts_.erase(first, last), merged);
    const double added = std::max(0.0, end - begin - covered);
    length_ += added;
    if (parts_.size() > most_) {
      const auto kept = parts_.begin() + static_cast<std::ptrdiff_t>(most_ / 2);
      forgotten_until_ = std::prev(kept)->end;
      parts_.erase(parts_.begin(), kept);
    }
    return added;
  }

  // Calls fn(from, to) for each stretch of [begin, end) that is not covered, in order.
  template <class Fn>
  void each_gap(double begin, double end, Fn fn) const {
    begin = std::max(begin, forgotten_until_);
    auto next = std::partition_point(parts_.begin(), parts_.end(),
                                     [&](const Part& p) { return p.end <= begin; });
    for (; next != parts_.end() && next->begin < end; ++next) {
      if (begin < next->begin) fn(begin, next->begin);
      begin = next->end;
    }
    if (begin < end) fn(begin, end);
  }

  // The sum over all parts, the forgotten ones included.
  double length() const { return length_; }

 private:
  struct Part {
    double begin, end;
  };
  const std::size_t most_;
  std::deque<Part> parts_;  // in order; they do not touch each other
  double length_ = 0;
  double forgotten_until_ = -std::numeric_limits<double>::infinity();
};

}  // namespace hetsgd
