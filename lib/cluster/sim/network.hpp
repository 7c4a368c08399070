// Network: when bytes arrive. The links of a simulated run, and how messages and collectives take
// them.
//
// Worker to worker: the sender's link carries the message from start = max(now, egress free) to
// start + bytes/B. Its head reaches the receiver's link a latency later; that link is taken, in the
// order of heads, for bytes/B, and the message has arrived when it is through. Uncontended:
// latency + bytes/B. With a shared bus the bus carries it once instead, from start to start +
// bytes/B, and it arrives a latency later.
//
// Worker to services and back: as above, with the services' link (server_latency,
// server_bytes_per_s) at the other end. The slower of the two links sets the time of one transfer;
// each is occupied for what it needs itself.
//
//   worker a's egress   |=====message=====|
//   worker b's ingress  .   |=====message=====|          the head is a latency behind
//                       start                 arrived
//
// A collective takes the links of its members, or the bus, and in a star the services' link too, in
// both directions and from its start to its end. It costs what NetworkModel says, and longer where
// messages pass on these links or other collectives take them (link.hpp, transfer.hpp).
//
// Times are virtual seconds, sizes are charged bytes (doubles, as --charge scales them).
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "cluster/profile.hpp"
#include "cluster/sim/link.hpp"
#include "cluster/sim/transfer.hpp"
#include "cluster/time_breakdown.hpp"

namespace hetsgd::sim {

class Network {
 public:
  Network(NetworkModel model, int workers, double payload_scale)
      : model_(std::move(model)),
        payload_scale_(payload_scale),
        links_(model_.shared_bus ? 1 : static_cast<std::size_t>(workers),
               Link(model_.bytes_per_s, model_.shared_bus)),
        server_(model_.server_bytes_per_s) {}

  const NetworkModel& model() const { return model_; }

  // What `bytes` of this kind are charged as: control as they are, others at full model size.
  // Control traffic (a token, a request's struct) does not grow with the model.
  double charged(std::size_t bytes, Traffic kind) const {
    const auto real = static_cast<double>(bytes);
    return kind == Traffic::control ? real : real * payload_scale_;
  }

  // Of a worker (rank in the run); with a shared bus that of all.
  Link& link(int worker) {
    return links_[model_.shared_bus ? 0 : static_cast<std::size_t>(worker)];
  }
  // Of the services' host, which serves all services and workers.
  Link& server() { return server_; }

  // What the collectives of these workers take; nothing for one alone.
  std::vector<Hop> hops(std::span<const int> workers) {
    std::vector<Hop> hops;
    if (workers.size() < 2) return hops;
    if (model_.shared_bus) {
      hops.push_back({&links_.front(), 1});
    } else {
      for (const int worker : workers) hops.push_back({&link(worker), 1});
    }
    if (model_.all_reduce == Topology::star) hops.push_back({&server_, 1});
    return hops;
  }

 private:
  NetworkModel model_;
  double payload_scale_;
  std::vector<Link> links_;
  Link server_;
};

}  // namespace hetsgd::sim
