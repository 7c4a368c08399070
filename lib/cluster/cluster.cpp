#include "cluster/cluster.hpp"

#include <atomic>
#include <map>

#include "cluster/devices.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {

namespace {

std::map<std::string, ClusterKind>& kinds() {
  static std::map<std::string, ClusterKind> clusters;
  return clusters;
}

std::atomic<ProcessGroup*> joined{nullptr};

}  // namespace

bool register_cluster(ClusterKind kind) {
  const std::string name = kind.name;
  const bool added = kinds().emplace(name, std::move(kind)).second;
  HETSGD_CHECK(added);
  return added;
}

const ClusterKind& cluster_kind(const std::string& name) {
  if (const auto found = kinds().find(name); found != kinds().end()) {
    const ClusterKind& kind = found->second;
    if (kind.missing.empty()) return kind;
    throw with_hint(device_error("--cluster {}: this binary was built without it", name),
                    kind.missing);
  }
  std::string known;
  for (const std::string& each : cluster_names()) {
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", each, kinds().at(each).help);
  }
  refuse("--cluster", quote(name), "one of " + known, did_you_mean(name, cluster_names()));
}

bool Cluster::is_virtual() const { return cluster_kind(name()).is_virtual; }

int Cluster::gpu(int worker) const { return is_virtual() ? -1 : gpu_of(device_name(worker)); }

std::unique_ptr<Cluster> make_cluster(const std::string& name, const ClusterOptions& options) {
  const ClusterKind& kind = cluster_kind(name);
  if (options.workers < 1) {
    throw usage_error("--workers: found {}, expected at least 1", options.workers);
  }
  processes_of(name);
  return kind.make(options);
}

std::vector<std::string> cluster_names() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kinds()) {
    if (kind.missing.empty()) names.push_back(name);
  }
  return names;
}

std::vector<std::string> local_cluster_names() {
  std::vector<std::string> names = cluster_names();
  std::erase_if(names, [](const std::string& name) { return kinds().at(name).join != nullptr; });
  return names;
}

std::string default_cluster(bool is_virtual) {
  for (const auto& [name, kind] : kinds()) {
    if (launched() ? kind.join != nullptr : !kind.join && kind.is_virtual == is_virtual) {
      return name;
    }
  }
  HETSGD_CHECK(!"a cluster is registered");
  return "";
}

ProcessGroup& processes_of(const std::string& cluster, Seconds peer_timeout) {
  static ProcessGroup alone;
  const ClusterKind& kind = cluster_kind(cluster);
  if (!kind.join) return alone;
  ProcessGroup& group = kind.join(peer_timeout);
  joined = &group;
  return group;
}

bool runs_together(const std::string& cluster) {
  const auto found = kinds().find(cluster);
  return launched() && found != kinds().end() && found->second.join;
}

ProcessGroup* joined_processes() { return joined; }

}  // namespace hetsgd
