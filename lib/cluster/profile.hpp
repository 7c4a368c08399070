// Device profiles and network models: what turns work and bytes into virtual seconds. Both are JSON files; those of
// the papers' machines are built in (v100, cpu ...; pcie3, ...), each number with its derivation.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/units.hpp"

namespace hetsgd {

struct DeviceProfile {
  std::string name;
  std::string source;              // where the numbers come from
  double launch_overhead_s = 0;    // per kernel launch
  double operations_per_s = 0;     // effective, on this class of models
  double bytes_per_s = 0;          // effective memory bandwidth
  double memory_bytes = 0;
  // Throughput of m concurrent learners relative to one: saturation[m-1]; beyond the end the last value holds.
  std::vector<double> saturation{1.0};

  // launches * overhead + operations / rate + bytes / bandwidth.
  Seconds seconds(const Work& work) const;
};

// A built-in name or a JSON file. Errors: usage (unknown name: lists the names), data (broken file).
DeviceProfile load_device_profile(const std::string& name_or_path);
std::vector<std::string> builtin_device_profiles();

enum class Topology { ring, tree, halving_doubling, star };

// Latency + bandwidth per link, full duplex. Every worker has one link; the services' host has one of its own, which
// serialises what all workers exchange with it.
struct NetworkModel {
  std::string name;
  std::string source;
  Seconds latency{0};               // one way, worker to worker
  double bytes_per_s = 0;           // of a worker's link
  Seconds server_latency{0};
  double server_bytes_per_s = 0;    // of the services' host
  bool shared_bus = false;          // all workers' transfers share one medium of bytes_per_s
  Topology all_reduce = Topology::ring;

  // Analytic cost of the standard collectives for p workers and n bytes (p = 1: 0):
  //   ring all_reduce 2(p-1)(latency + n/(p B)); tree 2 ceil(log2 p)(latency + n/B);
  //   halving_doubling 2(ceil(log2 p) latency + (p-1)/p n/B) (+ a fold and unfold of n for p no power of two);
  //   star 2(latency + p n / B_server).  shared_bus: the bytes of all workers of a step share B.
  Seconds all_reduce_cost(int p, double bytes) const;
  Seconds broadcast_cost(int p, double bytes) const;       // binomial tree
  Seconds all_gather_cost(int p, double bytes) const;      // ring; bytes per rank
  Seconds reduce_scatter_cost(int p, double bytes) const;  // ring; bytes of the whole vector
  Seconds barrier_cost(int p) const;                       // dissemination: ceil(log2 p) latencies
  // Bytes that one rank puts on the wire in an all_reduce (same topologies), for the ledger.
  double all_reduce_bytes_sent(int p, double bytes) const;
};

NetworkModel load_network_model(const std::string& name_or_path);
std::vector<std::string> builtin_network_models();

}  // namespace hetsgd
