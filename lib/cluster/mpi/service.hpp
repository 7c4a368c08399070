// A service of the mpi cluster: a process beside rank 0's worker, or in a rank of its own. Requests
// and answers are messages, also those of the same rank.
//
// A request names the caller's number, which is the tag of the answer, and how long the answer must
// be. The name of a service is its tag: ranks need not agree on an order of opening, and a request
// that comes before the service is made waits for it.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/mpi/transport.hpp"
#include "cluster/service.hpp"

namespace hetsgd::mpi {

struct RequestInfo {
  std::int32_t caller = 0;
  std::int32_t request_bytes = 0;
  std::uint64_t payload_count = 0;
  std::uint64_t reply_payload_count = 0;
  std::int32_t reply_bytes = 0;
  std::int32_t unused = 0;
};

// The tag number of a service: a hash of its name.
int service_number(const std::string& name);

// On the services' rank.
class MpiService {
 public:
  // ended: all processes of all ranks have ended.
  MpiService(Transport& transport, std::string name, std::unique_ptr<ServiceHandler> handler,
             const std::atomic<bool>& ended);

  const std::string& name() const { return name_; }
  // The service's process: handles until all have ended.
  void serve();
  void left(int rank);  // any thread
  Transport& transport() { return transport_; }

 private:
  class Idle;
  void handle(HeadReceive& head);
  bool handle_notices();

  Transport& transport_;
  const std::string name_;
  const int number_;
  const std::atomic<bool>& ended_;
  Room message_;
  std::mutex mutex_;  // guards left_
  std::deque<int> left_;
  std::atomic<bool> notices_ = false;
  std::unique_ptr<ServiceHandler> handler_;  // last: answers that it keeps refer to the rest
};

class MpiPort final : public ServicePort {
 public:
  // caller: unique among the processes of this rank. host: the service's rank.
  MpiPort(Transport& transport, std::string name, int caller, int host)
      : transport_(transport),
        name_(std::move(name)),
        number_(service_number(name_)),
        caller_(caller),
        host_(host) {}
  // The payloads may be memory of the caller's device.
  void call_raw(std::span<const std::byte> request, std::span<const float> payload, Traffic kind,
                std::span<std::byte> reply, std::span<float> reply_payload) override;

 private:
  void receive_answer(HeadReceive& head, std::span<std::byte> reply, std::span<std::byte> payload);

  Transport& transport_;
  const std::string name_;
  const int number_;
  const int caller_;
  const int host_;
};

}  // namespace hetsgd::mpi
