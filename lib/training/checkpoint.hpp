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
  // Reads the checkpoint to resume from. The record's config must be complete. Errors: data, as
  // read_checkpoint(); usage, naming the option in which that run and this one differ.
  void read();
  // Errors: data, the run was of other data; usage, its learning rate had another schedule, for
  // example because another budget decides when it ends. Returns warnings.
  std::vector<std::string> check_data() const;
  // The state to go on from, once.
  SavedRun take() { return std::move(read_->saved); }

  // Collective. Writes the state between two segments, if the run has a file for it. Errors:
  // runtime, the same on all processes; an existing checkpoint stays.
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
