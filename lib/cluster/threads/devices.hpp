// Devices of the threads cluster: the --devices list, and which cores each worker gets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "linalg/device.hpp"

namespace hetsgd::threads {

struct DeviceSpec {
  std::string text;  // "cpu:2"
  int cores = 1;
};

// One device per worker from entries such as "cpu", "cpu:2" or "cpu:1,cpu:2" (commas split an
// entry); fewer devices than workers repeat the last, none at all is cpu:1. Errors: usage (another
// kind, a bad number, more devices than workers); device (cuda, which this binary lacks, or more
// cores for one worker than `available_cores`).
std::vector<DeviceSpec> parse_devices(const std::vector<std::string>& entries, int workers,
                                      int available_cores);

std::unique_ptr<Device> make_device(const DeviceSpec& spec);

// The cores that this process may use (its affinity mask), ascending.
std::vector<int> available_cores();

// Which cores each worker is pinned to: its own ones in the order of `cores`, none shared. All
// empty when the workers ask for more cores than there are: then nobody is pinned.
std::vector<std::vector<int>> assign_cores(const std::vector<DeviceSpec>& devices,
                                           const std::vector<int>& cores);

// Restricts the calling thread to `cores`. False: the system refused.
bool pin_to(const std::vector<int>& cores);

// "cpu:1@core0", "cpu:2@core0,1", "cpu:1@unpinned".
std::string device_text(const DeviceSpec& spec, const std::vector<int>& pinned);

}  // namespace hetsgd::threads
