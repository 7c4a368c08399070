// Device profiles and network models turn work and bytes into virtual seconds. Both are JSON files.
// Profiles and networks of the papers' machines are built in (cluster/profiles, cluster/networks).
// Each of their numbers has its derivation under `source`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.hpp"
#include "linalg/operands.hpp"

namespace hetsgd {

class JsonFields;  // core/json_fields.hpp

// A rate that costs nothing; JSON has no infinity.
inline constexpr double kUnlimitedPerSecond = 1e18;

// Default latency of a copy between a device's memory and the host's, for profiles that state none.
// It is the latency of the network `pcie3`.
inline constexpr double kHostLinkLatencySeconds = 1e-5;

// A device as rates. Additive: launches, operations, memory traffic and copies do not overlap.
struct DeviceProfile {
  std::string name;
  std::string source;            // where the numbers come from
  double launch_overhead_s = 0;  // per kernel launch
  double operations_per_s = 0;   // effective, on this class of models, in FP32
  double bytes_per_s = 0;        // effective memory bandwidth
  double memory_bytes = 0;
  // Effective bandwidth of one copy to or from the host's memory; empty: the memory is the host's.
  std::optional<double> host_link_bytes_per_s = std::nullopt;
  // Latency of such a copy, where it is made on its own; empty: kHostLinkLatencySeconds.
  std::optional<double> host_link_latency_s = std::nullopt;
  // Effective bandwidth for rows at random places: of the device's memory, and of the host's memory
  // where the host reads and writes them. Empty: bytes_per_s, and no cost for the host's rows.
  std::optional<double> gather_bytes_per_s = std::nullopt;
  std::optional<double> host_gather_bytes_per_s = std::nullopt;
  // The shortest time that was measured for the profile. A shorter step is not predicted.
  std::optional<double> least_step_s = std::nullopt;
  // The same as operations_per_s for steps with products in BF16. Work does not tell products from
  // other operations. So this is a rate of all operations of such a step, of which some stay FP32.
  // Empty: operations_per_s.
  std::optional<double> bf16_operations_per_s = std::nullopt;
  // Throughput of m concurrent learners relative to one: saturation[m-1]; beyond the end the last
  // value holds.
  std::vector<double> saturation{1.0};

  // launches * overhead + operations / rate + bytes / bandwidth + bytes of the host link / its
  // bandwidth + bytes of scattered rows / their rates + the given seconds. For m concurrent
  // learners it is m times that, divided by throughput(m). `precision` is that of the products of a
  // step, and sets the rate of operations. Vector operations and services are FP32 in every run.
  Seconds seconds(const Work& work, Precision precision = Precision::fp32) const;
  bool operator==(const DeviceProfile&) const = default;
  // True for a CPU, which computes in the host's memory.
  bool in_host_memory() const { return !host_link_bytes_per_s; }
  // Seconds of a copy of so many bytes to or from the host's memory: latency + bytes / rate. 0
  // where the memory is the host's.
  Seconds copy_seconds(double bytes) const;
  // The throughput of `learners` >= 1 concurrent learners relative to one.
  double throughput(int learners) const;
};

// A built-in name or a JSON file. Throws Error(usage) for an unknown name, listing the names;
// `option` opens the message. Throws Error(data) for a broken file, naming the file, the key, what
// was found and what was expected.
DeviceProfile load_device_profile(const std::string& name_or_path,
                                  std::string_view option = "--profile");
// Device profiles in the order of ranks. `list` holds names or files as above, each with an
// optional number of workers, for example "v100*4,gtx-1080ti"; the last repeats. The result has at
// least one and at most `workers` elements. Throws what load_device_profile() throws, and
// Error(usage) naming --profile for a bad number or more profiles than workers.
std::vector<DeviceProfile> load_device_profiles(const std::string& list, int workers);
// The names and paths in such a list.
std::vector<std::string> device_profile_names(const std::string& list);
std::vector<std::string> builtin_device_profiles();
// The built-in profile whose name occurs in the name of a GPU, whatever its case, gaps and dashes.
// For example v100-pcie for "Tesla V100-PCIE-16GB". If several fit, the longest.
std::optional<std::string> builtin_profile_of(const std::string& gpu);
// The file's text, as load_device_profile reads it.
std::string to_json_text(const DeviceProfile& profile);
// The same the other way round, from a part of a document. Throws what the fields throw.
DeviceProfile read_device_profile(const JsonFields& fields);

// Polls of the thread of a rank of mpi for control messages, about every millisecond, for each poll
// of a process that waits.
inline constexpr double kControlPolls = 0.25;

// How an all_reduce is made, for its cost and its bytes only. In sim the data do not travel, and
// the sum is the one in rank order whatever the topology.
// two_level: a reduce_scatter inside of the nodes, a ring among the workers of the same place in
// all nodes, an all_gather inside. Where there are no such nodes (NodeLevel) it is a ring.
enum class Topology { ring, tree, halving_doubling, star, two_level };

// The network among the workers of one node.
struct InnerNetwork {
  std::string name;  // its name in results
  Seconds latency{0};
  double bytes_per_s = 0;   // bandwidth of a worker's link
  bool shared_bus = false;  // one medium for all of them
};

// A machine (or a rack), or several alike: its workers share one link to the other nodes and to the
// services, or have one each.
struct NetworkNode {
  int times = 1;           // number of nodes like it, one after the other
  int workers = 1;         // workers of each node
  bool own_links = false;  // each worker has a link of its own to the other nodes
  // Values of the link; none: the network's. A latency longer than the services' counts there, too.
  std::optional<Seconds> latency = std::nullopt;
  std::optional<double> bytes_per_s = std::nullopt;
  std::optional<InnerNetwork> inside = std::nullopt;  // only for several workers
};

// The inner level of a group whose workers have links of their own in nodes of equally many. Data
// inside of a node and data that leave it travel at the same time, each on the links of their kind.
struct NodeLevel {
  int node_size = 1;  // members of the group in a node
  Seconds latency{0};
  double bytes_per_s = 0;
};

// Latency + bandwidth per link, full duplex. Every node has one link; without nodes of several
// workers every worker has one. The services' host has a link of its own, which serialises the
// exchanges of all workers with it. The way between two nodes has the longer of their latencies.
struct NetworkModel {
  std::string name;
  std::string source;
  Seconds latency{0};             // one way, worker to worker
  double bytes_per_s = 0;         // bandwidth of a node's link
  Seconds server_latency{0};      // one way, worker to the services' host
  double server_bytes_per_s = 0;  // bandwidth of the services' host
  bool shared_bus = false;        // all workers' transfers share one medium of bytes_per_s
  Topology all_reduce = Topology::ring;
  // How processes of a host wait, for sim/host_cores.hpp alone: how late the kernel wakes a thread,
  // the longest time between two polls of a waiting rank, and the share of a core that its polls
  // take. 0: nothing is late, and waiting costs nothing.
  // The control thread of a rank polls less often (kControlPolls).
  Seconds wake{0}, poll{0};
  double poll_core_share = 0;
  // Nodes in the order of ranks; the last repeats. Empty: every worker is a node.
  std::vector<NetworkNode> nodes = {};
  // Inner level of a group (sim::Network makes it from the nodes); in no file.
  std::optional<NodeLevel> inner = std::nullopt;

  // Analytic cost of the standard collectives for p workers and n bytes (p = 1: 0). B is the link
  // bandwidth, on a shared bus divided by the number of senders of a step; d = ceil(log2 p). All
  // links are alike here (sim/network.hpp: those of nodes), and carry nothing else
  // (sim/transfer.hpp: what else is on them).
  //   ring              2(p-1)(latency + n/(p B))
  //   tree              2 d (latency + n/B)
  //   halving_doubling  2(d latency + (q-1)/q n/B), q = the largest power of two <= p, and 2 n/B to
  //                     fold the p - q extra workers in and out
  //   star              2(server_latency + p n/B_server)
  //   two_level         2(m-1)(l_n + n/(m B_n)) + 2(N-1)(latency + n/(m N B)), p = m N: N nodes of
  //                     m workers, whose links inside have the latency l_n and the rate B_n
  Seconds all_reduce_cost(int p, double bytes) const;
  // The faster of two ways; the length decides. A binomial tree takes d (latency + n/B). Slices
  // from the root to each rank and a ring all_gather of these take p latency + 2(p-1)/p n/B. On a
  // shared bus it is the tree, because its bytes are the fewest.
  Seconds broadcast_cost(int p, double bytes) const;
  Seconds tree_broadcast_cost(int p, double bytes) const;
  Seconds scattered_broadcast_cost(int p, double bytes) const;  // p > 1
  bool broadcast_scatters(int p, double bytes) const;           // true: it takes the second way
  Seconds all_gather_cost(int p, double bytes) const;           // ring; bytes per rank
  Seconds reduce_scatter_cost(int p, double bytes) const;       // ring; bytes of the whole vector
  // All parts leave one behind the other: latency + n/B. n are the bytes that the busiest rank
  // sends to or gets from others, or those of all ranks on a shared bus. With an inner level, n are
  // the bytes that leave the node and `inner_bytes` those that stay inside; the later end counts.
  Seconds all_to_all_cost(int p, double bytes, double inner_bytes = 0) const;
  Seconds barrier_cost(int p) const;  // dissemination: d latencies
  // Bytes that one rank puts on the wire in an all_reduce, for the time breakdown: mean over the
  // ranks.
  double all_reduce_bytes_sent(int p, double bytes) const;
};

// Like load_device_profile. The `inside` of a node is a built-in name or an object.
NetworkModel load_network_model(const std::string& name_or_path);
std::vector<std::string> builtin_network_models();
std::string to_json_text(const NetworkModel& network);
NetworkModel read_network_model(const JsonFields& fields);

// Rates of a device profile for the steps of computation graphs, beside DeviceProfile: the keys
// `convolution {half_channels, half_depth}` and `host_link_latency_s`.

struct GraphRates {
  // The operations of a convolution with Cout channels and K products per sum count
  // (1 + half_channels / Cout)(1 + half_depth / K) times. Absent: 0.
  double half_channels = 0, half_depth = 0;
  // Rates of a copy to or from the host's memory. Absent: those of the network `pcie3`.
  double link_latency_s = 0, link_bytes_per_s = 1;
};

// Throws what load_device_profile() throws.
GraphRates load_graph_rates(const std::string& name_or_path, std::string_view option = "--profile");

}  // namespace hetsgd
