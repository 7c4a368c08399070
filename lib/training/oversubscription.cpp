#include "training/oversubscription.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <thread>

#include "core/text.hpp"
#include "linalg/cuda/cuda_device.hpp"

namespace hetsgd {

namespace {

namespace fs = std::filesystem;
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// "cpu:2" takes two cores. A GPU's host side, or a rank of services, takes one.
int cores_of(std::string_view device) {
  constexpr std::string_view kKind = "cpu:";
  int cores = 1;
  if (device.starts_with(kKind)) {
    std::from_chars(device.data() + kKind.size(), device.data() + device.size(), cores);
  }
  return cores;
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The quota of one folder of the hierarchy, version 2 or 1, in cores.
double quota_of(const fs::path& folder) {
  const std::string line = first_line(folder / "cpu.max");  // "200000 100000", "max 100000"
  const auto parts = split(line, ' ');
  auto quota = number(parts[0]);
  auto period = parts.size() > 1 ? number(parts[1]) : std::nullopt;
  if (!period) {
    quota = number(first_line(folder / "cpu.cfs_quota_us"));  // -1: none
    period = number(first_line(folder / "cpu.cfs_period_us"));
  }
  return quota && period && *quota > 0 && *period > 0 ? *quota / *period : kUnlimited;
}

// The number of runnable threads, including this one: the 1 of "0.20 0.18 0.12 1/80 11206". The
// load averages before it cover a minute and more, so they would include the run before this one.
std::optional<double> running_threads() {
  const std::string line = first_line("/proc/loadavg");
  const auto parts = split(line, ' ');
  return parts.size() < 4 ? std::nullopt : number(split(parts[3], '/')[0]);
}

// The mean over a few moments, without this thread. The run's other processes on this host are not
// counted: at the start and end they wait for each other, some of them without sleeping.
std::optional<double> threads_beside(const ProcessPlace& here) {
  constexpr int kMoments = 10;
  double sum = 0;
  for (int i = 0; i < kMoments; ++i) {
    const std::optional<double> running = running_threads();
    if (!running) return std::nullopt;
    sum += std::max(0.0, *running - here.local_size);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return sum / kMoments;
}

// The cores of one host: the physical core of each, and the ranks that are pinned to a physical
// core.
struct CoreUsers {
  std::map<int, int> physical;
  std::map<int, std::set<int>> users;
};

void count_physical_cores(const CoreUsers& cores, int workers, HostShare& share) {
  std::set<int> physical, sharing;
  for (const auto& core : cores.physical) physical.insert(core.second);
  for (const auto& [core, ranks] : cores.users) {
    if (ranks.size() > 1) sharing.insert(ranks.begin(), ranks.lower_bound(workers));
  }
  share.physical = static_cast<int>(physical.size());
  share.sharing = static_cast<int>(sharing.size());
}

// A worker runs on the host that its cluster plans for it; a process without one runs services.
std::vector<HostShare> shares_of(const Cluster& cluster) {
  ProcessGroup& processes = processes_of(cluster.name());
  std::map<std::string, HostShare> by_host;
  std::map<std::string, CoreUsers> cores;
  for (const ProcessPlace& place : processes.places()) {
    by_host[place.host].wanted += place.rank >= cluster.size();
    for (std::size_t i = 0; i < place.order.cores.size(); ++i) {
      cores[place.host].physical[place.order.cores[i]] = place.order.physical[i];
    }
  }
  for (int rank = 0; rank < std::max(cluster.size(), processes.size()); ++rank) {
    const WorkerReport plan = cluster.planned(rank);
    CoreUsers& host = cores[plan.host];
    for (const int core : plan.cores) host.users[host.physical[core]].insert(rank);
    if (rank >= cluster.size()) continue;
    HostShare& share = by_host[plan.host];
    ++share.workers;
    share.wanted += cores_of(cluster.device_name(rank));
  }
  std::vector<HostShare> shares;
  for (auto& [host, share] : by_host) {
    share.host = host;
    share.available = static_cast<double>(cores[host].physical.size());
    count_physical_cores(cores[host], cluster.size(), share);
    // The control groups of other hosts are not known here.
    if (host == processes.place().host) share.available = std::min(share.available, cpu_quota());
    shares.push_back(share);
  }
  return shares;
}

}  // namespace

std::string oversubscription_of(const HostShare& share) {
  const std::string host = share.host.empty() ? "" : share.host + ": ";
  if (share.wanted <= share.available) {
    if (share.sharing == 0) return "";
    return fmt::format(
        "{}{} of {} workers share physical cores ({} in all) with others, so they slow each other "
        "down, and the times of this run are not valid; use fewer workers or smaller --devices",
        host, share.sharing, share.workers, share.physical);
  }
  return fmt::format(
      "{}{} workers need {} cores and may use {:.3g}, so they take turns, and the times of this "
      "run are not valid",
      host, share.workers, share.wanted, share.available);
}

std::vector<std::string> oversubscription_warnings(const Cluster& cluster) {
  if (cluster.is_virtual()) return {};
  std::vector<std::string> warnings;
  for (const HostShare& share : shares_of(cluster)) {
    if (std::string text = oversubscription_of(share); !text.empty())
      warnings.push_back(std::move(text));
  }
  return warnings;
}

std::optional<HostLoad> host_load(const Cluster& cluster) {
  if (cluster.is_virtual()) return std::nullopt;
  const ProcessPlace& here = processes_of(cluster.name()).place();
  const std::vector<HostShare> shares = shares_of(cluster);
  const auto own = std::ranges::find(shares, here.host, &HostShare::host);
  const std::optional<double> threads = threads_beside(here);
  if (!threads || own == shares.end()) return std::nullopt;
  const auto cores = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  return HostLoad{.start = *threads, .idle_cores = std::max(0.0, cores - own->wanted)};
}

std::string finish_host_load(const ProcessPlace& here, HostLoad& load, std::string_view what) {
  load.end = threads_beside(here);
  if (!load.slows_down()) return "";
  return fmt::format(
      "other programs ran on this host: {:.1f} threads at the start, {:.1f} at the end. The "
      "workers leave them {:.3g} cores, so the times of {} are not valid",
      load.start, load.end.value_or(0), load.idle_cores, what);
}

// The quotas of all groups above a group bind it, too. In a container the path is that of the host,
// and only the root of the hierarchy is visible.
double cpu_quota(const std::string& root) {
  double least = kUnlimited;
  std::ifstream groups(fs::path(root) / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto parts = split(line, ':');  // "0::/a/b", "4:cpu,cpuacct:/a/b"
    if (parts.size() < 3) continue;
    const auto controllers = split(parts[1], ',');
    const bool unified = parts[1].empty();
    if (!unified && std::ranges::find(controllers, "cpu") == controllers.end()) continue;
    const fs::path top =
        fs::path(root) / "sys/fs/cgroup" / (unified ? std::string() : std::string(parts[1]));
    for (fs::path group = fs::path(parts[2]).relative_path(); true; group = group.parent_path()) {
      least = std::min(least, quota_of(top / group));
      if (group.empty()) break;
    }
  }
  return least;
}

namespace {

nlohmann::json machine_json(const ProcessGroup& processes, bool service_rank) {
  nlohmann::json nodes = nlohmann::json::array();
  for (const ProcessPlace& rank : processes.places()) {
    auto node = std::ranges::find_if(nodes, [&](const auto& n) { return n["host"] == rank.host; });
    if (node == nodes.end()) {
      nodes.push_back({{"host", rank.host},
                       {"cores", rank.host_cores},
                       {"topology", rank.topology},
                       {"ranks", {}}});
      node = nodes.end() - 1;
    }
    (*node)["ranks"].push_back({{"rank", rank.rank},
                                {"local_rank", rank.local_rank},
                                {"pid", rank.pid},
                                {"cores", rank.cores}});
  }
  nlohmann::json services = nullptr;
  if (service_rank) services = processes.size() - 1;
  return {{"mpi_library", processes.library()},
          {"thread_level", "MPI_THREAD_MULTIPLE"},
          {"cuda_aware", processes.takes_gpu_memory()},
          {"service_rank", std::move(services)},
          {"nodes", std::move(nodes)}};
}

}  // namespace

void describe_hosts(const Cluster& cluster, const TrainOptions& options, Record& record) {
  ProcessGroup& processes = processes_of(cluster.name());
  if (processes.control() != nullptr) {
    record.machine = machine_json(processes, options.service_rank);
  }
  if (first_gpu(cluster) >= 0 && find_model(options.model).info.reads_images) {
    record.convolution_library = convolution_library_version(options.convolution_library);
  }
  record.load = host_load(cluster);
  record.warn(oversubscription_warnings(cluster));
}

int first_gpu(const Cluster& cluster) {
  for (int rank = 0; rank < cluster.size(); ++rank) {
    if (!cluster.runs_here(rank)) continue;
    if (const int gpu = cluster.gpu(rank); gpu >= 0) return gpu;
  }
  return -1;
}

}  // namespace hetsgd
