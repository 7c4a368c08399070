// The folder of sweeps, with results, the trials of tunings, and the index of runs.
//
//   runs/ID.json        result of a final run, as `hetsgd train` writes it; ID.log: of a failed one
//   trials/ID.json      the same of a trial
//   NAME.sweep.json     the specification of the sweep NAME
//   NAME.tuning.json    its tunings: trials, choices and cost (tuning.hpp)
//   tunings/HASH.json   the tuning of one learning rate, for --tuned
//   NAME.index.jsonl    a line for each of its runs that has ended
//   locks/              claims of runs in progress
//
// A run in the folder:
//
//   planned ──lock──> under way ──result is done──> done: ID.json and its line in the index
//     ^   ^               ├─ killed, or ended with the sweep: the kernel gives the lock back
//     │   └───────────────┘  (ID.json, if there is one, says `running` or `aborted`)
//     └── the next call ── failed: ID.log says why, and so does the line in the index
//
// The results are authoritative. The index follows from them, and is rebuilt if it is missing.
// Several sweeps and several processes may share a folder.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/units.hpp"
#include "experiment/sweep_plan.hpp"

namespace hetsgd {

// Claims of runs. Processes that share a folder, on one host or several, agree by lock files.
//
//   free ──try_claim──> held ──released, or its owner's end──> free
//
// The owner holds the file's lock (flock), which the kernel releases whenever the owner ends. Some
// file systems keep such locks to one host. So every owner also touches its files at least every
// kHeartbeat, and other hosts see by the file's time that it lives. An unlocked file is removed at
// once if its owner was on this host, and otherwise if it was not touched for kSilence. Then one
// process succeeds in making it anew (O_EXCL).
class Claim {
 public:
  static constexpr Seconds kHeartbeat{10}, kSilence{60};

  // Claims `path`, and makes its folder if necessary. None: another process holds the claim. Throws
  // Error(runtime) if the file cannot be made.
  static std::optional<Claim> try_claim(const std::string& path);
  ~Claim();
  Claim(Claim&& other) noexcept;
  Claim& operator=(Claim&& other) noexcept;

  void touch() const;  // the heartbeat of the owner

 private:
  Claim(std::string path, int file) : path_(std::move(path)), file_(file) {}
  void release();

  std::string path_;
  int file_ = -1;
};

// The state of a result file that is visible without reading it.
struct FileState {
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;  // nanoseconds since 1970
  bool operator==(const FileState&) const = default;
};
// The state of a file. None if it is missing, empty or no regular file.
std::optional<FileState> state_of(const std::string& path);

// The lines of an index by the ids of their runs. If a run has several lines, the last one counts.
// The lines stay text, so that the memory of a million runs is about the size of their file.
class SweepIndex {
 public:
  SweepIndex() = default;
  // Throws Error(data) naming PATH:LINE of a broken line.
  SweepIndex(std::string text, const std::string& path);

  // Whether the run was done when its line was written, and its file is unchanged since. `tuning`
  // is the hash of its tuning; "": any or none.
  bool has_result(const std::string& id, const FileState& file, const std::string& tuning) const;
  nlohmann::json find(const std::string& id) const;  // null: no line
  // In the order of the lines.
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
  // Throws Error(usage) if no folder is named.
  SweepFolder(std::string folder, std::string name);

  std::string result_file(const PlannedRun& run) const;
  std::string log_file(const PlannedRun& run) const;
  std::string specification_file() const { return folder_ + "/" + name_ + ".sweep.json"; }
  std::string tuning_file() const { return folder_ + "/" + name_ + ".tuning.json"; }
  // The absolute path of a tuning, for commands that run in another folder. `hash`:
  // Tuning::hash().
  std::string tuned_file(const std::string& hash) const;
  std::string index_file() const { return folder_ + "/" + name_ + ".index.jsonl"; }
  const std::string& path() const { return folder_; }

  // Throws Error(usage) naming the first difference if the folder has a sweep of this name with
  // another specification, unless `extend`. Free texts may differ. Creates nothing.
  void check(const SweepSpec& spec, bool extend) const;
  // Creates the folders, removes files that killed writers have left, and writes the specification.
  // Throws Error(runtime) if it cannot.
  void open(const SweepSpec& spec) const;

  // Claims a run. None: another process works on it.
  std::optional<Claim> claim(const PlannedRun& run) const;

  // Claims this host for a run in real time. None: another sweep of this folder has such a run
  // here.
  std::optional<Claim> claim_host() const;
  // Removes the locks and temporary files that dead owners have left. It is called at the beginning
  // and at the end of a sweep, because runs of a killed sweep may take a moment to end.
  void tidy() const;

  // Reads the index without a last line that a kill has cut off. Throws Error(data) for a broken
  // line, or for an index that is no regular file.
  SweepIndex read_index() const;
  // Appends a whole line, or nothing, even if other processes append or the disk is full. Throws
  // Error(runtime) if it cannot.
  void append_to_index(const nlohmann::json& line) const;
  // Replaces the index under a lock by the lines of `runs` in their order. `about` gives the fields
  // that identify each run, since several runs of a sweep may share one result.
  void rewrite_index(const std::vector<PlannedRun>& runs,
                     const std::function<nlohmann::json(const PlannedRun&)>& about) const;

 private:
  std::string lock_file(const std::string& name) const;
  void tidy_temporaries() const;

  std::string folder_, name_;
};

// The specification in a NAME.sweep.json; null if the file is of another kind. Throws Error(data)
// if the file cannot be read.
nlohmann::json specification_in(const std::string& path);

// The part of a specification that determines its runs, without texts for readers and ways to run.
nlohmann::json essence(nlohmann::json specification);

}  // namespace hetsgd
