// Devices of clusters in real time: the --devices list, and which cores each worker gets.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/core_map.hpp"
#include "core/host.hpp"  // available_cores()
#include "linalg/convolution_kernels.hpp"
#include "linalg/device.hpp"

namespace hetsgd {

struct DeviceSpec {
  std::string text;  // "cpu:2", "cuda:0 (NVIDIA H200)"
  int cores = 1;     // a GPU's host side takes one
  int gpu = -1;      // -1: a CPU device
};

// "cuda:0", "cuda:1", ...: every GPU, for `entry` of --devices, which the error names. Throws
// Error(device) if there is none.
std::vector<std::string> all_gpus(std::string_view entry);

// The GPUs of those workers that have one, for an --all-reduce between GPUs. Throws Error(usage) if
// no worker has one.
std::vector<int> gpus_for_all_reduce(const std::vector<DeviceSpec>& devices);

// The devices named in entries such as "cpu:2" or "cpu:1,cuda:0", one text each. Commas split an
// entry; "cpu:1*8" is eight of them, and "cuda:all" becomes every GPU. Throws Error(usage) for a
// bad number of times, Error(device) for cuda:all without a GPU.
std::vector<std::string> split_devices(const std::vector<std::string>& entries);

// One device per worker from entries as above: cpu, cpu:N, cuda:N, the same GPU as often as wanted.
// If there are fewer devices than workers, the last one repeats; none at all is cpu:1. Throws
// Error(usage) for another kind, a bad number, or more devices than workers. Throws Error(device)
// for a missing GPU, or for a worker with more cores than `available_cores`.
std::vector<DeviceSpec> parse_devices(const std::vector<std::string>& entries, int workers,
                                      int available_cores);

// The rest says how a GPU computes.
std::unique_ptr<Device> make_device(const DeviceSpec& spec, Precision precision,
                                    ConvolutionLibrary convolutions);

// The GPU's number in a text such as "cuda:1 (NVIDIA H200)"; -1: not a GPU.
int gpu_of(std::string_view text);

// Which cores each worker is pinned to, ascending: its own ones, none shared. The workers get them
// in the given order. If there are not enough physical cores for that, a worker gets the hardware
// threads of its own physical core before any other core, so that few workers share one. All empty
// when the workers ask for more cores than there are: then nobody is pinned.
std::vector<std::vector<int>> assign_cores(const std::vector<DeviceSpec>& devices,
                                           const CoreOrder& order);

// Restricts the calling thread to `cores`. False: the system refused.
bool pin_to(const std::vector<int>& cores);

// Text of a device and its cores: "cpu:1@core0", "cpu:2@core0,1", "cpu:1@unpinned".
std::string device_text(const DeviceSpec& spec, const std::vector<int>& pinned);

}  // namespace hetsgd
