// The steps of compare() that are in files of their own.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "result/compare.hpp"

namespace hetsgd {

// The value of a missing number.
inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
// compare.cpp: the number under the key; kNone if there is none, or `object` is no object.
double number_at(const nlohmann::json& object, const std::string& key);

// compare_groups.cpp: the indices of equal keys, in the order of their first ones.
std::vector<std::vector<std::size_t>> places_by_key(const std::vector<nlohmann::json>& keys);
// compare_groups.cpp: puts runs that differ only in their seed into groups, and names them.
void make_groups(const std::vector<LoadedResult>& results, const GroupNames& names,
                 Comparison& comparison);
// compare_groups.cpp: the common name of all results; empty if they have different names, or none.
std::string common_name(const std::vector<LoadedResult>& results,
                        std::string LoadedResult::*member);
// compare_groups.cpp: an option of a result; null if the run has no such option. Options may have
// any type and files may come from anywhere, so the caller must check the type.
const nlohmann::json& config_value(const nlohmann::json& result, const std::string& key);
// compare_groups.cpp: the options of a result that separate groups. The seed, paths and options
// that cannot change a result are left out, and so are options without a value (null or none):
// results of earlier programs lack those that came since. Plugins are compared by content.
nlohmann::json telling_options(const nlohmann::json& result);
// compare_groups.cpp: the groups that a text may mean. It is matched with their files, then with
// labels, names, cases and algorithms, in this order.
std::vector<GroupRow*> groups_named(const std::string& reference, Comparison& comparison);
// compare_groups.cpp: refuse a text that means none of the groups, and one that means several.
[[noreturn]] void refuse_unknown(const std::string& text, const std::vector<GroupRow*>& groups);
[[noreturn]] void refuse_ambiguous(const std::string& text, const std::vector<GroupRow*>& groups);
// compare_groups.cpp: marks the reference, by the times of the groups. Errors: usage (no such
// reference).
void choose_reference(const CompareOptions& options, Comparison& comparison);

// compare_groups.cpp: decides which groups are paired with the reference.
void pair_groups(const std::vector<LoadedResult>& results, Comparison& comparison);

// A part of a result that must be equal in every fair comparison.
struct EqualPart {
  std::string what;  // "the training data"
  nlohmann::json::json_pointer place;
  bool workload = true;  // part of the data, model or machine; false: of the measurement
};
// compare_warnings.cpp: all equal parts, and the value of one in a result (null: it is absent).
const std::vector<EqualPart>& equal_parts();
nlohmann::json value_of(const EqualPart& part, const nlohmann::json& result);
// compare_warnings.cpp: adds one sentence for each part that should be equal and is not, and for
// each fact that makes a difference doubtful.
void add_warnings(const std::vector<LoadedResult>& results, Comparison& comparison);

}  // namespace hetsgd
