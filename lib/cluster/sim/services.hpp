// Services of a simulated run: serial servers behind one link of their own.
//
// A request travels (network.hpp), queues behind those that arrived before it (equal times: lowest
// rank first), takes its service time on a device of the run's profile at speed 1, and is then
// handled on the event loop. Service time is stated work (Service::work) times the work scale, as
// for vectors.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster/profile.hpp"
#include "cluster/service.hpp"
#include "cluster/sim/world.hpp"

namespace hetsgd::sim {

class SimService;

class Services {
 public:
  Services(World& world, DeviceProfile profile, double work_scale);
  ~Services();

  // As Node::open_service.
  std::shared_ptr<ServicePort> open(
      int rank, const std::string& name,
      const std::function<std::unique_ptr<ServiceHandler>()>& factory);
  // Worker `rank` has ended: tells every service, those too that are opened later.
  void left(int rank);

 private:
  World& world_;
  DeviceProfile profile_;
  double work_scale_;
  std::map<std::string, std::unique_ptr<SimService>> services_;
  std::vector<int> left_;
};

}  // namespace hetsgd::sim
