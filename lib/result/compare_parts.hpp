// The steps of compare(), each in a file of its own.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "result/compare.hpp"

namespace hetsgd {

// A number that there is not.
inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// compare_groups.cpp: puts runs that differ in their seed alone into groups and names them.
void make_groups(const std::vector<LoadedResult>& results, Comparison& comparison);
// compare_groups.cpp: marks the reference, after fill_groups. Errors: usage (no such reference).
void choose_reference(const std::string& reference, Comparison& comparison);

// compare_statistics.cpp: medians and intervals of each group, then what relates to the reference.
void fill_groups(Comparison& comparison);
void relate_groups(Comparison& comparison);
void sort_groups(Comparison& comparison);

// compare_warnings.cpp: one sentence for each thing that should be equal and is not, or makes a
// difference doubtful.
void add_warnings(const std::vector<LoadedResult>& results, Comparison& comparison);

}  // namespace hetsgd
