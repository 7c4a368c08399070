// The machine of a run in virtual time: what `sim` charges the workers for.
#pragma once

#include <algorithm>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "core/rank_index.hpp"
#include "memory/step_times.hpp"
#include "training/record.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

struct SimulatedMachine {
  std::vector<DeviceProfile> profiles;  // of the workers, as ClusterOptions has them
  DeviceProfile server_profile;
  NetworkModel network;
  std::vector<DeviceRates> rates = {};  // of each profile, for computation graphs

  const DeviceProfile& profile_of(int rank) const {
    return profiles[std::min(at(rank), profiles.size() - 1)];
  }
};

// What a profile, a built-in name or a file, says of a device that computes a graph. Errors: as
// load_device_profile() has them.
DeviceRates device_rates(const std::string& profile);

// A network's memory on a GPU is planned by the rates of the first of the `profiles` of --profile;
// where the set has them by default, of the built-in one with the GPU's name, if there is one. Other
// models stay as they are.
void plan_memory_of_gpus(Model& model, const std::string& profiles, const OptionSet& set);

// Errors: usage and data, as the options' files have them.
SimulatedMachine load_simulated_machine(const TrainOptions& options, int workers);

// Takes the longest of a step on any of the profiles; `work` says what it is on a device.
Seconds slowest_step(const SimulatedMachine& machine,
                     const std::function<Work(const DeviceRates&)>& work);

// Fills in what the result's `cluster` says of it. device_profile is the profile of all workers; of
// several profiles a list, each with the ranks that have it as `workers`: "0-3;8".
void describe_machine(const SimulatedMachine& machine, int workers, Record& record);

}  // namespace hetsgd
