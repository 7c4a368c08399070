#include "cluster/devices.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "core/error.hpp"
#include "core/text.hpp"
#include "linalg/cuda/cuda_device.hpp"

namespace hetsgd {

namespace {

// The kernel's masks can be larger than cpu_set_t on big machines; this many cores are looked at.
constexpr int kMaxCores = 8192;

constexpr int kMostGpus = 1024;

constexpr int kMostRepeats = 1 << 16;  // most repeats of one entry

DeviceSpec parse_gpu(std::string_view number) {
  const auto gpu = static_cast<int>(parse_integer("--devices cuda:N", number, 0, kMostGpus));
  try {
    return {.text = cuda_device_name(gpu), .cores = 1, .gpu = gpu};
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("--devices: {}", error.what()), error.hint());
  }
}

DeviceSpec parse_device(std::string_view text, int available) {
  const auto parts = split(text, ':');
  const std::string_view kind = parts.front();
  if (kind == "cuda" && parts.size() == 2) return parse_gpu(parts[1]);
  if (kind != "cpu" || parts.size() > 2) {
    const std::vector<std::string> kinds{"cpu", "cuda"};
    refuse("--devices", quote(text), "cpu:N (N cores), cuda:N or cuda:all",
           did_you_mean(kind, kinds));
  }
  DeviceSpec spec;
  if (parts.size() == 2)
    spec.cores = static_cast<int>(parse_integer("--devices cpu:N", parts[1], 1, kMaxCores));
  spec.text = fmt::format("cpu:{}", spec.cores);
  if (spec.cores > available) {
    refuse("--devices", spec.text,
           fmt::format("at most the {} cores that this process may use", available),
           "the affinity mask (taskset, the job's allocation) sets these cores", ExitCode::device);
  }
  return spec;
}

}  // namespace

std::vector<std::string> all_gpus(std::string_view entry) {
  const CudaPlatform platform = cuda_platform();
  if (platform.gpus.empty()) {
    throw with_hint(device_error("--devices: {}: {}", entry, platform.problem),
                    "`hetsgd devices` lists the devices of this machine");
  }
  std::vector<std::string> devices;
  for (const CudaGpu& gpu : platform.gpus) devices.push_back(fmt::format("cuda:{}", gpu.ordinal));
  return devices;
}

std::vector<int> gpus_for_all_reduce(const std::vector<DeviceSpec>& devices) {
  std::vector<int> gpus;
  for (const DeviceSpec& device : devices) {
    if (device.gpu >= 0) gpus.push_back(device.gpu);
  }
  if (gpus.empty()) {
    refuse("--all-reduce", "a method for GPUs where no worker has one",
           "--devices with GPUs, such as cuda:0,cuda:1");
  }
  return gpus;
}

std::vector<std::string> split_devices(const std::vector<std::string>& entries) {
  std::vector<std::string> devices;
  for (const std::string& entry : entries) {
    for (const std::string_view part : split(entry, ',')) {
      std::string_view text = trim(part);
      std::size_t times = 1;
      if (const std::size_t star = text.rfind('*'); star != text.npos) {
        times = static_cast<std::size_t>(
            parse_integer("--devices DEVICE*N", text.substr(star + 1), 1, kMostRepeats));
        text = trim(text.substr(0, star));
      }
      if (text != "cuda:all") {
        devices.insert(devices.end(), times, std::string(text));
        continue;
      }
      if (times > 1) {
        refuse("--devices", quote(part), "cuda:all without a factor, because it means every GPU");
      }
      for (std::string& gpu : all_gpus(text)) devices.push_back(std::move(gpu));
    }
  }
  return devices;
}

std::vector<DeviceSpec> parse_devices(const std::vector<std::string>& entries, int workers,
                                      int available) {
  std::vector<DeviceSpec> devices;
  for (const std::string& text : split_devices(entries)) {
    devices.push_back(parse_device(text, available));
  }
  if (devices.empty()) devices.push_back(parse_device("cpu:1", available));
  const auto p = static_cast<std::size_t>(workers);
  if (devices.size() > p) {
    refuse("--devices", fmt::format("{} devices for {} workers", devices.size(), workers),
           "at most one for each", fmt::format("set --workers {}", devices.size()));
  }
  const DeviceSpec last = devices.back();
  devices.resize(p, last);
  return devices;
}

std::unique_ptr<Device> make_device(const DeviceSpec& spec, Precision precision,
                                    ConvolutionLibrary convolutions) {
  if (spec.gpu < 0) return make_cpu_device<float>(spec.cores, precision);
  return make_cuda_device<float>(spec.gpu,
                                 {.precision = precision, .convolution_library = convolutions});
}

int gpu_of(std::string_view text) {
  constexpr std::string_view kKind = "cuda:";
  int gpu = -1;
  if (text.starts_with(kKind)) {
    std::from_chars(text.data() + kKind.size(), text.data() + text.size(), gpu);
  }
  return gpu;
}

std::vector<std::vector<int>> assign_cores(const std::vector<DeviceSpec>& devices,
                                           const CoreOrder& order) {
  std::vector<std::vector<int>> assigned(devices.size());
  std::size_t wanted = 0;
  for (const auto& device : devices) wanted += static_cast<std::size_t>(device.cores);
  if (wanted > order.cores.size()) return assigned;
  const bool whole = wanted <= std::set(order.physical.begin(), order.physical.end()).size();
  CoreOrder left = order;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    for (std::optional<int> own; std::ssize(assigned[i]) < devices[i].cores;) {
      auto next = left.physical.begin();
      if (own && !whole) next = std::ranges::find(left.physical, *own);
      if (next == left.physical.end()) next = left.physical.begin();
      own = *next;
      const auto core = left.cores.begin() + (next - left.physical.begin());
      assigned[i].push_back(*core);
      left.cores.erase(core);
      left.physical.erase(next);
    }
    std::ranges::sort(assigned[i]);
  }
  return assigned;
}

bool pin_to(const std::vector<int>& cores) {
  const std::size_t bytes = CPU_ALLOC_SIZE(kMaxCores);
  cpu_set_t* mask = CPU_ALLOC(kMaxCores);
  CPU_ZERO_S(bytes, mask);
  for (const int core : cores) CPU_SET_S(static_cast<std::size_t>(core), bytes, mask);
  const bool done = sched_setaffinity(0, bytes, mask) == 0;
  CPU_FREE(mask);
  return done;
}

std::string device_text(const DeviceSpec& spec, const std::vector<int>& pinned) {
  if (pinned.empty()) return spec.text + "@unpinned";
  return fmt::format("{}@core{}", spec.text, fmt::join(pinned, ","));
}

}  // namespace hetsgd
