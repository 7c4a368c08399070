// A straggler scenario from a record (`hetsgd fit`): what makes each worker's steps longer, as
// specifications of --straggler.
//
//   step time of worker i  =  a(W) c_i  +  excess
//
// a(W) is the time of the step's work on an undisturbed device (training/replay/work_times.hpp),
// c_i >= 1 a constant factor, 1 for the fastest worker. The excess is kept exactly, as a trace, and
// described by the kind of straggler that fits it best:
//
//   none       it is not larger than the scatter of the own times
//   periodic   it has two levels, and an autocorrelation above 5 standard errors (Bartlett 1946) at
//              a period
//   burst      it has two levels, and a likelihood-ratio test (1 %) prefers a Markov chain of two
//              states to independent draws
//   uniform, lognormal, pareto   the smallest AIC; the p-value is that of a Kolmogorov-Smirnov
//              test, which is optimistic because the parameters come from the same data
//   trace      none of them: fewer than kFewestSteps steps
//
// If the injected delay of a worker is the same multiple of a(W) in every step, it is part of the
// factor. In a record without delays of their own (step times of other tools) c_i comes from the
// shortest times instead of the medians.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "training/timeline/timeline.hpp"

namespace hetsgd {

inline constexpr std::size_t kFewestSteps = 100;

struct FittedParameter {
  std::string key;  // as in a specification: "median", "factor"
  double value = 0;
  double low = 0, high = 0;  // 95 % confidence interval
  bool is_time = true;       // in seconds; else a ratio
};

struct WorkerFit {
  int rank = 0;
  std::size_t steps = 0;
  double factor = 1;  // c_i
  std::string kind = "none";
  std::vector<FittedParameter> parameters;
  std::optional<double> p_value;  // of the kinds that are fitted by AIC
  std::vector<double> excess_s;   // by step; below 0 where a step was faster than a(W) c_i
};

// Steps of one worker, as the fit sees them.
struct StepSeries {
  std::vector<double> begin_s, undisturbed_s, excess_s;  // undisturbed: a(W) c_i
  double scatter = 0;  // of the own times: robust standard deviation of own / (a(W) c_i)
};

// One fit per worker, by rank. Errors: data, if a worker has no step.
std::vector<WorkerFit> fit_stragglers(const Timeline& timeline);
// The kind and its parameters of one series.
void fit_kind(const StepSeries& steps, WorkerFit& fit);

// The specifications of a fit. `trace_file` holds trace_csv() of the same fits; workers of the kind
// `trace` refer to it. Errors: usage, if one does and there is no such file.
std::vector<std::string> specifications_of(const std::vector<WorkerFit>& fits,
                                           const std::string& trace_file);
// Lines `rank,iteration,delay_s` after that header, as kind=trace reads them. Negative excess is 0.
std::string trace_csv(const std::vector<WorkerFit>& fits);

}  // namespace hetsgd
