// Services of a simulated run: serial servers behind one link of their own.
//
//   worker's process          links                   service (events)
//   call, post: send() -----> worker's egress
//      |                      latency
//      |                      enter_server_link ----> arrive: into the queue
//      |                                              serve_next: service time of the first
//      |                                              serve: the handler; then the next one
//      |                                                |  now, in a later request, or
//      |                                                v  when a worker leaves
//      |                      server's egress <------ answer()
//      |                      latency
//   deliver: resumes it <---- enter_worker_link
//
// The time from arrive to answer is the caller's `wait`, the rest its `communicate`.
//
// A request travels (network.hpp), queues behind those that arrived before it (equal times: lowest
// rank first), takes its service time on the host's profile (ClusterOptions::server_profile, speed
// 1), and is then handled on the event loop. Service time is stated work (Service::work) times the
// work scale, as for vectors. The server computes nothing on the host pool: a handler runs within
// its event, so it may touch what it owns without a lock, and must not block (Engine::current
// checks). All services share one host and so one link; each has its own queue, and otherwise they
// do not interact.
#pragma once

#include <memory>
#include <string>

#include "cluster/profile.hpp"
#include "cluster/segment.hpp"
#include "cluster/serialised_factory.hpp"
#include "cluster/service_list.hpp"
#include "cluster/sim/world.hpp"

namespace hetsgd::sim {

class SimService;

// Owned by the run. Destroyed before the world, with the handlers and the answers that they still
// hold.
class Services {
 public:
  // segment: what services of a later segment go on from. profile: the host's.
  Services(World& world, Segment& segment, DeviceProfile profile, double work_scale);
  ~Services();

  // Implements Endpoint::open_service. The first call of a name makes the service, on the caller's
  // stack, and takes no virtual time. The port refers to it, and may not be called after the run.
  // `worker`: the number in the run, which decides its link.
  std::shared_ptr<ServicePort> open(int rank, int worker, const std::string& name,
                                    const ServiceFactory& factory);
  // Worker `rank` has ended. On the event loop (the engine's `ended`): handlers may answer callers
  // that waited for that worker.
  void left(int rank);
  // The state of all services at the end of a run.
  void save(SavedFields& fields);

 private:
  World& world_;
  Segment& segment_;
  DeviceProfile profile_;
  double work_scale_;
  ServiceList<SimService> services_;
};

}  // namespace hetsgd::sim
