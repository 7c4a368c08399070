#include "training/oversubscription.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "core/text.hpp"

namespace hetsgd {
namespace {

namespace fs = std::filesystem;
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// "cpu:2" takes two; a GPU's host side, or a rank of services, takes one.
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

// Of one folder of the hierarchy, version 2 or 1.
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

// A worker runs on the host that its cluster plans for it; a process without one runs services.
std::vector<HostShare> shares_of(const Cluster& cluster) {
  ProcessGroup& processes = processes_of(cluster.name());
  std::map<std::string, HostShare> by_host;
  std::map<std::string, std::set<int>> cores;
  for (int rank = 0; rank < cluster.size(); ++rank) {
    HostShare& share = by_host[cluster.planned(rank).host];
    ++share.workers;
    share.wanted += cores_of(cluster.device_name(rank));
  }
  for (const ProcessPlace& place : processes.places()) {
    by_host[place.host].wanted += place.rank >= cluster.size();
    cores[place.host].insert(place.cores.begin(), place.cores.end());
  }
  std::vector<HostShare> shares;
  for (auto& [host, share] : by_host) {
    share.host = host;
    share.available = static_cast<double>(cores[host].size());
    // Of the others' control groups nothing is known here.
    if (host == processes.place().host) share.available = std::min(share.available, cpu_quota());
    shares.push_back(share);
  }
  return shares;
}

}  // namespace

std::string oversubscription_of(const HostShare& share) {
  if (share.wanted <= share.available) return "";
  return fmt::format(
      "{}{} workers want {} cores and may use {:.3g}: they take turns, and the times "
      "of this run are no measurement",
      share.host.empty() ? "" : share.host + ": ", share.workers, share.wanted, share.available);
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

// A group is bound by the quotas of all groups above it. In a container the path is that of the host,
// and only the root of the hierarchy is there.
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

}  // namespace hetsgd
