// hetsgd devices: the devices of this machine for workers, and the profiles that the simulated
// clock can charge.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "calibration.hpp"
#include "cluster/cluster.hpp"
#include "cluster/profile.hpp"
#include "command.hpp"
#include "core/core_map.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "help.hpp"
#include "linalg/cuda/cuda_details.hpp"
#include "linalg/cuda/cuda_device.hpp"
#include "printer.hpp"
#include "result/result.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

json text_or_null(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }
json known(double mhz) { return mhz > 0 ? json(mhz) : json(nullptr); }

json cuda_json(const CudaPlatform& platform) {
  const std::vector<CudaGpuDetails> details = cuda_gpu_details(platform);
  json gpus = json::array(), libraries = json::array();
  for (std::size_t i = 0; i < details.size(); ++i) {
    const CudaGpu& gpu = platform.gpus[i];
    const CudaGpuDetails& more = details[i];
    json peers = json::array();
    for (const int peer : more.peers) peers.push_back(fmt::format("cuda:{}", peer));
    gpus.push_back({{"device", fmt::format("cuda:{}", gpu.ordinal)},
                    {"name", gpu.name},
                    {"memory_bytes", gpu.memory_bytes},
                    {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
                    {"multiprocessors", gpu.multiprocessors},
                    {"pci_bus_id", more.pci_bus_id},
                    {"sm_clock_mhz", known(more.sm.now_mhz)},
                    {"sm_clock_max_mhz", known(more.sm.most_mhz)},
                    {"memory_clock_mhz", known(more.memory.now_mhz)},
                    {"memory_clock_max_mhz", known(more.memory.most_mhz)},
                    {"peers", peers}});
  }
  for (const CudaLibrary& library : cuda_libraries()) {
    libraries.push_back({{"name", library.name},
                         {"purpose", library.purpose},
                         {"needed", library.needed},
                         {"file", text_or_null(library.file)},
                         {"problem", text_or_null(library.problem)}});
  }
  return {{"built_in", platform.built_in},
          {"runtime", text_or_null(platform.runtime)},
          {"driver", text_or_null(platform.driver)},
          {"driver_version", text_or_null(cuda_driver_version())},
          {"problem", text_or_null(platform.problem)},
          {"gpus", gpus},
          {"libraries", libraries}};
}

std::string clock_text(const CudaClock& clock) {
  const auto number = [](double mhz) {
    return mhz > 0 ? fmt::format("{:.0f}", mhz) : std::string("?");
  };
  return fmt::format("{} of {} MHz", number(clock.now_mhz), number(clock.most_mhz));
}

// A table with a cross where a GPU reaches another one's memory without the host.
std::string peer_text(const CudaPlatform& platform, const std::vector<CudaGpuDetails>& details) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < details.size(); ++i) {
    const int ordinal = platform.gpus[i].ordinal;
    Row& row = rows.emplace_back().show("reaches", fmt::format("cuda:{}", ordinal));
    for (const CudaGpu& other : platform.gpus) {
      const bool reaches = std::ranges::count(details[i].peers, other.ordinal) > 0;
      row.show(fmt::format("cuda:{}", other.ordinal), other.ordinal == ordinal ? "-"
                                                      : reaches                ? "yes"
                                                                               : "no");
    }
  }
  return table_of(rows).format(OutputFormat::text);
}

std::string cuda_text(const CudaPlatform& platform) {
  if (platform.gpus.empty()) return fmt::format("  cuda:N   {}\n", platform.problem);
  const std::vector<CudaGpuDetails> details = cuda_gpu_details(platform);
  std::string text;
  for (std::size_t i = 0; i < details.size(); ++i) {
    const CudaGpu& gpu = platform.gpus[i];
    text += fmt::format(
        "  cuda:{}   {}, {}, compute capability {}.{}, {} multiprocessors\n"
        "           PCI {}; clocks now: SM {}, memory {}\n",
        gpu.ordinal, gpu.name, format_bytes(static_cast<double>(gpu.memory_bytes)), gpu.major,
        gpu.minor, gpu.multiprocessors, details[i].pci_bus_id, clock_text(details[i].sm),
        clock_text(details[i].memory));
  }
  const std::string driver = cuda_driver_version();
  text += fmt::format("  built with CUDA {}, the driver{} supports {}\n", platform.runtime,
                      driver.empty() ? "" : " " + driver, platform.driver);
  for (const CudaLibrary& library : cuda_libraries()) {
    text += fmt::format("  {:<8} {} ({})\n", library.name,
                        library.file.empty() ? "not found" : library.file, library.purpose);
  }
  if (details.size() > 1) text += peer_text(platform, details);
  return text;
}

json profile_json(const std::string& name) {
  return json::parse(to_json_text(load_device_profile(name)));
}
json network_json(const std::string& name) {
  return json::parse(to_json_text(load_network_model(name)));
}

json devices_json() {
  const json host = environment_json();
  json result = {{"cpu",
                  {{"device", "cpu:1"},
                   {"model", host["cpu_model"]},
                   {"cores", host["cores"]},
                   {"cores_available", host["cores_available"]},
                   {"topology", host["topology"]},
                   {"memory_bytes", host["memory_bytes"]},
                   {"products", host["products"]}}},
                 {"cuda", cuda_json(cuda_platform())},
                 {"clusters", cluster_names()},
                 {"profiles", json::array()},
                 {"networks", json::array()}};
  for (const std::string& name : builtin_device_profiles()) {
    result["profiles"].push_back(profile_json(name));
  }
  for (const std::string& name : builtin_network_models()) {
    result["networks"].push_back(network_json(name));
  }
  return result;
}

std::string devices_text() {
  const json host = environment_json();
  std::string text = fmt::format(
      "Real (--cluster threads --devices ...):\n"
      "  cpu:N    N cores of {}; {} of {} usable, {}\n"
      "           {}\n"
      "           products: {}\n"
      "{}\n",
      processor_of(host), host["cores_available"].dump(), host["cores"].dump(),
      format_bytes(host["memory_bytes"].get<double>()), topology_text(machine_cores().topology()),
      products_text(), cuda_text(cuda_platform()));
  const auto number = [](double value) { return fmt::format("{:.3g}", value); };
  Table profiles({"--profile", "TFLOP/s", "GB/s", "launch us", "memory GiB", "host GB/s"});
  for (const std::string& name : builtin_device_profiles()) {
    const DeviceProfile p = load_device_profile(name);
    profiles.add({name, number(p.operations_per_s / 1e12), number(p.bytes_per_s / 1e9),
                  number(p.launch_overhead_s * 1e6), number(p.memory_bytes / 0x1p30),
                  p.host_link_bytes_per_s ? number(*p.host_link_bytes_per_s / 1e9) : "-"});
  }
  Table networks({"--network", "GB/s", "latency us", "server GB/s"});
  for (const std::string& name : builtin_network_models()) {
    const NetworkModel n = load_network_model(name);
    networks.add({name, number(n.bytes_per_s / 1e9), number(n.latency.count() * 1e6),
                  number(n.server_bytes_per_s / 1e9)});
  }
  return text + "Simulated (--cluster sim):\n" + profiles.format(OutputFormat::text) + "\n" +
         networks.format(OutputFormat::text);
}

// A built-in profile or network, as JSON.
json find_builtin(const std::string& name) {
  std::vector<std::string> names = builtin_device_profiles();
  if (std::ranges::count(names, name) > 0) return profile_json(name);
  const std::vector<std::string> networks = builtin_network_models();
  if (std::ranges::count(networks, name) > 0) return network_json(name);
  names.insert(names.end(), networks.begin(), networks.end());
  const std::string hint = did_you_mean(name, names);
  refuse("devices", quote(name), "a simulated device or network",
         hint.empty() ? "hetsgd devices lists them" : hint);
}

// The values of a profile or network, whose units end their names, and their source.
std::string profile_text(const json& builtin) {
  std::string text = fmt::format("{}\n\n", builtin["name"].get<std::string>());
  for (const auto& [key, value] : builtin.items()) {
    if (key != "name" && key != "source") text += fmt::format("{:<24}{}\n", key, value.dump());
  }
  return text + "\n" + wrapped(builtin["source"].get<std::string>(), 0) + "\n";
}

class Devices final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "devices",
            .summary = "list the devices of this machine, simulated devices and networks",
            .examples = {"hetsgd devices", "hetsgd devices v100", "hetsgd devices --json"},
            .operands = "[NAME]"};
  }
  void declare(OptionSet& set) override { printer_.declare_json(set); }
  int run(OptionSet&, const std::vector<std::string>& operands) override {
    const json found = operands.empty() ? json() : find_builtin(operands[0]);
    if (printer_.json()) {
      printer_.print(operands.empty() ? devices_json() : found);
    } else {
      printer_.print(operands.empty() ? devices_text() : profile_text(found));
    }
    return 0;
  }

 private:
  Printer printer_;
};

}  // namespace

const bool devices_registered = register_command<Devices>(CommandGroup::machines, 2);

}  // namespace hetsgd
