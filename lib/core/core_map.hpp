// Which cores of this machine are hardware threads of one physical core, and which are neighbours.
// A core is here what the system numbers as one: with simultaneous multithreading (SMT) a hardware
// thread, else a physical core. It is a function of the topology alone, as hwloc reads it: nothing
// is measured.
#pragma once

#include <string>
#include <tuple>
#include <vector>

namespace hetsgd {

// Cores in the order in which workers get them, and the physical core of each. A physical core has
// the number of its first hardware thread.
struct CoreOrder {
  std::vector<int> cores{};
  std::vector<int> physical{};

  static constexpr auto members() { return std::tuple(&CoreOrder::cores, &CoreOrder::physical); }
};

// Physical cores of equal efficiency, where a machine has several kinds.
struct CoreKind {
  std::string name;  // "IntelAtom"; without a name "efficiency 0", the higher the faster
  int cores = 0;
  int threads = 0;  // their hardware threads
};

// The sockets, nodes and cores of a machine. A count of 0 is unknown.
struct HostTopology {
  int sockets = 0;
  int numa_nodes = 0;
  int cores = 0;                  // physical ones
  int threads_per_core = 0;       // of the physical core that has the most
  std::vector<CoreKind> kinds{};  // the fastest first; empty: all cores are alike
  // "hwloc 2.9.0", or why nothing is known. Names the variables that describe another machine.
  std::string source{};
};

// "2 sockets, 2 NUMA nodes, 8 cores, 2 threads per core (hwloc 2.9.0)"
std::string topology_text(const HostTopology& topology);

class CoreMap {
 public:
  // Reads this machine. `description` stands for another one: XML or a synthetic topology of hwloc,
  // such as "pack:2 core:4 pu:2". If hwloc cannot read it, the counts are 0, the source has the
  // reason, and each core is a physical core of its own.
  explicit CoreMap(const std::string& description = "");

  // The same cores in another order. The first ones are hardware threads of as many physical cores,
  // the next ones are their siblings. In both parts fast kinds of cores come before slower ones,
  // and neighbours in a cache or in a NUMA node follow each other. A core that the topology lacks
  // counts as a slow physical core.
  CoreOrder in_order(const std::vector<int>& cores) const;
  const HostTopology& topology() const { return topology_; }

 private:
  struct Place {
    int physical = -1;  // -1: the topology has no such core
    int position = 0;   // neighbours have positions near each other
    int kind = 0;       // the higher the faster
  };
  Place place(int core) const;

  HostTopology topology_;
  std::vector<Place> places_;  // by the system's number of the core
};

// The map of this machine, read at the first call.
const CoreMap& machine_cores();

}  // namespace hetsgd
