// A report: what many results say, as one page that needs no server and no network.
//
// Two steps: report_data() computes every number, with compare() (compare.hpp) for each workload, and
// report_page() puts them into the page of report/page, which draws and computes nothing new.
// lib/result/README.md describes the document and the page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "result/compare.hpp"

namespace hetsgd {

struct ReportOptions {
  std::string title = "hetsgd report";
  std::string about = {};  // what the results are to show, below the title; empty: not said
  // Empty: of each workload the targets that one of its results names. A workload that does not
  // measure a target's metric goes without it.
  std::vector<Target> targets = {};
  // See CompareOptions; a workload in which it names no group, or several, gets compare's own
  // choice, and a warning. Empty: compare's own choice everywhere.
  std::string reference = {};
  std::vector<std::string> notes = {};  // files that were left out, and why
};

// Runs that share their data, model sizes, machine and stragglers are one workload, in the order of
// their first files; inside of each, groups and statistics are those of compare().
//
// Down-sampled so that 500 runs stay below 5 MB: curves to a budget of numbers, merges to 80 per
// group, workers to 64 per group, histograms to 80 bins. All that is left out is counted.
//
// Errors: usage (no results, a target that no result measures, a reference that none has).
nlohmann::json report_data(std::vector<LoadedResult> results, const ReportOptions& options);

// The page, UTF-8. Nothing in `data` can become markup or a script, and the page's policy lets no
// request leave it.
std::string report_page(const nlohmann::json& data);

}  // namespace hetsgd
