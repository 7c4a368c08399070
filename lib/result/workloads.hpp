// A workload is a learning task on a machine. `hetsgd compare` and `hetsgd report` compare only
// groups of the same workload, so no number relates runs of unequal machines.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "result/compare.hpp"

namespace hetsgd {

struct Workload {
  std::string name;   // its setup or case in a sweep, else its own folder, else `about`
  std::string about;  // the training data, and the differences to other workloads
  nlohmann::json facts = nlohmann::json::array();  // [["the network", "pcie3"], ...]
  std::vector<LoadedResult> results;
  Comparison comparison;
};

// Splits results into workloads. Results that are equal in all equal_parts() of a workload
// (compare_parts.hpp) belong together. The workloads are in the order of their first results, and
// their comparisons are empty.
std::vector<Workload> split_workloads(std::vector<LoadedResult> results);

// Fills the comparisons. A method has the same label in all of them. A group whose label would be
// longer than 40 characters is named by its own folder, if it has one. A target applies to the
// workloads that measured its metric. A reference applies to the workloads in which it names one
// group; the others take the default one, with a warning.
//
// Errors: usage (as compare(); a target that no workload measured; a reference that no workload
// has).
void compare_workloads(std::vector<Workload>& workloads, const CompareOptions& options);

// Formats a value of a result for people: texts without quotes, profiles by their names.
std::string shown(const nlohmann::json& value);

}  // namespace hetsgd
