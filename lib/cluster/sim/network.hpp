// Network: when bytes arrive. The links of a simulated run and who occupies them until when.
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
// Standard collectives cost what NetworkModel says and do not occupy links: a message that is sent
// during one is not slowed by it.
//
// Times are virtual seconds, sizes are charged bytes (doubles, as --charge scales them). Every call
// occupies a link from then on, so each is made exactly once per transfer, and in the order of
// time; both hold because the event loop makes them. O(1) each.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "cluster/profile.hpp"
#include "cluster/time_breakdown.hpp"

namespace hetsgd::sim {

class Network {
 public:
  Network(NetworkModel model, int workers, double payload_scale)
      : model_(std::move(model)),
        payload_scale_(payload_scale),
        links_(static_cast<std::size_t>(workers)) {}

  const NetworkModel& model() const { return model_; }

  // What `bytes` of this kind are charged as: control as they are, others at full model size.
  // Control traffic (a token, a request's struct) does not grow with the model.
  double charged(std::size_t bytes, Traffic kind) const {
    const auto real = static_cast<double>(bytes);
    return kind == Traffic::control ? real : real * payload_scale_;
  }

  // When the first and the last byte pass one end of a link.
  struct Slot {
    double start = 0, end = 0;
  };
  // A worker's bytes go out as soon after `now` as its link is free.
  Slot egress(int rank, double now, double bytes) {
    return occupy(model_.shared_bus ? bus_ : link(rank).egress, now, bytes / model_.bytes_per_s);
  }
  // Their head is at the receiver's link at `head`: when the message is through. Called in the
  // order of heads. With a shared bus only replies of services come here (a message between workers
  // has passed the bus by then), and take their turn on it.
  double ingress(int rank, double head, double bytes) {
    return occupy(model_.shared_bus ? bus_ : link(rank).ingress, head, bytes / model_.bytes_per_s)
        .end;
  }
  // The same at the services' host, whose one link serves all services and workers.
  Slot server_egress(double now, double bytes) {
    server_busy_.egress += bytes / model_.server_bytes_per_s;
    return occupy(server_.egress, now, bytes / model_.server_bytes_per_s);
  }
  double server_ingress(double head, double bytes) {
    server_busy_.ingress += bytes / model_.server_bytes_per_s;
    return occupy(server_.ingress, head, bytes / model_.server_bytes_per_s).end;
  }
  // Seconds for which its busier direction was taken.
  double server_busy() const { return std::max(server_busy_.egress, server_busy_.ingress); }

 private:
  // The time until which each direction is taken.
  struct Link {
    double egress = 0, ingress = 0;
  };

  // First come, first served: a link has no queue but the time until which it is taken.
  static Slot occupy(double& free, double now, double seconds) {
    const double start = std::max(now, free);
    free = start + seconds;
    return {start, free};
  }
  Link& link(int rank) { return links_[static_cast<std::size_t>(rank)]; }

  NetworkModel model_;
  double payload_scale_;
  std::vector<Link> links_;
  Link server_;
  Link server_busy_;  // here: seconds taken so far
  double bus_ = 0;    // with a shared bus instead of the workers' links
};

}  // namespace hetsgd::sim
