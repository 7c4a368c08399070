// Groups of hierarchical RNA: workers of about the same pace (paper 004, section 5.2).
//
// zeta is the spread of the mean iteration times of some workers, v their mean. A worker that is
// slow by more than what the others need for an iteration on average would miss round after round:
//
//   times  1 1 2 | 9 10      zeta = 9 > v = 4.6      fast {1 1 2}, slow {9 10}
//          1 1 2             zeta = 1 <= v = 1.3     one group
//          9 10              zeta = 1 <= v = 9.5     one group
//
// All functions are pure. Ranks need the same grouping, so one of them makes it from everybody's
// times (Comm::agree), or all parse the same text.
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"

namespace hetsgd {

using Groups = std::vector<std::vector<int>>;  // ranks, ascending in each group

// Groups as their members want to know them. As long as there are workers, so one process keeps one
// and its workers copy what they need of it. The groups must hold every rank exactly once.
struct Grouping {
  explicit Grouping(Groups its_groups, std::span<const double> its_time_s = {})
      : groups(std::move(its_groups)), time_s(its_time_s.begin(), its_time_s.end()) {
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
  std::vector<double> time_s;  // of an iteration, by rank; empty: groups by hand
  std::vector<int> number;     // of the group, by rank
  std::vector<int> sizes;      // by group
};

namespace detail {

// With v the mean time of `ranks` and zeta the difference between the slowest and the fastest:
// zeta > v splits them into those with t <= v and those with t > v, and so on in both. It ends:
// with zeta > v >= 0 the slowest is above the mean and the fastest is not, so both parts are
// smaller. Times that are not numbers compare false and split nothing. Ranks stay ascending in each
// part.
inline void split_by_time(std::span<const double> time_s, const std::vector<int>& ranks,
                          Groups& groups) {
  const auto time = [&](int rank) { return time_s[static_cast<std::size_t>(rank)]; };
  double v = 0;
  for (const int rank : ranks) v += time(rank) / static_cast<double>(ranks.size());
  const auto [fastest, slowest] = std::ranges::minmax(ranks, {}, time);
  const double zeta = time(slowest) - time(fastest);
  if (!(zeta > v)) return groups.push_back(ranks);
  std::vector<int> fast, slow;
  for (const int rank : ranks) (time(rank) <= v ? fast : slow).push_back(rank);
  split_by_time(time_s, fast, groups);
  split_by_time(time_s, slow, groups);
}

}  // namespace detail

// time_s: mean time of an iteration by rank, in seconds. The fastest group comes first. Two groups
// at least where one worker is slower than another by more than the mean, else one.
inline Groups groups_by_time(std::span<const double> time_s) {
  std::vector<int> all(time_s.size());
  std::iota(all.begin(), all.end(), 0);
  Groups groups;
  detail::split_by_time(time_s, all, groups);
  return groups;
}

// "0-3:4-7" or "0;2:1;3": groups are separated by colons, and their numbers are the places in the
// text. Errors: usage, naming --groups, unless every worker is in exactly one.
inline Groups parse_groups(const std::string& text, int workers) {
  Groups groups;
  std::vector<int> seen(static_cast<std::size_t>(workers));
  for (const auto part : split(text, ':')) {
    groups.push_back(parse_rank_set("--groups", part, workers));
    for (const int rank : groups.back()) {
      if (++seen[static_cast<std::size_t>(rank)] > 1) {
        throw usage_error("--groups: found worker {} twice in {}, expected every worker once", rank,
                          quote(text));
      }
    }
  }
  for (int rank = 0; rank < workers; ++rank) {
    if (seen[static_cast<std::size_t>(rank)] == 0) {
      throw usage_error("--groups: worker {} of {} is in none of {}, expected every worker once",
                        rank, workers, quote(text));
    }
  }
  return groups;
}

}  // namespace hetsgd
