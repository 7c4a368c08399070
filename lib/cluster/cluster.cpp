#include "cluster/cluster.hpp"

#include <map>

#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {

namespace {

struct Registered {
  std::string help;
  ClusterFactory factory;
};

std::map<std::string, Registered>& registry() {
  static std::map<std::string, Registered> clusters;
  return clusters;
}

}  // namespace

bool register_cluster(const std::string& name, const std::string& help, ClusterFactory factory) {
  const bool added = registry().emplace(name, Registered{help, std::move(factory)}).second;
  HETSGD_CHECK(added);
  return added;
}

std::unique_ptr<Cluster> make_cluster(const std::string& name, const ClusterOptions& options) {
  if (const auto found = registry().find(name); found != registry().end()) {
    if (options.workers < 1) {
      throw usage_error("--workers: found {}, expected at least 1", options.workers);
    }
    return found->second.factory(options);
  }
  if (name == "mpi") {
    throw with_hint(Error(ExitCode::device, "--cluster mpi: this binary was built without MPI"),
                    "built without MPI: configure with -DHETSGD_MPI=ON");
  }
  std::string known;
  for (const auto& [key, cluster] : registry()) {
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", key, cluster.help);
  }
  const auto names = cluster_names();
  throw with_hint(usage_error("--cluster: found {}, expected one of {}", quote(name), known),
                  did_you_mean(name, names));
}

std::vector<std::string> cluster_names() {
  std::vector<std::string> names;
  for (const auto& [name, cluster] : registry()) names.push_back(name);
  return names;
}

std::vector<std::string> local_cluster_names() {
  auto names = cluster_names();
  std::erase(names, "mpi");
  return names;
}

}  // namespace hetsgd
