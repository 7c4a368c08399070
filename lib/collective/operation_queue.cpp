#include "collective/operation_queue.hpp"

#include <mutex>
#include <string>

namespace hetsgd {

// The companion splits the group from an endpoint of its own; meanwhile this process makes no
// collective, so that the companions of all ranks meet each other.
OperationQueue::OperationQueue(Endpoint& endpoint, const std::string& name)
    : shared_(std::make_shared<Shared>(endpoint)) {
  endpoint.background_task(
      name, [shared = shared_](Endpoint& companion) { run_all(*shared, companion); });
  const std::lock_guard lock(*shared_->monitor);
  shared_->monitor->wait([this] { return shared_->ready; }, "the start of its companion");
}

OperationQueue::Ticket OperationQueue::add(Operation operation) {
  const auto ticket = std::make_shared<Added>();
  ticket->run = std::move(operation);
  const std::lock_guard lock(*shared_->monitor);
  shared_->open.push_back(ticket);
  shared_->monitor->notify_all();
  return ticket;
}

CallTime OperationQueue::wait(const Ticket& ticket) {
  if (!ticket) return {};
  const std::lock_guard lock(*shared_->monitor);
  shared_->monitor->wait([&] { return ticket->complete; }, "an operation of its companion");
  return ticket->time;
}

void OperationQueue::close() {
  const std::lock_guard lock(*shared_->monitor);
  shared_->closed = true;
  shared_->monitor->notify_all();
}

// The operation is let go of before it counts as complete: a process that waits for it may free its
// memory.
void OperationQueue::run_all(Shared& shared, Endpoint& endpoint) {
  const auto comm = endpoint.comm().split(0, endpoint.rank());
  std::unique_lock lock(*shared.monitor);
  shared.ready = true;
  shared.monitor->notify_all();
  while (true) {
    shared.monitor->wait([&] { return shared.closed || !shared.open.empty(); },
                         "the next operation");
    if (shared.open.empty()) return;
    const Ticket next = shared.open.front();
    lock.unlock();
    next->time.begin = endpoint.now();
    next->run(endpoint, *comm);
    next->run = nullptr;
    next->time.end = endpoint.now();
    lock.lock();
    next->complete = true;
    shared.open.pop_front();
    shared.monitor->notify_all();
  }
}

}  // namespace hetsgd
