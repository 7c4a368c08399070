#include "training/replay/work_times.hpp"

#include <algorithm>
#include <cmath>

#include "cluster/calibrate.hpp"
#include "core/json_fields.hpp"
#include "core/rank_index.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

// More samples do not change a fit of three unknowns.
constexpr std::size_t kMostFitSamples = 20'000;

}  // namespace

WorkTimes::WorkTimes(const Timeline& timeline) {
  if (timeline.virtual_time && !timeline.device_profile.is_null()) {
    take_profiles(timeline);
  } else {
    fit(timeline);
  }
}

void WorkTimes::take_profiles(const Timeline& timeline) {
  by_rank_.resize(at(timeline.workers));
  const std::string place = timeline.path + ":1: device_profile";
  const auto read = [&](nlohmann::json profile) {
    profile.erase("workers");
    return read_device_profile(JsonFields(std::make_shared<const JsonDocument>(
        JsonDocument{.path = place, .tree = std::move(profile)})));
  };
  if (timeline.device_profile.is_array()) {
    for (const nlohmann::json& each : timeline.device_profile) {
      const std::string ranks = each.value("workers", "");
      for (const int rank : parse_rank_set(place + ": workers", ranks, timeline.workers)) {
        by_rank_[at(rank)] = read(each);
      }
    }
  } else {
    by_rank_.assign(at(timeline.workers), read(timeline.device_profile));
  }
  if (timeline.config.value("precision", "") == "bf16") precision_ = Precision::bf16;
  if (timeline.charge.is_object()) {
    vector_scale_ = timeline.charge.value("parameter_ratio", 1.0);
    given_steps_ = timeline.charge.contains("mean_step_s");
  }
}

void WorkTimes::fit(const Timeline& timeline) {
  std::map<std::string, std::vector<CalibrationSample>> samples;
  for (const TraceLine& line : timeline.processes) {
    for (const RecordedCall& range : line.ranges) {
      const Work& work = range.work;
      const bool stated = work.launches > 0 || work.operations > 0 || work.bytes > 0;
      if (range.category != "compute" || !stated || own_seconds(range) <= 0) continue;
      samples[range.name].push_back({work, Seconds(own_seconds(range))});
    }
  }
  for (auto& [name, all] : samples) {
    constexpr std::size_t kFewestSamples = 3;
    if (all.size() < kFewestSamples) continue;
    const std::size_t stride = (all.size() + kMostFitSamples - 1) / kMostFitSamples;
    std::vector<CalibrationSample> some;
    for (std::size_t i = 0; i < all.size(); i += stride) some.push_back(all[i]);
    const CalibrationFit fit = fit_device_profile(some);
    fitted_[name] = {fit.profile, fit.median_error};
    fitted_[name].profile.name = "fitted to " + name;
    fitted_[name].profile.source = timeline.path;
  }
}

double WorkTimes::seconds(int rank, const std::string& name, const Work& work) const {
  double seconds = 0;
  if (!by_rank_.empty()) {
    if (given_steps_ && name != "vector") return 1;
    const bool vector = name == "vector", scaled = vector && vector_scale_ != 1;
    seconds = by_rank_[at(rank)]
                  .seconds(scaled ? work.scaled(vector_scale_) : work,
                           vector ? Precision::fp32 : precision_)
                  .count();
  } else if (const auto found = fitted_.find(name); found != fitted_.end()) {
    seconds = found->second.profile.seconds(work).count();
  }
  return seconds > 0 && std::isfinite(seconds) ? seconds : 1;
}

const DeviceProfile* WorkTimes::profile(int rank) const {
  if (!by_rank_.empty()) return &by_rank_[at(rank)];
  for (const char* name : {"vector", "step"}) {
    if (const auto found = fitted_.find(name); found != fitted_.end())
      return &found->second.profile;
  }
  return nullptr;
}

double WorkTimes::fit_error(const std::string& name) const {
  const auto found = fitted_.find(name);
  return found == fitted_.end() ? 0 : found->second.error;
}

}  // namespace hetsgd
