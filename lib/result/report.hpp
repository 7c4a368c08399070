// A report shows many results as one page that needs no server and no network.
//
// There are two steps. report_data() computes every number, with compare() (compare.hpp) for each
// workload. report_page() puts them into the page of report/page, which only draws.
// lib/result/README.md describes the document and the page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "result/compare.hpp"

namespace hetsgd {

struct ReportOptions {
  std::string title = "hetsgd report";
  std::string about = {};  // text below the title; empty: none
  // Targets of all workloads that measure their metric. Empty: each workload has the targets that
  // one of its results names.
  std::vector<Target> targets = {};
  // As in CompareOptions. A workload in which it names no group, or several, gets the default
  // reference and a warning. Empty: all workloads get the default reference.
  std::string reference = {};
  std::vector<std::string> notes = {};  // omitted files, with reasons
};

// Computes the document. Runs with the same data, model sizes, machine and stragglers are one
// workload. Workloads are in the order of their first files; their groups and statistics are those
// of compare().
//
// The data are down-sampled so that 500 runs stay below 5 MB: curves to a budget of numbers, merges
// to 80 per group, workers to 64 per group, histograms to 80 bins. Omitted entries are counted.
//
// Errors: usage (no results, a target that no result measures, a reference that none has).
nlohmann::json report_data(std::vector<LoadedResult> results, const ReportOptions& options);

// The page, UTF-8. Nothing in `data` can become markup or a script, and the page's content security
// policy allows no requests.
std::string report_page(const nlohmann::json& data);

}  // namespace hetsgd
