#include "experiment/replay/straggler_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/error.hpp"
#include "core/rank_index.hpp"
#include "result/statistics.hpp"
#include "training/replay/work_times.hpp"

namespace hetsgd {
namespace {

// A factor, or a delay as a multiple of a(W), whose spread is smaller than this is constant.
constexpr double kConstantSpread = 0.01;
// The scatter of exact times: rounding alone.
constexpr double kRounding = 1e-9;

struct RecordedSteps {
  std::vector<double> begin_s, own_s, delay_s, work_s;
  // (own + delay) / a, by step.
  std::vector<double> ratios() const {
    std::vector<double> all;
    for (std::size_t k = 0; k < own_s.size(); ++k)
      all.push_back((own_s[k] + delay_s[k]) / work_s[k]);
    return all;
  }
  std::vector<double> own_ratios() const {
    std::vector<double> all;
    for (std::size_t k = 0; k < own_s.size(); ++k) all.push_back(own_s[k] / work_s[k]);
    return all;
  }
  bool has_delays() const {
    return std::ranges::any_of(delay_s, [](double delay) { return delay > 0; });
  }
};

RecordedSteps recorded_steps(const Timeline& timeline, const WorkTimes& work, int rank) {
  RecordedSteps steps;
  for (const TraceRange& range : timeline.main_of(rank).ranges) {
    if (range.category != "compute" || range.name != "step") continue;
    steps.begin_s.push_back(range.begin.count());
    steps.own_s.push_back(own_seconds(range));
    steps.delay_s.push_back(range.delay.count());
    steps.work_s.push_back(work.seconds(rank, range.name, range.work));
  }
  if (steps.own_s.empty()) {
    throw data_error("{}: found no step of worker {}, expected at least one", timeline.path, rank);
  }
  return steps;
}

// The factor of a worker, not yet relative to the fastest. A constant straggler delays each step by
// the same multiple of its own time.
double raw_factor(const RecordedSteps& steps, bool with_delays) {
  if (!with_delays) return std::ranges::min(steps.ratios());
  std::vector<double> delays, distances;
  for (std::size_t k = 0; k < steps.own_s.size(); ++k) {
    delays.push_back(steps.delay_s[k] / steps.own_s[k]);
  }
  const double middle = median(delays);
  for (const double delay : delays) distances.push_back(std::abs(delay - middle));
  std::ranges::sort(distances);
  const bool constant = distances[distances.size() * 9 / 10] <= kConstantSpread * (1 + middle);
  return median(steps.own_ratios()) * (constant ? 1 + middle : 1);
}

double scatter_of(const std::vector<double>& ratios) {
  constexpr double kNormal = 1.4826;  // standard deviation over median absolute deviation
  const double middle = median(ratios);
  std::vector<double> distances;
  for (const double ratio : ratios) distances.push_back(std::abs(ratio - middle) / middle);
  return std::max(kRounding, kNormal * median(distances));
}

std::string specification_of(const WorkerFit& fit, const std::string& trace_file) {
  if (fit.kind == "trace") {
    if (trace_file.empty()) {
      refuse("--trace-csv", "no file",
             fmt::format("one, because worker {} has {} steps and a kind needs {}", fit.rank,
                         fit.steps, kFewestSteps));
    }
    return fmt::format("kind=trace,file={},workers={}", trace_file, fit.rank);
  }
  std::string text = "kind=" + fit.kind;
  for (const FittedParameter& each : fit.parameters) {
    fmt::format_to(std::back_inserter(text), ",{}={:.9g}{}", each.key, each.value,
                   each.is_time ? "s" : "");
  }
  return fmt::format("{},workers={}", text, fit.rank);
}

}  // namespace

std::vector<WorkerFit> fit_stragglers(const Timeline& timeline) {
  const WorkTimes work(timeline);
  std::vector<RecordedSteps> steps;
  bool with_delays = timeline.virtual_time && !timeline.config.empty();
  for (int rank = 0; rank < timeline.workers; ++rank) {
    steps.push_back(recorded_steps(timeline, work, rank));
    with_delays = with_delays || steps.back().has_delays();
  }
  std::vector<double> factors;
  for (const RecordedSteps& each : steps) factors.push_back(raw_factor(each, with_delays));
  const double fastest = *std::ranges::min_element(factors);
  std::vector<WorkerFit> fits;
  for (int rank = 0; rank < timeline.workers; ++rank) {
    const RecordedSteps& mine = steps[at(rank)];
    WorkerFit fit{.rank = rank,
                  .steps = mine.own_s.size(),
                  .factor = factors[at(rank)] / fastest,
                  .parameters = {},
                  .p_value = {},
                  .excess_s = {}};
    StepSeries series;
    series.begin_s = mine.begin_s;
    for (std::size_t k = 0; k < mine.own_s.size(); ++k) {
      const double undisturbed = mine.work_s[k] * factors[at(rank)];
      series.undisturbed_s.push_back(undisturbed);
      series.excess_s.push_back(mine.own_s[k] + mine.delay_s[k] - undisturbed);
    }
    series.scatter = with_delays ? scatter_of(mine.own_ratios()) : kRounding;
    fit.excess_s = series.excess_s;
    if (fit.factor < 1 + kConstantSpread / 10) fit.factor = 1;
    fit_kind(series, fit);
    fits.push_back(std::move(fit));
  }
  return fits;
}

std::vector<std::string> specifications_of(const std::vector<WorkerFit>& fits,
                                           const std::string& trace_file) {
  std::vector<std::string> all;
  for (const WorkerFit& fit : fits) {
    if (fit.factor > 1) {
      all.push_back(fmt::format("kind=constant,factor={:.9g},workers={}", fit.factor, fit.rank));
    }
    if (fit.kind != "none") all.push_back(specification_of(fit, trace_file));
  }
  return all;
}

std::string trace_csv(const std::vector<WorkerFit>& fits) {
  std::string text = "rank,iteration,delay_s\n";
  for (const WorkerFit& fit : fits) {
    for (std::size_t k = 0; k < fit.excess_s.size(); ++k) {
      fmt::format_to(std::back_inserter(text), "{},{},{}\n", fit.rank, k,
                     std::max(0.0, fit.excess_s[k]));
    }
  }
  return text;
}

}  // namespace hetsgd
