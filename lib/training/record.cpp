#include "training/record.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <limits>

#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {

double CurvePoint::test_loss() const {
  return metric_of(*this, kTestLoss).value_or(std::numeric_limits<double>::quiet_NaN());
}

std::optional<double> metric_of(const CurvePoint& point, const std::string& metric) {
  if (metric == kTrainLoss) return point.train_loss;
  for (const MetricValue& each : point.metrics) {
    if (each.metric->key() == metric) return each.value;
  }
  return std::nullopt;
}

std::optional<double> accuracy_of(const CurvePoint& point) {
  for (const MetricValue& each : point.metrics) {
    if (each.metric->higher_is_better()) return each.value;
  }
  return std::nullopt;
}

namespace {

// A point as it is saved: the key of a metric stands for it.
struct SavedPoint {
  CurvePoint point{};
  std::vector<std::string> keys{};
  std::vector<double> values{};

  explicit SavedPoint(const CurvePoint& from) : point(from) {
    for (const MetricValue& metric : from.metrics) {
      keys.push_back(metric.metric->key());
      values.push_back(metric.value);
    }
  }
  SavedPoint() = default;

  void fields(Archive& fields) {
    fields("time", point.time);
    fields("samples", point.samples_count);
    fields("epoch", point.epoch_num);
    fields("updates", point.updates);
    fields("bytes_sent", point.bytes_sent);
    fields("train_loss", point.train_loss);
    fields("no_batch", point.no_batch);
    fields("prepare", point.prepare);
    fields("measure_begin", point.measure_begin_s);
    fields("wall", point.wall_s);
    fields("metrics", keys);
    fields("values", values);
  }

  CurvePoint loaded() const {
    CurvePoint result = point;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto found =
          std::ranges::find(metrics(), keys[i], [](const Metric* each) { return each->key(); });
      if (found == metrics().end()) {
        throw data_error("the saved run has measured {}, which is no metric", keys[i]);
      }
      result.metrics.push_back({.metric = *found, .value = values.at(i)});
    }
    return result;
  }
};

}  // namespace

void PhaseTimes::loaded(double seconds) {
  load_s = own_load_s_ = seconds;
  loaded_at_ = HostClock::now();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  began_unix_s = std::chrono::duration<double>(now).count() - seconds;
}

void PhaseTimes::begin_training() {
  settle();
  training_ = true;
}

void PhaseTimes::settle() {
  total_s = wall_s(HostClock::now());
  double& running = training_ ? train_s : init_s;
  // The maximum keeps rounding of the sums from making it negative.
  running = std::max(0.0, total_s - (sum_s() - running));
}

double PhaseTimes::wall_s(HostClock::time_point now) const {
  return before_s_ + own_load_s_ + std::chrono::duration<double>(now - loaded_at_).count();
}

void PhaseTimes::fields(Archive& fields) {
  std::vector<double> times = {load_s, init_s, train_s, prepare_s, eval_s, record_s, checkpoint_s};
  double total = total_s;
  fields("times", times);
  fields("total", total);
  fields("began_unix", began_unix_s);
  if (!fields.is_loading()) return;
  before_s_ = total;
  auto time = times.begin();
  for (double* const mine :
       {&load_s, &init_s, &train_s, &prepare_s, &eval_s, &record_s, &checkpoint_s}) {
    *mine += *time++;
  }
}

double Record::tokens_per_sample() const {
  if (!train || train->tokens.vocabulary == 0) return 0;
  const DatasetTotals totals = train->totals();
  return static_cast<double>(totals.frames) / static_cast<double>(totals.rows);
}

void Record::fields(Archive& fields) {
  nlohmann::json counts = nlohmann::json::object();
  for (const auto& [name, values] : histograms) {
    for (const auto& [value, count] : values) counts[name].push_back({value, count});
  }
  std::uint64_t points = curve.size();
  fields("points", points);
  std::vector<CurvePoint> loaded;
  for (std::uint64_t i = 0; i < points; ++i) {
    SavedPoint point = fields.is_loading() ? SavedPoint() : SavedPoint(curve[i]);
    fields(fmt::format("point{}", i), point);
    if (fields.is_loading()) loaded.push_back(point.loaded());
  }
  if (fields.is_loading()) curve = std::move(loaded);
  fields("segments", segments);
  fields("failures", failures);
  fields("events", events);
  fields("histograms", counts);
  fields("warnings", warnings);
  fields("phases", phases);
  fields("elapsed", elapsed);
  fields("evaluation_device", evaluation_device);
  fields("started_at", started_at);
  fields("resumes", resumes);
  if (!fields.is_loading()) return;
  histograms.clear();
  for (const auto& [name, values] : counts.items()) {
    for (const auto& pair : values) {
      histograms[name][pair[0].get<std::int64_t>()] = pair[1].get<std::uint64_t>();
    }
  }
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  const std::size_t n = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return std::string(text, n);
}

std::string to_string(Status status) {
  static constexpr std::array<const char*, 7> kNames = {
      "running", "completed", "target_reached", "diverged", "aborted", "failed", "time_limit"};
  return kNames[static_cast<std::size_t>(status)];
}

}  // namespace hetsgd
