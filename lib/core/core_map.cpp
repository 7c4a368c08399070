#include "core/core_map.hpp"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <memory>

namespace hetsgd {

namespace {

using Bitmap = std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)>;
using Loaded = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

// Null, with errno: hwloc cannot read it. Cores that a container hides belong to the machine, too.
// Reading does not bind this thread to other cores.
Loaded load(const std::string& description) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return {nullptr, hwloc_topology_destroy};
  Loaded topology(raw, hwloc_topology_destroy);
  int failed = 0;
  if (description.starts_with('<')) {
    failed = hwloc_topology_set_xmlbuffer(raw, description.c_str(),
                                          static_cast<int>(description.size() + 1));
  } else if (!description.empty()) {
    failed = hwloc_topology_set_synthetic(raw, description.c_str());
  }
  if (failed == 0) {
    failed = hwloc_topology_set_flags(
        raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING);
  }
  if (failed == 0) failed = hwloc_topology_load(raw);
  if (failed != 0) topology.reset();
  return topology;
}

std::string source_of(hwloc_topology_t topology, const std::string& description) {
  const char* const version =
      hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), "hwlocVersion");
  std::string source = version == nullptr ? "hwloc" : fmt::format("hwloc {}", version);
  if (description.empty() && hwloc_topology_is_thissystem(topology) == 0) {
    source += ", of another machine by a HWLOC_ variable";
  }
  return source;
}

// The number of kinds of cores whose order by speed is known; 0: all cores count as alike.
int ranked_kinds(hwloc_topology_t topology) {
  const int kinds = hwloc_cpukinds_get_nr(topology, 0);
  int efficiency = -1;
  if (kinds < 2) return 0;
  hwloc_cpukinds_get_info(topology, 0, nullptr, &efficiency, nullptr, nullptr, 0);
  return efficiency < 0 ? 0 : kinds;
}

CoreKind kind_of(hwloc_topology_t topology, int number) {
  const Bitmap threads(hwloc_bitmap_alloc(), hwloc_bitmap_free);
  unsigned infos = 0;
  hwloc_info_s* info = nullptr;
  hwloc_cpukinds_get_info(topology, static_cast<unsigned>(number), threads.get(), nullptr, &infos,
                          &info, 0);
  CoreKind kind{.name = fmt::format("efficiency {}", number),
                .threads = hwloc_bitmap_weight(threads.get())};
  for (unsigned i = 0; i < infos; ++i) {
    if (std::strcmp(info[i].name, "CoreType") == 0) kind.name = info[i].value;
  }
  return kind;
}

}  // namespace

std::string topology_text(const HostTopology& topology) {
  if (topology.cores == 0) return topology.source;
  const auto counted = [](int count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  std::string text =
      fmt::format("{}, {}, {}, {} per core", counted(topology.sockets, "socket"),
                  counted(topology.numa_nodes, "NUMA node"), counted(topology.cores, "core"),
                  counted(topology.threads_per_core, "thread"));
  for (const CoreKind& kind : topology.kinds) {
    text += fmt::format(", {} of {}", counted(kind.cores, "core"), kind.name);
  }
  return fmt::format("{} ({})", text, topology.source);
}

CoreMap::CoreMap(const std::string& description) {
  const Loaded loaded = load(description);
  if (!loaded) {
    topology_.source = fmt::format("unknown: hwloc cannot read it ({})", std::strerror(errno));
    return;
  }
  const hwloc_topology_t raw = loaded.get();
  const int kinds = ranked_kinds(raw);
  std::map<int, std::pair<int, int>> physical;  // its number of threads, and its kind
  for (hwloc_obj_t pu = nullptr; (pu = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_PU, pu));) {
    const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(raw, HWLOC_OBJ_CORE, pu);
    const Place place{
        .physical = hwloc_bitmap_first((core ? core : pu)->cpuset),
        .position = static_cast<int>(pu->logical_index),
        .kind = kinds == 0 ? 0 : std::max(0, hwloc_cpukinds_get_by_cpuset(raw, pu->cpuset, 0))};
    places_.resize(std::max<std::size_t>(places_.size(), pu->os_index + 1));
    places_[pu->os_index] = place;
    ++physical[place.physical].first;
    physical[place.physical].second = place.kind;
  }
  topology_ = {.sockets = hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_PACKAGE),
               .numa_nodes = hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_NUMANODE),
               .cores = static_cast<int>(physical.size()),
               .source = source_of(raw, description)};
  for (int kind = kinds - 1; kind >= 0; --kind) topology_.kinds.push_back(kind_of(raw, kind));
  for (const auto& [core, facts] : physical) {
    topology_.threads_per_core = std::max(topology_.threads_per_core, facts.first);
    if (kinds > 0) ++topology_.kinds[static_cast<std::size_t>(kinds - 1 - facts.second)].cores;
  }
}

CoreMap::Place CoreMap::place(int core) const {
  const auto index = static_cast<std::size_t>(core);
  if (index < places_.size() && places_[index].physical >= 0) return places_[index];
  return {.physical = core, .position = std::numeric_limits<int>::max(), .kind = -1};
}

CoreOrder CoreMap::in_order(const std::vector<int>& cores) const {
  struct Thread {
    int core;
    Place place;
    int sibling = 0;  // siblings among `cores` that come before it
  };
  std::vector<Thread> threads;
  for (const int core : cores) threads.push_back({core, place(core)});
  std::ranges::stable_sort(threads, {}, [](const Thread& t) { return t.place.position; });
  std::map<int, int> seen;
  for (Thread& thread : threads) thread.sibling = seen[thread.place.physical]++;
  std::ranges::stable_sort(threads, {},
                           [](const Thread& t) { return std::pair(t.sibling, -t.place.kind); });
  CoreOrder order;
  for (const Thread& thread : threads) {
    order.cores.push_back(thread.core);
    order.physical.push_back(thread.place.physical);
  }
  return order;
}

const CoreMap& machine_cores() {
  static const CoreMap map;
  return map;
}

}  // namespace hetsgd
