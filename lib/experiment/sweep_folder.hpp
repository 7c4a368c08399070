// The folder of sweeps: results, the trials of tunings, and what says which is which.
//
//   runs/ID.json        result of a final run, as `hetsgd train` writes it; ID.log: of a failed one
//   trials/ID.json      the same of a trial
//   NAME.sweep.json     the specification of the sweep NAME
//   NAME.tuning.json    what its tuning chose, and what that cost
//   tunings/HASH.json   the tuning of a learning rate as `hetsgd tune` writes it, for --tuned
//   NAME.index.jsonl    a line for each of its runs that has ended
//   locks/              runs that somebody is at
//
// A run in the folder:
//
//   planned ──lock──> under way ──result is done──> done: ID.json and its line in the index
//     ^   ^               ├─ killed, or ended with the sweep: the kernel gives the lock back
//     │   └───────────────┘  (ID.json, if there is one, says `running` or `aborted`)
//     └── the next call ── failed: ID.log says why, and so does the line in the index
//
// Results are the truth; the index follows from them, and is written anew when it is not there.
// Several sweeps and several processes may share a folder.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "experiment/claim.hpp"
#include "experiment/sweep_plan.hpp"

namespace hetsgd {

// The state of a result's file, as far as it shows without reading it.
struct FileState {
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;  // since 1970
  bool operator==(const FileState&) const = default;
};
// None: no regular file is there, or it is empty.
std::optional<FileState> state_of(const std::string& path);

// The lines of an index, by the ids of their runs; of several of a run the last one counts. It
// keeps the text alone, so that a million runs are no more than their file.
class SweepIndex {
 public:
  SweepIndex() = default;
  // Errors: data, a broken line, as PATH:LINE.
  SweepIndex(std::string text, const std::string& path);

  // Whether the run was done when its line was written, with the tuning of that hash ("": with any
  // or none), and its file is as it was then.
  bool is_done(const std::string& id, const FileState& file, const std::string& tuning) const;
  nlohmann::json find(const std::string& id) const;  // null: there is none
  void for_each(const std::function<void(const nlohmann::json& line)>& call) const;

 private:
  struct Line {
    std::size_t begin = 0, size = 0;
    bool done = false;
    FileState file;
    std::string tuning;
  };
  nlohmann::json parse(const Line& line) const;

  std::string text_;
  std::unordered_map<std::string, Line> lines_;
};

class SweepFolder {
 public:
  // Errors: usage (no folder is named).
  SweepFolder(std::string folder, std::string name);

  std::string result_file(const PlannedRun& run) const;
  std::string log_file(const PlannedRun& run) const;
  std::string tuning_file() const { return folder_ + "/" + name_ + ".tuning.json"; }
  // Absolute, for commands that are run elsewhere. `hash`: of tuning_hash.
  std::string tuned_file(const std::string& hash) const;
  std::string index_file() const { return folder_ + "/" + name_ + ".index.jsonl"; }
  const std::string& path() const { return folder_; }

  // Whether the folder has a sweep of this name with another specification: errors (usage) name the
  // first difference, unless `extend`. What is free text may differ. Makes nothing.
  void check(const SweepSpec& spec, bool extend) const;
  // Makes the folders, removes what writers that were killed have left, and writes the
  // specification. Errors: runtime.
  void open(const SweepSpec& spec) const;

  // None: somebody else is at it.
  std::optional<Claim> claim(const PlannedRun& run) const;

  // This host, for a run in real time. None: another sweep of this folder has such a run here.
  std::optional<Claim> claim_host() const;
  // Removes the locks and the temporary files that dead owners have left. At the end of a sweep as
  // well as at its beginning, as the runs of one that was killed may take a moment to end.
  void tidy() const;

  // A line that a kill has cut off at the end is left out. Errors: data, also for an index that is
  // no file.
  SweepIndex read_index() const;
  // Whole lines, also where others append and where the disk is full. Errors: runtime.
  void append_to_index(const nlohmann::json& line) const;
  // Replaces the index, in turn with others who do: the lines of `runs` in their order, each with
  // what `about` says of the run (several runs of a sweep may share one result).
  void rewrite_index(const std::vector<PlannedRun>& runs,
                     const std::function<nlohmann::json(const PlannedRun&)>& about) const;

 private:
  std::string lock_file(const std::string& stage, const std::string& id) const;
  void tidy_temporaries() const;

  std::string folder_, name_;
};

// The specification in a NAME.sweep.json; null: the file is something else. Errors: data.
nlohmann::json specification_in(const std::string& path);

// The part of a specification that decides about its runs: no texts for readers, no ways to run.
nlohmann::json essence(nlohmann::json specification);

}  // namespace hetsgd
