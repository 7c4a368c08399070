// The outcome of a run. It is computed once from the record, for the result file, the final lines
// of `train`, and the trials of a tuning.
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
  // The metrics of a constant guess by the same names, and its train_loss; empty: not known.
  std::map<std::string, double> constant_guess;
  std::map<std::string, Evaluation> best;  // by metric with a finite value; the first best
  std::vector<TargetSummary> targets;      // in the order of the options
  double elapsed_s = 0;                    // training clock
  std::optional<double> samples_per_s;     // none: no time has passed
  double tokens_per_sample = 0;            // see Record
  std::optional<double> computing_ratio;   // share of the workers' time spent computing
  std::uint64_t bytes_sent = 0, bytes_received = 0;  // by all workers
  // Share of the time that the link of the services' host was busy. None in real time, or without
  // services.
  std::optional<double> server_link_ratio;

  bool reached_all_targets() const;
};

Summary summarise(const Record& record);

// The metrics of a point that apply to the task, by name; they may be NaN.
std::map<std::string, double> metrics_at(const CurvePoint& point);
TimeToAccuracy time_to(const Record& record, const Target& target);
// The sum over all kinds of traffic.
std::uint64_t total_bytes(const TrafficBytes& by_kind);

// Remarks that a person should read beside the numbers of a run.

// A time to a target has the resolution of the evaluations. With fewer evaluations before it than
// this, one evaluation changes it by more than 5 %.
inline constexpr std::size_t kFineEvaluations = 20;

// The run's own warnings, and one for each target whose time is coarse. The result contains them.
std::vector<std::string> warnings_of(const Record& record, const Summary& summary);

// Lines for the end of a run: the algorithm's remarks on its settings, the effect of unequal rows
// of tokens with several workers (Horovod's and DDP's means have it too), the load of the services'
// link and, with --trace, the workers that others waited for most.
std::vector<std::string> remarks_of(const Record& record, const Summary& summary);

}  // namespace hetsgd
