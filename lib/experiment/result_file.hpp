// The file of one run's result while the run goes on.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "result/result.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

// Keeps the file up to date: after every evaluation, but not more often than twice a second (a
// killed run loses at most that), and at once when the run is interrupted: who sends a signal may
// kill a second later. So only the result of a run that has ended by itself waits for the disk. What
// goes wrong on the way is a warning, since a later write may work; at the end it is an error. To a
// stream goes only the last one. Not thread-safe.
class ResultFile {
 public:
  ResultFile(const TrainOptions& options, const ResultOptions& result);

  // Whether --resume finds the result of a run of `config` that has ended by itself. Errors: usage
  // (the file has a run of another configuration), data (it is no result).
  bool has_result_of(nlohmann::json config) const;

  void write(const Record& record);
  // Throws what the last write threw.
  void check() const;

 private:
  std::string path_;
  bool resume_;
  ResultOptions options_;
  std::chrono::steady_clock::time_point next_{};
  bool warned_ = false;
  std::optional<Error> failure_;
};

// The first key in which two configurations differ; "": none.
std::string first_difference(const nlohmann::json& a, const nlohmann::json& b);

}  // namespace hetsgd
