// The machine of a run in virtual time: what `sim` charges the workers for.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "cluster/cluster.hpp"
#include "training/record.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

struct SimulatedMachine {
  std::vector<DeviceProfile> profiles;  // of the workers, as ClusterOptions has them
  DeviceProfile server_profile;
  NetworkModel network;
};

// Errors: usage and data, as the options' files have them.
SimulatedMachine load_simulated_machine(const TrainOptions& options, int workers);

// By profiles, speeds and links no worker differs from another.
bool workers_are_equal(const SimulatedMachine& machine, const std::vector<double>& speeds,
                       int workers);

// Takes the longest of a step of this work on any of the profiles.
Seconds slowest_step(const SimulatedMachine& machine, const Work& work);

// Fills in what the result's `cluster` says of it. device_profile is the profile of all workers; of
// several profiles a list, each with the ranks that have it as `workers`: "0-3;8".
void describe_machine(const SimulatedMachine& machine, int workers, Record& record);

}  // namespace hetsgd
