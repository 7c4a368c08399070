// The results that compare and report are made of: files, folders, and sweeps.
#pragma once

#include <string>
#include <vector>

#include "result/compare.hpp"

namespace hetsgd {

// The files that operands mean: a file itself; of a folder every *.json below it, by path, without the
// trials/ of a sweep's folder (one with *.index.jsonl); of such an index the final runs that it lists.
// Errors: data (a folder or an index that cannot be read).
std::vector<std::string> result_files(const std::vector<std::string>& operands);

struct ResultInputs {
  std::vector<LoadedResult> results;
  std::vector<std::string> notes;  // files of folders that are broken results, or nothing of ours
  std::string title, about;        // of the only sweep whose runs they are; empty: there is none
};

// Reads them all. Other files of ours (tunings, traces ...) are passed over with a message. A file
// that was named and is no result is an error; one of a folder or an index is a note.
//
// A sweep's index (*.index.jsonl, one JSON object per line) is found in the folders, and beside the
// files and above them. It gives runs their names, "setup" and "case" of the run in "file", or in
// runs/ID.json for "id", and their order: the names of the files are hashes, which order nothing.
ResultInputs read_result_inputs(const std::vector<std::string>& operands);

}  // namespace hetsgd
