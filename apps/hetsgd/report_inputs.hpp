// The results that a report is made of: files, and folders with all that lies below them.
#pragma once

#include <string>
#include <vector>

#include "result/compare.hpp"

namespace hetsgd {

// The operands that are files, and of those that are folders every *.json below, by path, without the
// trials/ of a sweep's folder (one with *.index.jsonl). Errors: data (a folder that cannot be read).
std::vector<std::string> report_files(const std::vector<std::string>& operands);

struct ReportInputs {
  std::vector<LoadedResult> results;
  std::vector<std::string> notes;  // files of folders that are broken results, or nothing of ours
};

// Reads them all. Other files of ours (tunings, traces ...) are passed over with a message. An
// operand that is no result is an error; a file of a folder that is none is a note.
//
// Runs get the names that a sweep's index in one of the folders (*.index.jsonl, one JSON object per
// line) has for them: "setup" and "case", of the run in "file", or in runs/ID.json for "id".
ReportInputs read_report_inputs(const std::vector<std::string>& operands);

}  // namespace hetsgd
