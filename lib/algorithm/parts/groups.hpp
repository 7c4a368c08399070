// Groups of hierarchical RNA: workers of about the same pace (RNA, section 5.2).
//
// The text's rule, `spread`: zeta is the spread of the mean iteration times of some workers, v
// their mean. If a worker is slower than the others by more than the mean iteration, it would miss
// round after round:
//
//   times  1 1 2 | 9 10      zeta = 9 > v = 4.6      fast {1 1 2}, slow {9 10}
//          1 1 2             zeta = 1 <= v = 1.3     one group
//          9 10              zeta = 1 <= v = 9.5     one group
//
// `spread` never splits the text's own mixed scenario (5.6.1), which has delays of 0 to 50 and of
// 50 to 100 ms above a computation of X ms. There zeta = 50 and v = X + 50. A second rule, `gap`,
// is ours. It splits at the largest gap between neighbours in the order of their times, on three
// conditions. The gap must exceed the spread on either side of it. It must exceed a tenth of v, or
// a group would not pay. It must exceed three times the standard error of the two neighbours'
// difference, or the gap could be chance:
//
//   times  35 37 40 | 84 86 90     gap 44 > spreads 5 and 6     two groups (v = 62, zeta = 55)
//          35 37 40 44 48          gap 4 < spread 9             one group
//
// Both rules are applied again to each part. All functions are pure. Ranks need the same grouping,
// so one of them makes it from all workers' times (Comm::agree), or all parse the same text.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"

namespace hetsgd {

using Groups = std::vector<std::vector<int>>;  // ranks, ascending in each group

// The pace of a worker's iterations. Plain bytes: ranks exchange them.
struct WorkerPace {
  double time_s = 0;   // mean
  double error_s = 0;  // standard error of the mean; 0 if fewer than two are known
};

// Groups in the form that their members need. Its size is the number of workers, so each process
// keeps one, and its workers copy what they need. The groups must hold every rank exactly once.
struct Grouping {
  explicit Grouping(Groups its_groups, std::span<const WorkerPace> paces = {})
      : groups(std::move(its_groups)) {
    for (const WorkerPace& pace : paces) time_s.push_back(pace.time_s);
    std::size_t workers = 0;
    for (const auto& group : groups) workers += group.size();
    number.resize(workers);
    for (const auto& group : groups) {
      for (const int rank : group) {
        number[static_cast<std::size_t>(rank)] = static_cast<int>(sizes.size());
      }
      sizes.push_back(static_cast<int>(group.size()));
    }
  }

  Groups groups;
  std::vector<double> time_s;  // iteration times by rank; empty: groups by hand
  std::vector<int> number;     // index of the group, by rank
  std::vector<int> sizes;      // by group
};

// The rule that makes groups.
enum class GroupBy { spread, gap };

namespace detail {

// The fast part of some workers is all workers with a time up to this; empty: no split.
using Split = std::optional<double>;

// Splits at the mean v if the slowest and the fastest differ by more than v. The slowest is above v
// and the fastest is not, so both parts are smaller. Times that are NaN split nothing.
inline Split split_by_spread(std::span<const WorkerPace> paces) {
  double v = 0;
  for (const WorkerPace& pace : paces) v += pace.time_s / static_cast<double>(paces.size());
  const auto [fastest, slowest] = std::ranges::minmax(paces, {}, &WorkerPace::time_s);
  const double zeta = slowest.time_s - fastest.time_s;
  return zeta > v ? Split(v) : std::nullopt;
}

// Splits at the time before the largest gap, if the gap meets the conditions above.
inline Split split_by_gap(std::span<const WorkerPace> paces) {
  std::vector<WorkerPace> sorted(paces.begin(), paces.end());
  std::ranges::sort(sorted, {}, &WorkerPace::time_s);
  double gap = 0, v = 0;
  std::size_t behind = 0;  // the first of the slow part
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    v += sorted[i].time_s / static_cast<double>(sorted.size());
    if (i == 0 || !(sorted[i].time_s - sorted[i - 1].time_s > gap)) continue;
    gap = sorted[i].time_s - sorted[i - 1].time_s;
    behind = i;
  }
  if (behind == 0) return std::nullopt;
  const WorkerPace &fast = sorted[behind - 1], &slow = sorted[behind];
  const double spread = std::max(fast.time_s - sorted.front().time_s,  // of either side
                                 sorted.back().time_s - slow.time_s);
  const double least = std::max(0.1 * v, 3 * std::hypot(fast.error_s, slow.error_s));
  return gap > spread && gap > least ? Split(fast.time_s) : std::nullopt;
}

// Ranks stay ascending in each part.
inline void split_by_pace(GroupBy rule, std::span<const WorkerPace> paces,
                          const std::vector<int>& ranks, Groups& groups) {
  std::vector<WorkerPace> theirs;
  for (const int rank : ranks) theirs.push_back(paces[static_cast<std::size_t>(rank)]);
  const Split split = rule == GroupBy::spread ? split_by_spread(theirs) : split_by_gap(theirs);
  if (!split) return groups.push_back(ranks);
  std::vector<int> fast, slow;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    (theirs[i].time_s <= *split ? fast : slow).push_back(ranks[i]);
  }
  split_by_pace(rule, paces, fast, groups);
  split_by_pace(rule, paces, slow, groups);
}

}  // namespace detail

// paces: by rank. The fastest group comes first.
inline Groups groups_by_pace(GroupBy rule, std::span<const WorkerPace> paces) {
  std::vector<int> all(paces.size());
  std::iota(all.begin(), all.end(), 0);
  Groups groups;
  detail::split_by_pace(rule, paces, all, groups);
  return groups;
}

// Parses "0-3:4-7" or "0;2:1;3": colons separate groups, which are numbered by their place in the
// text. Throws Error(usage) naming the option unless every worker is in exactly one group.
inline Groups parse_groups(const std::string& text, int workers,
                           const std::string& option = "--groups") {
  Groups groups;
  std::vector<int> seen(static_cast<std::size_t>(workers));
  for (const auto part : split(text, ':')) {
    groups.push_back(parse_rank_set(option, part, workers));
    for (const int rank : groups.back()) {
      if (++seen[static_cast<std::size_t>(rank)] > 1) {
        throw usage_error("{}: found worker {} twice in {}, expected every worker once", option,
                          rank, quote(text));
      }
    }
  }
  for (int rank = 0; rank < workers; ++rank) {
    if (seen[static_cast<std::size_t>(rank)] == 0) {
      throw usage_error("{}: worker {} of {} is in none of {}, expected every worker once", option,
                        rank, workers, quote(text));
    }
  }
  return groups;
}

}  // namespace hetsgd
