#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>

#include "cluster/profile.hpp"
#include "core/error.hpp"
#include "core/json_fields.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

// In the order of Topology.
const std::array<std::string, 5> kTopologyNames{"ring", "tree", "halving_doubling", "star",
                                                "two_level"};

// ceil(log2 p): the depth of a binomial tree over p ranks.
double depth(int p) { return std::bit_width(static_cast<unsigned>(p - 1)); }

}  // namespace

Seconds NetworkModel::all_reduce_cost(int p, double bytes) const {
  HETSGD_CHECK_LT(0, p);
  if (p == 1) return Seconds(0);
  const double n = p, transfer_s = bytes / bytes_per_s;  // for the whole vector over one link
  switch (all_reduce) {
    case Topology::two_level:
      if (inner) {
        const double m = inner->node_size;
        const Seconds inside = inner->latency + Seconds(bytes / (m * inner->bytes_per_s));
        return 2 * (m - 1) * inside + 2 * (n / m - 1) * (latency + Seconds(transfer_s / n));
      }
      [[fallthrough]];
    case Topology::ring: {
      const double step_s = shared_bus ? transfer_s : transfer_s / n;
      return 2 * (n - 1) * (latency + Seconds(step_s));
    }
    case Topology::tree:
      // A reduction has p - 1 messages in all, and a broadcast too.
      return 2 * (depth(p) * latency + Seconds((shared_bus ? n - 1 : depth(p)) * transfer_s));
    case Topology::halving_doubling: {
      const double q = std::bit_floor(static_cast<unsigned>(p)), extra = n - q;
      const double halving = shared_bus ? q - 1 : (q - 1) / q;
      const double fold = shared_bus ? extra : (extra > 0 ? 1.0 : 0.0);
      return 2 * (depth(p) * latency + Seconds((halving + fold) * transfer_s));
    }
    case Topology::star: {
      const double rate =
          shared_bus ? std::min(bytes_per_s, server_bytes_per_s) : server_bytes_per_s;
      return 2 * (server_latency + Seconds(n * bytes / rate));
    }
  }
  HETSGD_CHECK(false);
  return Seconds(0);
}

Seconds NetworkModel::tree_broadcast_cost(int p, double bytes) const {
  HETSGD_CHECK_LT(0, p);
  const double transfers = shared_bus ? p - 1.0 : depth(p);
  return depth(p) * latency + Seconds(transfers * bytes / bytes_per_s);
}

// The slices leave the root one behind the other, so the scatter has one latency.
Seconds NetworkModel::scattered_broadcast_cost(int p, double bytes) const {
  const double n = p;
  return latency + Seconds((n - 1) / n * bytes / bytes_per_s) + all_gather_cost(p, bytes / n);
}

bool NetworkModel::broadcast_scatters(int p, double bytes) const {
  return !shared_bus && scattered_broadcast_cost(p, bytes) < tree_broadcast_cost(p, bytes);
}

Seconds NetworkModel::broadcast_cost(int p, double bytes) const {
  return broadcast_scatters(p, bytes) ? scattered_broadcast_cost(p, bytes)
                                      : tree_broadcast_cost(p, bytes);
}

Seconds NetworkModel::all_gather_cost(int p, double bytes) const {
  HETSGD_CHECK_LT(0, p);
  const double n = p, step_s = (shared_bus ? n : 1) * bytes / bytes_per_s;
  return (n - 1) * (latency + Seconds(step_s));
}

Seconds NetworkModel::reduce_scatter_cost(int p, double bytes) const {
  HETSGD_CHECK_LT(0, p);
  const double n = p, step_s = bytes / bytes_per_s / (shared_bus ? 1 : n);
  return (n - 1) * (latency + Seconds(step_s));
}

Seconds NetworkModel::all_to_all_cost(int p, double bytes, double inner_bytes) const {
  HETSGD_CHECK_LT(0, p);
  if (p == 1) return Seconds(0);
  const Seconds outer = latency + Seconds(bytes / bytes_per_s);
  if (!inner || inner->node_size == 1) return outer;
  return std::max(outer, inner->latency + Seconds(inner_bytes / inner->bytes_per_s));
}

Seconds NetworkModel::barrier_cost(int p) const {
  HETSGD_CHECK_LT(0, p);
  return depth(p) * latency;
}

double NetworkModel::all_reduce_bytes_sent(int p, double bytes) const {
  HETSGD_CHECK_LT(0, p);
  if (p == 1) return 0;
  if (all_reduce == Topology::star) return bytes;
  // All the others move 2 (p-1) n bytes in all: the ring, of one level or two, evenly (2 levels:
  // 2 (m-1)/m n + 2 (N-1)/(m N) n = 2 (p-1)/p n); the tree and the fold send whole
  // vectors, 2 (p-1) or 2 (p-q) of them, and halving 2 (q-1) n bytes among its q ranks.
  return 2 * (p - 1.0) / p * bytes;
}

namespace {

InnerNetwork inner_network(const JsonFields& fields) {
  return {.name = fields.text("name", ""),
          .latency = Seconds(fields.number("latency_s", kDurations)),
          .bytes_per_s = fields.number("bytes_per_s", kByteRates),
          .shared_bus = fields.boolean("shared_bus", false)};
}

// No file is read here: a network is in one file, so that results hold all of it.
InnerNetwork load_inner_network(const JsonFields& node) {
  if (!node.is_text("inside")) {
    const JsonFields fields = node.object("inside");
    fields.allow({"name", "latency_s", "bytes_per_s", "shared_bus"});
    return inner_network(fields);
  }
  const std::string name = node.text("inside");
  std::vector<std::string> expected;  // networks without nodes of their own
  for (const BuiltinFile& file : builtin_network_files()) {
    const JsonFields fields(fmt::format("built-in network {}", file.name), file.text);
    if (!fields.is_null("nodes")) continue;
    if (file.name == name) return inner_network(fields);
    expected.emplace_back(file.name);
  }
  expected.emplace_back("an object");
  node.refuse("inside", alternatives(expected));
}

NetworkNode load_node(const JsonFields& fields) {
  fields.allow({"times", "workers", "latency_s", "bytes_per_s", "inside", "own_links"});
  NetworkNode node{.times = fields.whole_number("times", kCounts, 1),
                   .workers = fields.whole_number("workers", kCounts, 1),
                   .own_links = fields.boolean("own_links", false),
                   .bytes_per_s = fields.number_or_none("bytes_per_s", kByteRates)};
  if (!fields.is_null("latency_s")) node.latency = Seconds(fields.number("latency_s", kDurations));
  if (!fields.is_null("inside")) {
    node.inside = load_inner_network(fields);
  } else if (node.workers > 1) {
    fields.refuse("inside", fmt::format("the network among the {} workers of the node: a built-in "
                                        "name or an object",
                                        node.workers));
  }
  return node;
}

nlohmann::ordered_json node_json(const NetworkNode& node) {
  nlohmann::ordered_json json;
  json["times"] = node.times;
  json["workers"] = node.workers;
  if (node.own_links) json["own_links"] = true;
  if (node.latency) json["latency_s"] = node.latency->count();
  if (node.bytes_per_s) json["bytes_per_s"] = *node.bytes_per_s;
  if (node.inside) {
    json["inside"] = {{"name", json_text(node.inside->name)},
                      {"latency_s", node.inside->latency.count()},
                      {"bytes_per_s", node.inside->bytes_per_s},
                      {"shared_bus", node.inside->shared_bus}};
  }
  return json;
}

}  // namespace

NetworkModel load_network_model(const std::string& name_or_path) {
  return read_network_model(
      find_json_file("--network", "network", name_or_path, builtin_network_files()));
}

NetworkModel read_network_model(const JsonFields& fields) {
  fields.allow({"name", "source", "latency_s", "bytes_per_s", "nodes", "server_latency_s",
                "server_bytes_per_s", "shared_bus", "all_reduce", "wake_s", "poll_s",
                "poll_core_share"});
  NetworkModel network;
  network.name = fields.text("name");
  network.source = fields.text("source", "");
  network.latency = Seconds(fields.number("latency_s", kDurations));
  network.bytes_per_s = fields.number("bytes_per_s", kByteRates);
  network.server_latency = Seconds(fields.number("server_latency_s", kDurations));
  network.server_bytes_per_s = fields.number("server_bytes_per_s", kByteRates);
  network.shared_bus = fields.boolean("shared_bus", false);
  if (!fields.is_null("wake_s")) network.wake = Seconds(fields.number("wake_s", kDurations));
  if (!fields.is_null("poll_s")) network.poll = Seconds(fields.number("poll_s", kDurations));
  network.poll_core_share = fields.number_or_none("poll_core_share", kShares).value_or(0);
  network.all_reduce = static_cast<Topology>(fields.choice("all_reduce", kTopologyNames, 0));
  if (fields.is_null("nodes")) return network;
  if (network.shared_bus) fields.refuse("nodes", "none with shared_bus, which joins all workers");
  for (const JsonFields& node : fields.objects("nodes")) network.nodes.push_back(load_node(node));
  return network;
}

std::vector<std::string> builtin_network_models() { return names_of(builtin_network_files()); }

std::string to_json_text(const NetworkModel& network) {
  nlohmann::ordered_json json;
  json["name"] = json_text(network.name);
  json["source"] = json_text(network.source);
  json["latency_s"] = network.latency.count();
  json["bytes_per_s"] = network.bytes_per_s;
  json["server_latency_s"] = network.server_latency.count();
  json["server_bytes_per_s"] = network.server_bytes_per_s;
  json["shared_bus"] = network.shared_bus;
  json["all_reduce"] = kTopologyNames[static_cast<std::size_t>(network.all_reduce)];
  if (network.wake > Seconds(0)) json["wake_s"] = network.wake.count();
  if (network.poll > Seconds(0)) json["poll_s"] = network.poll.count();
  if (network.poll_core_share > 0) json["poll_core_share"] = network.poll_core_share;
  for (const NetworkNode& node : network.nodes) json["nodes"].push_back(node_json(node));
  return json.dump(2) + "\n";
}

}  // namespace hetsgd
