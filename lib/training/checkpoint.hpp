// The checkpoints of one run: what is written between two segments, and from what it is resumed.
//
// Every process of the run has one, and all make the same calls. A process without a checkpoint to
// resume from and without one to write does nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cluster/process_group.hpp"
#include "training/checkpoint_file.hpp"
#include "training/record.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

class Checkpoints {
 public:
  // All arguments outlive it. set: declares the options.
  Checkpoints(const TrainOptions& options, const OptionSet& set, const Record& record)
      : options_(options), set_(set), record_(record) {}

  bool resumes() const { return !options_.resume_from.empty(); }
  // Reads the checkpoint to resume from. The record's config must be complete. Throws what
  // read_checkpoint() throws, and Error(usage) naming an option that differs between that run and
  // this one.
  void read();
  // Returns warnings. Throws Error(data) if the run was of other data. Throws Error(usage) if its
  // learning rate had another schedule, for example because another budget decides when it ends.
  std::vector<std::string> check_data() const;
  // The state to go on from, once.
  SavedRun take() { return std::move(read_->saved); }

  // Collective. Writes the state between two segments, if the run has a file for it. Throws the
  // same Error(runtime) on all processes; an existing checkpoint stays.
  void write(const SavedRun& saved);

 private:
  void check_schedule() const;
  nlohmann::json header() const;

  const TrainOptions& options_;
  const OptionSet& set_;
  const Record& record_;
  std::optional<Checkpoint> read_;
};

}  // namespace hetsgd
