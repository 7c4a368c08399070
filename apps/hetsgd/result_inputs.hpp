// Finds and reads the results for compare and report, in files, folders and sweeps.
#pragma once

#include <string>
#include <vector>

#include "result/compare.hpp"

namespace hetsgd {

// The files that operands name. A file names itself. A folder names every *.json below it, sorted
// by path, without the trials/ of a sweep's folder (one with *.index.jsonl). Such an index names
// its final runs. Errors: data (a folder or an index that cannot be read).
std::vector<std::string> result_files(const std::vector<std::string>& operands);

struct ResultInputs {
  std::vector<LoadedResult> results;
  std::vector<std::string> notes;  // files in folders that are broken results or unknown
  std::string title, about;        // of the only sweep that has all runs; empty: none
};

// Reads all results. Other hetsgd files (tunings, traces ...) are skipped with a message. A file
// that is no result is an error if it was named, and a note if it comes from a folder or an index.
//
// A sweep's index (SweepIndex) is searched in the folders, and beside and above the files. It gives
// each run its names "setup" and "case". It also gives the order of runs, since file names are
// hashes.
ResultInputs read_result_inputs(const std::vector<std::string>& operands);

}  // namespace hetsgd
