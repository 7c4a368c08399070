// The machine of a run in virtual time, which sets the times that `sim` charges.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "core/rank_index.hpp"
#include "memory/plan.hpp"
#include "training/record.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

struct SimulatedMachine {
  std::vector<DeviceProfile> profiles;  // of the workers by rank; the last repeats
  DeviceProfile server_profile;
  NetworkModel network;
  std::vector<DeviceRates> rates = {};                    // one per profile, for computation graphs
  std::shared_ptr<const ReplayProfile> replay = nullptr;  // --replay

  const DeviceProfile& profile_of(int rank) const {
    return profiles[std::min(at(rank), profiles.size() - 1)];
  }
};

// The rates of a graph's computation on the device of a profile (built-in name or file), with
// products in `precision`. Throws what load_device_profile() throws.
DeviceRates device_rates(const std::string& profile, Precision precision = Precision::fp32);

// Sets the rates that a network uses to plan its memory on a GPU: those of the first profile of
// --profile at the run's precision. If the user has not set --profile, a built-in profile with the
// GPU's name is preferred. Other models are left unchanged.
void plan_memory_of_gpus(Model& model, const TrainOptions& options, const OptionSet& set);

// Loads the machine that the options describe. Throws Error(usage) or Error(data) as reading the
// files of the options does.
SimulatedMachine load_simulated_machine(const TrainOptions& options, int workers);

// Sets the parts of a simulated cluster that a replayed record decides; none without --replay.
void replay_on_cluster(const SimulatedMachine& machine, ClusterOptions& options);

// The time of a step on the slowest of the profiles. `work` gives the work of the step on a device.
Seconds slowest_step(const SimulatedMachine& machine,
                     const std::function<Work(const DeviceRates&)>& work);

// Fills in the machine's part of the result's `cluster`. device_profile is the profile of all
// workers. With several profiles it is a list, each with the ranks that have it as `workers`:
// "0-3;8".
void describe_machine(const SimulatedMachine& machine, int workers, Record& record);

// Warnings about the clock of a simulated run that is over. It warns of steps that are shorter than
// the shortest calibrated one, or than a wake-up of a thread, of bf16 at the rate of fp32, and of
// --host-cores if no worker computes on a core.
std::vector<std::string> clock_warnings(const SimulatedMachine& machine,
                                        const TrainOptions& options, const Record& record);

}  // namespace hetsgd
