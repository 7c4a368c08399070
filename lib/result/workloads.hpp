// Workloads: what is learnt on what machine. `hetsgd compare` and `hetsgd report` compare the groups of
// each workload with each other, so that no number relates runs of unequal machines.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "result/compare.hpp"

namespace hetsgd {

struct Workload {
  std::string
      name;  // its setup or case in a sweep, else the folder it has for itself, else `about`
  std::string about;  // the training data, and in what it differs from other workloads
  nlohmann::json facts = nlohmann::json::array();  // [["the network", "pcie3"], ...]
  std::vector<LoadedResult> results;
  Comparison comparison;
};

// Results that are equal in all equal_parts() of a workload (compare_parts.hpp) belong together. The
// workloads stand in the order of their first results; their comparisons are empty.
std::vector<Workload> split_workloads(std::vector<LoadedResult> results);

// Fills the comparisons. A method has the same label in all of them. Results whose label would be
// longer than 40 characters are called by the folder that their group has for itself, if it has one.
// A target holds for the workloads that measured its metric. A reference holds for the workloads in
// which it names one group; the others take the default one, with a warning.
//
// Errors: usage (as compare(); a target that no workload measured; a reference that no workload has).
void compare_workloads(std::vector<Workload>& workloads, const CompareOptions& options);

// A value of a result for people: texts without quotes, profiles by their names.
std::string shown(const nlohmann::json& value);

}  // namespace hetsgd
