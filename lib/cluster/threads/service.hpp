// A service of the threads cluster: one thread with a queue.
//
// A caller blocks until it has its answer, so nothing is copied on the way in: the handler reads
// the request and its payload from the caller's memory, and an answer goes straight into the
// caller's memory. A caller is let go when it is answered and the handler has returned from its
// request.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/service.hpp"
#include "cluster/threads/world.hpp"

namespace hetsgd::threads {

class Token;

// A request or a notice in the queue. A request lives on its caller's stack. Guarded by the world's
// mutex.
struct QueueEntry {
  QueueEntry* next = nullptr;
  int from = 0;
  bool is_notice = false;  // worker `from` has left
  Process* caller = nullptr;
  Token* token = nullptr;  // the pending answer while it exists
  std::span<const std::byte> request;
  std::span<const float> payload;
  std::span<std::byte> reply;
  std::span<float> reply_payload;
  Traffic reply_kind = Traffic::control;
  Seconds copying{0};  // the time that the answer's copy took
  int users = 0;       // handler and answer at work on the caller's memory
  bool handled = false;
  bool answered = false;
};

class ThreadsService {
 public:
  ThreadsService(World& world, std::string name, std::unique_ptr<ServiceHandler> handler);

  const std::string& name() const { return name_; }
  // The service's thread: handles until only services are left.
  void serve(Process& me);
  // From a process: blocks until the answer is here.
  void call(int from, std::span<const std::byte> request, std::span<const float> payload,
            Traffic kind, std::span<std::byte> reply, std::span<float> reply_payload);
  void left(int rank);
  World& world() { return world_; }

 private:
  void push(QueueEntry& entry);
  QueueEntry* pop();
  void remove(const QueueEntry& entry);
  void handle(QueueEntry& entry);

  World& world_;
  std::string name_;
  Process* process_ = nullptr;  // null until its thread serves
  QueueEntry* first_ = nullptr;
  QueueEntry* last_ = nullptr;
  std::vector<std::unique_ptr<QueueEntry>> notices_;
  std::unique_ptr<ServiceHandler>
      handler_;  // last: pending answers that it keeps refer to the rest
};

class ThreadsPort final : public ServicePort {
 public:
  ThreadsPort(std::shared_ptr<ThreadsService> service, int rank)
      : service_(std::move(service)), rank_(rank) {}
  // The payloads may be memory of the caller's device.
  void call_raw(std::span<const std::byte> request, std::span<const float> payload, Traffic kind,
                std::span<std::byte> reply, std::span<float> reply_payload) override;

 private:
  std::shared_ptr<ThreadsService> service_;
  int rank_;
};

}  // namespace hetsgd::threads
