// hetsgd devices: what workers can run on here, and what the simulated clock can charge.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cluster/cluster.hpp"
#include "cluster/profile.hpp"
#include "commands.hpp"
#include "core/text.hpp"
#include "linalg/cuda/cuda_device.hpp"
#include "result/environment.hpp"
#include "result/table.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

json cuda_json(const CudaPlatform& platform) {
  json gpus = json::array();
  for (const CudaGpu& gpu : platform.gpus) {
    gpus.push_back({{"device", fmt::format("cuda:{}", gpu.ordinal)},
                    {"name", gpu.name},
                    {"memory_bytes", gpu.memory_bytes},
                    {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
                    {"multiprocessors", gpu.multiprocessors}});
  }
  const auto text = [](const std::string& s) { return s.empty() ? json(nullptr) : json(s); };
  return {{"built_in", platform.built_in},
          {"runtime", text(platform.runtime)},
          {"driver", text(platform.driver)},
          {"problem", text(platform.problem)},
          {"gpus", gpus}};
}

std::string cuda_text(const CudaPlatform& platform) {
  if (platform.gpus.empty()) return fmt::format("  cuda:N   {}\n", platform.problem);
  std::string text;
  for (const CudaGpu& gpu : platform.gpus) {
    text += fmt::format("  cuda:{}   {}, {}, compute capability {}.{}, {} multiprocessors\n",
                        gpu.ordinal, gpu.name, format_bytes(static_cast<double>(gpu.memory_bytes)),
                        gpu.major, gpu.minor, gpu.multiprocessors);
  }
  return text + fmt::format("  built with CUDA {}, the driver knows {}\n", platform.runtime,
                            platform.driver);
}

json devices_json() {
  const json host = environment_json();
  json result = {{"cpu",
                  {{"device", "cpu:1"},
                   {"model", host["cpu_model"]},
                   {"cores", host["cores"]},
                   {"cores_available", host["cores_available"]},
                   {"memory_bytes", host["memory_bytes"]}}},
                 {"cuda", cuda_json(cuda_platform())},
                 {"clusters", cluster_names()},
                 {"profiles", json::array()},
                 {"networks", json::array()}};
  for (const std::string& name : builtin_device_profiles()) {
    result["profiles"].push_back(json::parse(to_json_text(load_device_profile(name))));
  }
  for (const std::string& name : builtin_network_models()) {
    result["networks"].push_back(json::parse(to_json_text(load_network_model(name))));
  }
  return result;
}

std::string devices_text() {
  const json host = environment_json();
  std::string text = fmt::format(
      "Real (--cluster threads --devices ...):\n"
      "  cpu:N    N cores of {}; {} of {} usable, {}\n"
      "{}\n",
      host["cpu_model"].is_string() ? host["cpu_model"].get<std::string>() : "an unknown processor",
      host["cores_available"].dump(), host["cores"].dump(),
      format_bytes(host["memory_bytes"].get<double>()), cuda_text(cuda_platform()));
  Table profiles({"--profile", "TFLOP/s", "GB/s", "launch us", "memory GiB"});
  for (const std::string& name : builtin_device_profiles()) {
    const DeviceProfile p = load_device_profile(name);
    profiles.add({name, fmt::format("{:.3g}", p.operations_per_s / 1e12),
                  fmt::format("{:.3g}", p.bytes_per_s / 1e9),
                  fmt::format("{:.3g}", p.launch_overhead_s * 1e6),
                  fmt::format("{:.3g}", p.memory_bytes / 0x1p30)});
  }
  Table networks({"--network", "GB/s", "latency us", "server GB/s"});
  for (const std::string& name : builtin_network_models()) {
    const NetworkModel n = load_network_model(name);
    networks.add({name, fmt::format("{:.3g}", n.bytes_per_s / 1e9),
                  fmt::format("{:.3g}", n.latency.count() * 1e6),
                  fmt::format("{:.3g}", n.server_bytes_per_s / 1e9)});
  }
  return text + "Simulated (--cluster sim):\n" + profiles.format(TableFormat::text) + "\n" +
         networks.format(TableFormat::text);
}

class Devices final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "devices",
            .summary = "devices of this machine, simulated devices and networks",
            .examples = {"hetsgd devices", "hetsgd devices --json"}};
  }
  void declare(OptionSet& set) override { set.add("json", json_, "print JSON"); }
  int run(OptionSet&, const std::vector<std::string>&) override {
    fmt::print("{}", json_ ? devices_json().dump(2) + "\n" : devices_text());
    return 0;
  }

 private:
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_devices() { return std::make_unique<Devices>(); }

}  // namespace hetsgd
