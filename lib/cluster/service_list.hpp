// ServiceList: the list of a run's services, which all clusters share. The transport of requests
// and answers is each cluster's own.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace hetsgd {

// The services of a run in this process, by name, and the workers that have left them. Any thread.
// S has a member left(rank).
//
// The mutex is held while a service is made, so that two ranks that open one name at once get one
// service. It is held while workers leave, so that no service misses one of them or is told twice.
// In real time it is taken before the world's mutex, because making a service starts its thread,
// and left() puts a notice into its queue. A thread that holds the world's mutex must not come
// here. Making a service must not block: a process that waits for this mutex is at large, so no
// pause could begin.
template <class S>
class ServiceList {
 public:
  using Services = std::map<std::string, std::shared_ptr<S>>;

  // Returns the service of this name. The first call makes it: make(services so far) returns it. If
  // that throws there is no service of this name, and the next call tries again.
  template <class Make>
  std::shared_ptr<S> open(const std::string& name, Make make) {
    const std::lock_guard guard(mutex_);
    if (const auto found = services_.find(name); found != services_.end()) return found->second;
    std::shared_ptr<S> made = make(std::as_const(services_));
    services_.emplace(name, made);
    for (const int rank : left_) made->left(rank);
    return made;
  }

  bool has(const std::string& name) const {
    const std::lock_guard guard(mutex_);
    return services_.contains(name);
  }

  // Worker `rank` has ended, or (sim, threads) is lost: tells every service in the order of names,
  // and those that are opened later. Once for each rank. Under mpi a loss ends the segment without
  // this call.
  void left(int rank) {
    const std::lock_guard guard(mutex_);
    if (std::ranges::find(left_, rank) != left_.end()) return;
    left_.push_back(rank);
    for (const auto& [name, service] : services_) service->left(rank);
  }

  // When no thread of the run is left, in the order of names.
  template <class Fn>
  void for_each(Fn fn) {
    for (const auto& [name, service] : services_) fn(*service);
  }

  // At the end of a run: handlers may refer to what its caller owns. Without the mutex, since no
  // thread of the run is left.
  void clear() { services_.clear(); }

 private:
  mutable std::mutex mutex_;  // guards all below
  Services services_;
  std::vector<int> left_;  // in the order of their ends
};

}  // namespace hetsgd
