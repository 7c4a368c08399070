// The part of services that all clusters share: the list of a run's services, and the check that a
// handler gives the answers that it owes. The transport of requests and answers is each cluster's
// own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cluster/service.hpp"

namespace hetsgd {

// The answer that a handler owes to one request.
//
//   owed --answer(), of the right size--> answered
//     |
//     +--destroyed--> the run ends with the error that unanswered() returns
//
// A cluster derives from it: deliver() carries the answer, and its destructor ends the run.
class OwedReply : public ReplyToken {
 public:
  // Throws CheckFailure if the answer has another size than the caller has room for. The mistake is
  // the handler's, so this exception ends the run.
  void answer(std::span<const std::byte> reply, std::span<const float> payload, Traffic kind) final;

 protected:
  // service: its name, which outlives this object. from: the rank that asks. The sizes are those of
  // the answer that it has room for: bytes, elements.
  OwedReply(const std::string& service, int from, std::size_t reply_bytes,
            std::size_t payload_count)
      : service_(service), from_(from), reply_bytes_(reply_bytes), payload_count_(payload_count) {}
  // At most once.
  virtual void deliver(std::span<const std::byte> reply, std::span<const float> payload,
                       Traffic kind) = 0;
  // For a destructor: the error that must end the run, because the caller would wait for ever. Null
  // if the request was answered, or if the handler throws, because its exception is then the error
  // to report.
  std::exception_ptr unanswered() const;

 private:
  const std::string& service_;
  const int from_;
  const std::size_t reply_bytes_, payload_count_;
  bool answered_ = false;
};

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

  // Worker `rank` has ended, or is lost: tells every service in the order of names, and those that
  // are opened later. Once for each rank.
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
