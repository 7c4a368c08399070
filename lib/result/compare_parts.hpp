// The steps of compare() that have files of their own.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "result/compare.hpp"

namespace hetsgd {

// A number that there is not.
inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
// compare.cpp: kNone where the object has no number under the key, or is none.
double number_at(const nlohmann::json& object, const std::string& key);

// compare_groups.cpp: the places of equal keys, in the order of their first ones.
std::vector<std::vector<std::size_t>> places_by_key(const std::vector<nlohmann::json>& keys);
// compare_groups.cpp: puts runs that differ in their seed alone into groups and names them.
void make_groups(const std::vector<LoadedResult>& results, const GroupNames& names,
                 Comparison& comparison);
// compare_groups.cpp: what all results are called; empty: they have different names, or none.
std::string common_name(const std::vector<LoadedResult>& results,
                        std::string LoadedResult::*member);
// compare_groups.cpp: an option of a result; null: the run has no such option. Options of algorithms
// may have any type, and a file may come from anywhere: a caller that needs one type asks for it.
const nlohmann::json& config_value(const nlohmann::json& result, const std::string& key);
// compare_groups.cpp: the options of a result that tell groups apart, with the seed, paths and what
// cannot change a result left out; of plugins the content counts.
nlohmann::json telling_options(const nlohmann::json& result);
// compare_groups.cpp: the groups that a text may mean: as one of their files, else as label, name,
// case or algorithm, in this order.
std::vector<GroupRow*> groups_named(const std::string& reference, Comparison& comparison);
// compare_groups.cpp: for a text that means none, and for one that means several.
Error no_reference(const std::string& reference, const std::vector<GroupRow*>& groups);
Error ambiguous_reference(const std::string& reference, const std::vector<GroupRow*>& groups);
// compare_groups.cpp: marks the reference, after fill_groups. Errors: usage (no such reference).
void choose_reference(const CompareOptions& options, Comparison& comparison);

// A part of a result that is equal in every fair comparison.
struct EqualPart {
  std::string what;  // "the training data"
  nlohmann::json::json_pointer place;
  bool workload = true;  // of what is learnt on what machine; false: of how it is measured
};
// compare_warnings.cpp: all of them, and one of them in a result; null: not there.
const std::vector<EqualPart>& equal_parts();
nlohmann::json value_of(const EqualPart& part, const nlohmann::json& result);
// compare_warnings.cpp: one sentence for each thing that should be equal and is not, or makes a
// difference doubtful.
void add_warnings(const std::vector<LoadedResult>& results, Comparison& comparison);

}  // namespace hetsgd
