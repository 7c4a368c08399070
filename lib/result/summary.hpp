// The outcome of a run, computed once from its record: for the result file, for the last words of
// `train`, and for the trials of a tuning.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "result/time_to_accuracy.hpp"
#include "training/record.hpp"

namespace hetsgd {

struct TargetSummary {
  Target target;
  TimeToAccuracy time;
};

struct Summary {
  CurvePoint last;                              // the last evaluation; all 0 before the first
  std::map<std::string, double> final_metrics;  // its metrics by name; empty before the first
  // The metrics of a constant guess, by the same names, and its train_loss; empty: not known.
  std::map<std::string, double> constant_guess;
  std::map<std::string, Evaluation> best;  // of each metric that has a finite value; the first
  std::vector<TargetSummary> targets;      // as the run was given them
  double elapsed_s = 0;                    // training clock
  std::optional<double> samples_per_s;     // none: no time has passed
  std::optional<double> computing_ratio;   // share of the workers' time; none: as above
  std::uint64_t bytes_sent = 0, bytes_received = 0;  // by all workers
  // Share of the time for which the link of the services' host was taken; none: real, or no
  // services.
  std::optional<double> server_link_ratio;

  bool reached_all_targets() const;
};

Summary summarise(const Record& record);

// The metrics of a point that apply to the task, by name; they may be NaN.
std::map<std::string, double> metrics_at(const CurvePoint& point);
TimeToAccuracy time_to(const Record& record, const Target& target);
// Over all kinds of traffic.
std::uint64_t total_bytes(const TrafficBytes& by_kind);

// Remarks that a person should read beside the numbers of a run.

// A time to a target has the resolution of the evaluations: with fewer than these before it, one
// more or less changes it by over 5 %.
inline constexpr std::size_t kFineEvaluations = 20;

// The run's own warnings, and one for each target whose time is coarse. They stand in the result.
std::vector<std::string> warnings_of(const Record& record, const Summary& summary);

// Lines for the end of a run: what the algorithm says of its settings, how busy the services' link
// was, and, with --trace, for whom the workers waited most.
std::vector<std::string> remarks_of(const Record& record, const Summary& summary);

}  // namespace hetsgd
