#include "training/replay/replay_profile.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/json_fields.hpp"
#include "core/logging.hpp"
#include "core/rank_index.hpp"

namespace hetsgd {
namespace {

bool same_work(const Work& a, const Work& b) {
  return a.operations == b.operations && a.bytes == b.bytes && a.launches == b.launches &&
         a.learners == b.learners && a.host_link_bytes == b.host_link_bytes &&
         a.gather_bytes == b.gather_bytes && a.host_gather_bytes == b.host_gather_bytes &&
         a.given_s == b.given_s;
}

template <class Read>
auto read_part(const Timeline& timeline, const char* name, const nlohmann::json& part, Read read)
    -> std::optional<decltype(read(std::declval<const JsonFields&>()))> {
  if (part.is_null()) return std::nullopt;
  return read(JsonFields(std::make_shared<const JsonDocument>(
      JsonDocument{.path = timeline.path + ":1: " + name, .tree = part})));
}

// The stragglers that the recorded run was given. None: there were none, or a file of theirs is not
// there any more.
std::optional<Scenario> injected_into(const Timeline& timeline) {
  if (timeline.stragglers.empty()) return std::nullopt;
  try {
    return Scenario(timeline.stragglers, timeline.workers,
                    timeline.config.value("seed", std::uint64_t{0}));
  } catch (const Error& error) {
    warn("{}: the delays of the recorded stragglers go with the work of a step: {}", timeline.path,
         error.what());
    return std::nullopt;
  }
}

}  // namespace

ReplayProfile::ReplayProfile(const std::string& path, ReplayBy by, int workers)
    : timeline_(read_timeline(path)), by_(by), work_(timeline_), steps_(at(timeline_.workers)) {
  if (workers != timeline_.workers) {
    refuse("--workers", fmt::format("{} with --replay {}", workers, path),
           fmt::format("{}, as in the record", timeline_.workers));
  }
  const std::optional<Scenario> injected = injected_into(timeline_);
  for (int rank = 0; rank < workers; ++rank) {
    read_steps(rank, injected ? &*injected : nullptr);
    if (steps_[at(rank)].empty()) {
      throw data_error("{}: found no step of worker {}, expected at least one", path, rank);
    }
  }
}

void ReplayProfile::read_steps(int rank, const Scenario* injected) {
  for (const RecordedCall& range : timeline_.main_of(rank).ranges) {
    if (range.category != "compute" || range.name != "step") continue;
    const bool exact = range.charged > Seconds(0);
    const Seconds time = exact ? range.charged : range.end - range.begin - range.wait;
    Step step{range.begin, {time, exact ? range.busy : time - range.delay}, range.work};
    if (injected != nullptr && range.steps > 0) {
      const Seconds own(own_seconds(range));
      const Seconds added = injected->stretched(rank, range.steps - 1, range.begin, own) -
                            injected->stretched(rank, std::nullopt, range.begin, own);
      step.added = std::clamp(added, Seconds(0), std::max(range.delay, Seconds(0)));
    }
    steps_[at(rank)].push_back(step);
  }
}

std::optional<std::vector<DeviceProfile>> ReplayProfile::profiles() const {
  std::vector<DeviceProfile> all;
  for (int rank = 0; rank < timeline_.workers; ++rank) {
    const DeviceProfile* const profile = work_.profile(rank);
    if (profile == nullptr) return std::nullopt;
    all.push_back(*profile);
  }
  return all;
}

std::optional<DeviceProfile> ReplayProfile::server_profile() const {
  return read_part(timeline_, "server_profile", timeline_.server_profile, read_device_profile);
}

std::optional<NetworkModel> ReplayProfile::network() const {
  if (!timeline_.virtual_time) return fit_recorded_network(timeline_);
  return read_part(timeline_, "network", timeline_.network, read_network_model);
}

std::vector<double> ReplayProfile::speed() const {
  return timeline_.config.value("speed", std::vector<double>());
}

std::string ReplayProfile::note_on_length(const Record& record) const {
  const bool by_time = by_ == ReplayBy::time && timeline_.elapsed > Seconds(0);
  double times = by_time ? record.elapsed / timeline_.elapsed : 0;
  for (const WorkerRecord& worker : record.workers) {
    const auto steps = static_cast<double>(steps_[at(worker.report.rank)].size());
    if (by_time) break;
    times = std::max(times, static_cast<double>(worker.report.breakdown.steps) / steps);
  }
  constexpr double kRounding = 1e-6;
  if (times <= 1 + kRounding) return "";
  return fmt::format("--replay: the run is {:.3g} times as long as {}, which starts over {} times",
                     times, timeline_.path, std::ceil(times - kRounding) - 1);
}

const ReplayProfile::Step& ReplayProfile::recorded(
    const ClusterOptions::StepRequest& request) const {
  const std::vector<Step>& steps = steps_[at(request.worker)];
  if (by_ == ReplayBy::iteration) return steps[request.iteration % steps.size()];
  const double period = timeline_.elapsed.count();
  const Seconds now(period > 0 ? std::fmod(request.now.count(), period) : 0);
  const auto next = std::ranges::upper_bound(steps, now, {}, &Step::begin);
  return next == steps.begin() ? steps.front() : *std::prev(next);
}

ClusterOptions::StepTimes ReplayProfile::step(const ClusterOptions::StepRequest& request) const {
  const Step& step = recorded(request);
  if (same_work(step.work, request.work)) return step.times;
  const double scale = work_.seconds(request.worker, "step", request.work) /
                       work_.seconds(request.worker, "step", step.work);
  return {(step.times.time - step.added) * scale + step.added, step.times.busy * scale};
}

}  // namespace hetsgd
