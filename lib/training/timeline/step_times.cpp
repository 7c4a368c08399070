#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "core/error.hpp"
#include "core/rank_index.hpp"
#include "core/text.hpp"
#include "training/timeline/timeline.hpp"

namespace hetsgd {
namespace {

constexpr std::string_view kStepTimeColumns = "worker,step,seconds";
constexpr double kMostWorkers = 1e6, kMostSteps = 1e9, kLongestStep = 1e9;

// By worker and step.
using TimesOfSteps = std::map<int, std::map<std::uint64_t, double>>;

double step_number(std::string_view field, std::string_view line, const std::string& place,
                   std::string_view expected, double most) {
  const std::string_view text = trim(field);
  double value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0 && value <= most)) {
    throw data_error("{}:{}: found {}, expected {}", place, field.data() - line.data() + 1,
                     quote(text), expected);
  }
  return value;
}

void add_step_time(TimesOfSteps& times, std::string_view line, const std::string& place) {
  const std::vector<std::string_view> fields = split(line, ',');
  if (fields.size() != 3) {
    throw data_error("{}:1: found {} fields, expected 3: {}", place, fields.size(),
                     kStepTimeColumns);
  }
  const double worker =
      step_number(fields[0], line, place, "a worker, counted from 0", kMostWorkers);
  const double step = step_number(fields[1], line, place, "a step, counted from 0", kMostSteps);
  const double seconds = step_number(fields[2], line, place, "seconds", kLongestStep);
  for (const auto& [value, field] : {std::pair(worker, fields[0]), std::pair(step, fields[1])}) {
    if (value == static_cast<double>(static_cast<std::uint64_t>(value))) continue;
    throw data_error("{}: found {}, expected a whole number", place, quote(trim(field)));
  }
  const bool fresh =
      times[static_cast<int>(worker)].emplace(static_cast<std::uint64_t>(step), seconds).second;
  if (!fresh) {
    throw data_error("{}:1: found worker {} and step {} again, expected them once", place, worker,
                     step);
  }
}

void check_all_steps(const TimesOfSteps& times, const std::string& path) {
  const std::size_t workers = at(times.rbegin()->first) + 1;
  if (times.size() != workers) {
    throw data_error("{}: found {} workers, the last of which is {}, expected workers 0 to {}",
                     path, times.size(), workers - 1, workers - 1);
  }
  const std::uint64_t steps = times.begin()->second.size();
  for (const auto& [worker, of_worker] : times) {
    if (of_worker.size() == steps && of_worker.rbegin()->first + 1 == steps) continue;
    throw data_error(
        "{}: found {} steps of worker {}, the last of which is {}, expected steps 0 to "
        "{} of each worker",
        path, of_worker.size(), worker, of_worker.rbegin()->first, steps - 1);
  }
}

}  // namespace

Timeline read_step_times(const std::string& path, std::string_view text) {
  TimesOfSteps times;
  std::size_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    const std::string_view trimmed = trim(line);
    if (trimmed.empty() || trimmed.front() == '#') continue;
    if (times.empty() && trimmed.starts_with("worker")) {
      if (trimmed == kStepTimeColumns) continue;
      throw data_error("{}:{}: found {}, expected {}", path, number, quote(trimmed),
                       kStepTimeColumns);
    }
    add_step_time(times, line, fmt::format("{}:{}", path, number));
  }
  if (times.empty()) {
    throw data_error("{}: found no step, expected a timeline or lines {}", path, kStepTimeColumns);
  }
  check_all_steps(times, path);
  Timeline result{.path = path, .workers = static_cast<int>(times.size())};
  for (int rank = 0; rank < result.workers; ++rank) {
    result.processes.push_back({{rank, fmt::format("worker {}", rank), true, 0, {}}});
  }
  for (std::uint64_t step = 0; step < times.begin()->second.size(); ++step) {
    const Seconds begin = result.elapsed;
    for (const auto& [worker, of_worker] : times) {
      result.elapsed = std::max(result.elapsed, begin + Seconds(of_worker.at(step)));
    }
    for (const auto& [worker, of_worker] : times) {
      const Seconds end = begin + Seconds(of_worker.at(step));
      std::deque<TraceRange>& ranges = result.processes[at(worker)].ranges;
      ranges.push_back(
          {.category = "compute", .name = "step", .begin = begin, .end = end, .steps = step + 1});
      ranges.push_back({.category = "communicate",
                        .name = "barrier",
                        .begin = end,
                        .end = result.elapsed,
                        .wait = result.elapsed - end,
                        .steps = step + 1,
                        .place = {.kind = CallKind::collective, .number = step, .rank = worker}});
    }
  }
  return result;
}

}  // namespace hetsgd
