#include "ranks.hpp"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "cluster/mpi/mpi_cluster.hpp"
#include "core/error.hpp"

namespace hetsgd {
namespace {

constexpr int kDecision = 1 << 30;  // kind of control message; those of runs count from 0
// Rank 0 reads results and looks at files before it decides.
constexpr std::chrono::seconds kPatience{60};

// What rank 0 has said. The handler stays with the control channel.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable arrived;
  std::optional<bool> decision;
};

}  // namespace

bool speaks(const TrainOptions& options) {
  return options.cluster != "mpi" || mpi_rank().rank == 0;
}

bool decide_together(const TrainOptions& options, const std::function<bool()>& decide) {
  if (options.cluster != "mpi") return decide();
  Control& control = mpi_control();
  if (control.rank() == 0) {
    const std::byte decision{decide()};
    for (int to = 1; to < control.size(); ++to) control.send(to, kDecision, {&decision, 1});
    return decision != std::byte{0};
  }
  static const auto mailbox = std::make_shared<Mailbox>();
  control.on_message(kDecision, [](int, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mailbox->mutex);
    mailbox->decision = bytes.front() != std::byte{0};
    mailbox->arrived.notify_all();
  });
  std::unique_lock lock(mailbox->mutex);
  if (!mailbox->arrived.wait_for(lock, kPatience, [] { return mailbox->decision.has_value(); })) {
    throw runtime_failure("rank {}: rank 0 has not said within {} s whether to run", control.rank(),
                          kPatience.count());
  }
  return *std::exchange(mailbox->decision, std::nullopt);
}

}  // namespace hetsgd
