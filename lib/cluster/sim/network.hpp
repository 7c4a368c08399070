// Network: when bytes arrive. The links of a simulated run, and how messages and collectives take
// them.
//
// Worker to worker: the link of the sender's node carries the message from start = max(now, egress
// free) to start + bytes/B. Its head reaches the link of the receiver's node a latency later; that
// link is taken, in the order of heads, for bytes/B. The message has arrived when it is through,
// and has left the sender's link a latency ago. Uncontended: latency + bytes over the slower link.
// On a shared bus the bus carries it once instead, from start to start + bytes/B, and it arrives a
// latency later. Within a node of several workers the links, or the bus, are those inside; those to
// other nodes are one for the node, or one for each of its workers (own_links).
//
// Worker to services and back: as above, with the services' link (server_latency,
// server_bytes_per_s) at the other end. The slower of the two links sets the time of one transfer;
// each is occupied for what it needs itself.
//
//   worker a's egress   |=====message=====|
//   worker b's ingress  .   |=====message=====|          the head is a latency behind
//                       start                 arrived
//
// A collective takes the links of its members, or the bus, in both directions and from its start to
// its end. It takes those inside of a node with several members, and the nodes' own if there are
// several nodes. In a star it takes the links of nodes and that of the services. It costs what
// NetworkModel says for the longest latency and the slowest link among these, as if all were like
// that. It costs more where messages or other collectives take these links (link.hpp,
// transfer.hpp).
//
// That is exact for a ring in the order of nodes, which crosses a node's link once in each
// direction. For other topologies it is a lower bound if several members cross a link at once. A
// bus inside has its rate over the m - 1 hops that m of a ring's members make on it. In a star a
// node's link has its rate over its members. In a group with equally many members in each of
// several nodes with own_links, all_reduce (two_level) and all_to_all are exact instead: NodeLevel.
//
// Times are virtual seconds, sizes are charged bytes (doubles, as --charge scales them).
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "cluster/profile.hpp"
#include "cluster/sim/link.hpp"
#include "cluster/sim/transfer.hpp"
#include "cluster/worker_account.hpp"
#include "core/non_copyable.hpp"

namespace hetsgd::sim {

// Costs of a group's collectives, and the links that they take; a worker alone takes none.
struct GroupNetwork {
  NetworkModel model;
  std::vector<Hop> hops;
  std::vector<std::size_t> node_of;  // by member, where the model has an inner level
};

// Workers are ranks in the run.
class Network : NonCopyable {
 public:
  // scale: charged bytes per real one, by Traffic. rows_part_bytes: ClusterOptions.
  using Scale = std::array<double, kTrafficNames.size()>;
  Network(NetworkModel model, int workers, const Scale& scale,
          std::optional<double> rows_part_bytes);

  // Charged bytes of `bytes` real bytes: control traffic as it is, all other kinds at full model
  // size. Control traffic (a token, a request's struct) does not grow with the model.
  double charged(std::size_t bytes, Traffic kind) const {
    return static_cast<double>(bytes) * scale_[static_cast<std::size_t>(kind)];
  }
  // Charged bytes of `parts` parts, each from one worker to another, with `bytes` bytes in all.
  double charged_parts(std::size_t bytes, std::size_t parts, Traffic kind) const {
    if (kind != Traffic::rows || !rows_part_bytes_) return charged(bytes, kind);
    return static_cast<double>(parts) * *rows_part_bytes_;
  }

  // A message from one worker to another goes out on a link and in on one; on a bus these are one,
  // which carries it once.
  struct Route {
    Link& out;
    Link& in;
    double latency;
  };
  Route route(int from, int to);
  // The worker's end of the way to services and back, and that of their host, which serves all
  // services and workers.
  Link& link(int worker) {
    return model_.shared_bus ? nodes_.front().links.front() : node(worker).link(worker);
  }
  Link& server() { return server_; }
  double server_latency(int worker) { return node(worker).server_latency; }
  // Seconds that messages took of the services' link, in its busier direction.
  double server_busy() const { return server_.taken_s(); }
  // The state of all links between two segments of a run.
  void fields(Archive& fields);

  GroupNetwork group(std::span<const int> workers);

 private:
  struct Node {
    Node(const NetworkModel& model, const NetworkNode& kind, int first, int workers);
    Link& inner(int worker) {
      return inside[kind.inside->shared_bus ? 0 : static_cast<std::size_t>(worker - first)];
    }
    Link& link(int worker) {
      return links[kind.own_links ? static_cast<std::size_t>(worker - first) : 0];
    }

    const NetworkNode& kind;
    int first;  // worker
    double latency, server_latency;
    std::vector<Link> links;   // to other nodes, per worker or one; on a bus the first node's
    std::vector<Link> inside;  // one per worker, or the bus; empty: a worker alone
  };
  using Counts = std::map<std::size_t, int>;  // number of members by node
  Node& node(int worker) { return nodes_[node_of_[static_cast<std::size_t>(worker)]]; }
  NetworkModel slowest(const Counts& members) const;
  std::optional<NodeLevel> inner_level(const Counts& members) const;

  NetworkModel model_;
  const Scale scale_;
  const std::optional<double> rows_part_bytes_;
  std::vector<Node> nodes_;
  std::vector<std::size_t> node_of_;  // by worker
  Link server_;
};

}  // namespace hetsgd::sim
