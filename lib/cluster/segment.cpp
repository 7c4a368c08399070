#include "cluster/segment.hpp"

namespace hetsgd {

namespace {

std::string owner(const std::string& name) { return "service " + name; }

}  // namespace

void load_service(Segment& segment, const std::string& name, ServiceHandler& handler) {
  if (segment.from == nullptr) return;
  const std::string prefix = owner(name) + "/";
  const auto first = segment.from->lower_bound(prefix);
  if (first == segment.from->end() || !first->first.starts_with(prefix)) return;
  OtherWorkers other;
  if (segment.other != nullptr) other.rank_before = segment.other->rank_before;
  Archive archive = Archive::loading(*segment.from, *segment.from, "the state of the run",
                                     segment.other != nullptr ? &other : nullptr);
  archive(owner(name), handler);
}

void save_service(SavedFields& fields, const std::string& name, ServiceHandler& handler) {
  Archive archive = Archive::saving(fields, fields);
  archive(owner(name), handler);
}

}  // namespace hetsgd
