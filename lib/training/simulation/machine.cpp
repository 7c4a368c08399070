#include "training/simulation/machine.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cluster/profile.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {

namespace {

nlohmann::json profiles_json(const SimulatedMachine& machine, int workers) {
  std::vector<std::pair<const DeviceProfile*, std::vector<int>>> kinds;
  for (int rank = 0; rank < workers; ++rank) {
    const DeviceProfile& mine = machine.profile_of(rank);
    auto kind = std::ranges::find_if(kinds, [&](const auto& each) { return *each.first == mine; });
    if (kind == kinds.end()) kind = kinds.insert(kind, {&mine, {}});
    kind->second.push_back(rank);
  }
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [profile, ranks] : kinds) {
    list.push_back(nlohmann::json::parse(to_json_text(*profile)));
    if (kinds.size() == 1) return list.front();
    list.back()["workers"] = format_rank_set(ranks);
  }
  return list;
}

// The rates of the profiles that --profile names, at the run's precision.
std::vector<DeviceRates> rates_of(const std::vector<DeviceProfile>& profiles,
                                  const TrainOptions& options) {
  std::vector<std::pair<DeviceProfile, DeviceRates>> kinds;
  for (const std::string& name : device_profile_names(options.profile)) {
    kinds.emplace_back(load_device_profile(name), device_rates(name, options.precision));
  }
  std::vector<DeviceRates> rates;
  for (const DeviceProfile& profile : profiles) {
    const auto kind =
        std::ranges::find_if(kinds, [&](const auto& each) { return each.first == profile; });
    HETSGD_CHECK(kind != kinds.end());
    rates.push_back(kind->second);
  }
  return rates;
}

}  // namespace

DeviceRates device_rates(const std::string& profile, Precision precision) {
  const GraphRates graph = load_graph_rates(profile);
  return {.seconds = [device = load_device_profile(profile),
                      precision](const Work& work) { return device.seconds(work, precision); },
          .half_channels = graph.half_channels,
          .half_depth = graph.half_depth,
          .link_latency_s = graph.link_latency_s,
          .link_bytes_per_s = graph.link_bytes_per_s};
}

void plan_memory_of_gpus(Model& model, const TrainOptions& options, const OptionSet& set) {
  if (!model.is_planned()) return;
  const bool by_default = set.find("profile")->source == OptionSource::default_value;
  const std::string first = device_profile_names(options.profile).front();
  model.plan_by([=, precision = options.precision](const std::string& gpu) {
    return device_rates(by_default ? builtin_profile_of(gpu).value_or(first) : first, precision);
  });
}

SimulatedMachine load_simulated_machine(const TrainOptions& options, int workers) {
  SimulatedMachine machine{
      .profiles = load_device_profiles(options.profile, workers),
      .server_profile = load_device_profile(options.server_profile, "--server-profile"),
      .network = load_network_model(options.network)};
  machine.rates = rates_of(machine.profiles, options);
  if (options.replay.empty()) return machine;
  machine.replay =
      std::make_shared<const ReplayProfile>(options.replay, options.replay_by, workers);
  machine.profiles = machine.replay->profiles().value_or(machine.profiles);
  machine.server_profile = machine.replay->server_profile().value_or(machine.server_profile);
  machine.network = machine.replay->network().value_or(machine.network);
  return machine;
}

void replay_on_cluster(const SimulatedMachine& machine, ClusterOptions& options) {
  if (!machine.replay) return;
  options.speed = machine.replay->speed();
  options.recorded_step = [replay = machine.replay](const ClusterOptions::StepRequest& request) {
    return replay->step(request);
  };
}

Seconds slowest_step(const SimulatedMachine& machine,
                     const std::function<Work(const DeviceRates&)>& work) {
  Seconds slowest{0};
  for (const DeviceRates& rates : machine.rates) {
    slowest = std::max(slowest, rates.seconds(work(rates)));
  }
  return slowest;
}

void describe_machine(const SimulatedMachine& machine, int workers, Record& record) {
  record.device_profile = profiles_json(machine, workers);
  record.server_profile = nlohmann::json::parse(to_json_text(machine.server_profile));
  record.network = nlohmann::json::parse(to_json_text(machine.network));
}

std::vector<std::string> clock_warnings(const SimulatedMachine& machine,
                                        const TrainOptions& options, const Record& record) {
  std::vector<std::string> warnings;
  const std::string note = machine.replay ? machine.replay->note_on_length(record) : "";
  if (!note.empty()) warnings.push_back(note);
  const auto on_cores = [&](const DeviceProfile& profile) { return profile.in_host_memory(); };
  if (options.host_cores && std::ranges::none_of(machine.profiles, on_cores)) {
    warnings.push_back(
        "--host-cores: all workers have the profile of a GPU, so only services and copies share "
        "the cores");
  }
  const auto no_bf16_rate = std::ranges::find_if(
      machine.profiles, [](const DeviceProfile& each) { return !each.bf16_operations_per_s; });
  if (options.precision == Precision::bf16 && no_bf16_rate != machine.profiles.end()) {
    warnings.push_back(fmt::format(
        "--precision bf16: the profile {} has no bf16_operations_per_s, so its steps take the "
        "time of fp32; hetsgd calibrate measures both rates",
        no_bf16_rate->name));
  }
  for (const WorkerRecord& worker : record.workers) {
    const TimeBreakdown& spent = worker.report.breakdown;
    if (spent.steps == 0) continue;
    const Seconds step = (spent.compute - spent.delay_achieved) / static_cast<double>(spent.steps);
    const double least_s = machine.profile_of(worker.report.rank).least_step_s.value_or(0);
    const Seconds least = std::max(Seconds(least_s), machine.network.wake);
    if (step >= least) continue;
    warnings.push_back(fmt::format(
        "the steps of worker {} take {} on average, less than the {} that the calibration of "
        "--profile and --network can predict: waking threads takes as long; use a larger "
        "--batch-size, or compare on a real cluster",
        worker.report.rank, format_seconds(step), format_seconds(least)));
    break;
  }
  return warnings;
}

}  // namespace hetsgd
