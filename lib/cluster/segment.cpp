#include "cluster/segment.hpp"

namespace hetsgd {

namespace {

std::string owner(const std::string& name) { return "service " + name; }

}  // namespace

void load_service(Segment& segment, const std::string& name, ServiceHandler& handler) {
  const std::string prefix = owner(name) + "/";
  const auto first = segment.cluster.lower_bound(prefix);
  if (first == segment.cluster.end() || !first->first.starts_with(prefix)) return;
  Archive archive = Archive::loading(segment.cluster, segment.cluster, "the state of the run");
  archive(owner(name), handler);
}

void save_service(SavedFields& fields, const std::string& name, ServiceHandler& handler) {
  Archive archive = Archive::saving(fields, fields);
  archive(owner(name), handler);
}

}  // namespace hetsgd
