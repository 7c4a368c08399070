#include "cluster/blocking.hpp"

#include "cluster/comm.hpp"

namespace hetsgd {

std::string worker_name(int rank) { return fmt::format("worker {}", rank); }

std::string background_task_name(std::string_view name, int rank) {
  return fmt::format("background task \"{}\" of worker {}", name, rank);
}

std::string service_name(std::string_view name) { return fmt::format("service \"{}\"", name); }

std::string blocked_in_receive(int from, int tag) {
  if (from == kAnySource) return fmt::format("receives from any, tag {}", tag);
  return fmt::format("receives from {}, tag {}", from, tag);
}

std::string blocked_in_sendrecv(int peer, int tag) {
  return fmt::format("exchanges with {}, tag {}", peer, tag);
}

std::string blocked_in_collective(std::string_view collective, int arrived, int size) {
  return fmt::format("waits in {} ({} of {} arrived)", collective, arrived, size);
}

std::string blocked_in_started(std::string_view collective) {
  return fmt::format("waits for its started {}", collective);
}

std::string blocked_in_call(std::string_view service) {
  return fmt::format("waits for service \"{}\"", service);
}

std::string blocked_in_monitor(std::string_view what) { return fmt::format("waits: {}", what); }

std::string blocked_on_lock() { return "waits for the lock of a monitor"; }

Error deadlock_error(std::span<const BlockedProcess> processes) {
  std::string text = "deadlock: no process can go on";
  for (const auto& process : processes) {
    text += fmt::format("\n  {}: {} (since {:.3f} s)", process.name, process.blocking_point,
                        process.since.count());
  }
  return Error(ExitCode::runtime, std::move(text));
}

}  // namespace hetsgd
