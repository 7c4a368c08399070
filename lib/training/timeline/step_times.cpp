#include <algorithm>
#include <map>

#include "core/csv.hpp"
#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/rank_index.hpp"
#include "core/text.hpp"
#include "training/timeline/timeline.hpp"

namespace hetsgd {
namespace {

constexpr std::string_view kStepTimeColumns = "worker,step,seconds";
constexpr std::size_t kMostWorkers = 4096;
constexpr double kMostSteps = 1e9, kLongestStep = 1e9, kShortestStep = 1e-12;
constexpr std::string_view kSeconds = "seconds: 0, or 1e-12 to 1e9";

// By worker and step.
using TimesOfSteps = std::map<int, std::map<std::uint64_t, double>>;

// The seconds of the unit that a column's name ends with: "step_ms", "step (ms)", "seconds".
double unit_of(const std::string& path, std::string_view column) {
  static const std::map<std::string, double, std::less<>> units = {
      {"s", 1},     {"sec", 1},     {"second", 1},    {"seconds", 1},
      {"ms", 1e-3}, {"msec", 1e-3}, {"millis", 1e-3}, {"milliseconds", 1e-3},
      {"us", 1e-6}, {"usec", 1e-6}, {"micros", 1e-6}, {"microseconds", 1e-6},
      {"ns", 1e-9}, {"nsec", 1e-9}, {"nanos", 1e-9},  {"nanoseconds", 1e-9}};
  const std::string name = lower(column);
  const std::string_view words = std::string_view(name).substr(0, name.find_last_not_of(")] ") + 1);
  const std::string_view word = words.substr(words.find_last_of("_([./- ") + 1);
  if (const auto unit = units.find(word); unit != units.end()) return unit->second;
  throw with_hint(usage_error("--columns: found {} for the times in {}, expected a name that ends "
                              "with its unit: step_s, step_ms, step_us or step_ns",
                              quote(column), path),
                  "name the column so in the file");
}

// The unit of the third of the columns, which are those of the worker, the step and its time.
double unit_of_columns(const std::string& path, std::string_view columns) {
  const std::vector<std::string_view> names = split(columns, ',');
  if (names.size() != 3 || std::ranges::any_of(names, &std::string_view::empty)) {
    refuse("--columns", quote(columns), "three names, of the worker, the step and its time");
  }
  return unit_of(path, names.back());
}

void add_step_time(TimesOfSteps& times, const CsvRows& row, const std::string& path, double unit) {
  const auto worker = static_cast<int>(row.whole(0, kMostSteps, "a worker, counted from 0"));
  const std::uint64_t step = row.whole(1, kMostSteps, "a step, counted from 0");
  const double seconds = row.number(2, kLongestStep / unit, kSeconds) * unit;
  if (seconds > 0 && seconds < kShortestStep) row.fail(2, kSeconds);
  if (times[worker].emplace(step, seconds).second) return;
  throw data_error("{}:{}:1: found worker {} and step {} again, expected them once", path,
                   row.line(), worker, step);
}

void check_all_steps(const TimesOfSteps& times, const std::string& path) {
  if (times.size() > kMostWorkers) {
    throw data_error("{}: found {} workers, expected at most {}", path, times.size(), kMostWorkers);
  }
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

Timeline read_step_times(const std::string& path, std::string_view text,
                         const std::string& columns) {
  TimesOfSteps times;
  const double unit = columns.empty() ? 1 : unit_of_columns(path, columns);
  CsvRows rows(text, path, columns.empty() ? kStepTimeColumns : columns, !columns.empty());
  while (rows.next()) add_step_time(times, rows, path, unit);
  if (times.empty()) {
    throw data_error("{}: found no step, expected a timeline or lines {}", path, kStepTimeColumns);
  }
  check_all_steps(times, path);
  Timeline result{.path = path, .workers = static_cast<int>(times.size())};
  for (int rank = 0; rank < result.workers; ++rank) {
    result.processes.push_back({{rank, fmt::format("worker {}", rank), true, 0, {}}});
  }
  std::uint64_t zeros = 0;
  for (std::uint64_t step = 0; step < times.begin()->second.size(); ++step) {
    const Seconds begin = result.elapsed;
    for (const auto& [worker, of_worker] : times) {
      result.elapsed = std::max(result.elapsed, begin + Seconds(of_worker.at(step)));
    }
    for (const auto& [worker, of_worker] : times) {
      const Seconds end = begin + Seconds(of_worker.at(step));
      zeros += of_worker.at(step) == 0 ? 1 : 0;
      std::deque<RecordedCall>& ranges = result.processes[at(worker)].ranges;
      ranges.push_back({{.category = "compute", .name = "step"},
                        {.begin = begin, .end = end, .steps = step + 1},
                        {}});
      ranges.push_back({{.category = "communicate",
                         .name = "barrier",
                         .kind = CallKind::collective,
                         .rank = worker},
                        {.begin = end,
                         .end = result.elapsed,
                         .wait = result.elapsed - end,
                         .steps = step + 1,
                         .number = step},
                        {}});
    }
  }
  constexpr std::string_view kHint = "was their clock too coarse, or the unit another one?";
  if (result.elapsed == Seconds(0)) {
    throw with_hint(data_error("{}: found steps of 0 s alone, expected some time", path),
                    std::string(kHint));
  }
  if (zeros > 0) warn("{}: {} steps take 0 s: {}", path, zeros, kHint);
  return result;
}

}  // namespace hetsgd
