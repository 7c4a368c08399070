#include "cluster/mpi/comm.hpp"

#include <algorithm>
#include <cstring>

#include "cluster/blocking.hpp"
#include "cluster/realtime/host_memory.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {

void MpiComm::count(Traffic kind, std::size_t sent, std::size_t received) {
  World::current().breakdown.count(kind, sent, received);
}

std::unique_ptr<PendingCall> MpiComm::start_raw(const CollectiveRequest& request) {
  // The twin belongs to the helper that makes the calls.
  if (!started_) {
    started_ = std::make_unique<realtime::StartedCalls>(
        world(), host_, std::make_shared<MpiComm>(transport_, host_, group_->twin(), rank_));
  }
  return started_->start(request);
}

int MpiComm::rank_of_world(int world_rank) const {
  const auto found = std::ranges::find(members_, world_rank);
  // O(p), once per received message.
  return static_cast<int>(found - members_.begin());
}

void MpiComm::check_tag(int tag) const {
  HETSGD_CHECK_GE(tag, 0);
  HETSGD_CHECK_LT(tag, Tags::kUserTags);
}

bool MpiComm::poll(int from, int tag) {
  world().safepoint();
  check_tag(tag);
  return transport_.poll(from == kAnySource ? from : world_rank(from),
                         transport_.tags().message(group_->number, tag));
}

void MpiComm::send_raw(int to, int tag, std::span<const std::byte> data, Traffic kind, bool posts) {
  check_rank(to, size());
  check_tag(tag);
  begin_message(world());
  // GPU memory that MPI may take goes as it is, piece by piece into buffers on the GPU; everything
  // else is host memory, or a copy in it.
  cuda::ExchangeMemory* const gpu = exchange_for(data.data(), data.size());
  const HostMemory source(data.data(), gpu ? 0 : data.size());
  const std::span<const std::byte> part(source.data(), data.size());
  count(kind, data.size(), 0);
  // A copy of a few bytes is not worth two looks at the clock.
  const bool timed = data.size() > kHeadData;
  const Seconds begin = timed ? world().now() : Seconds(0);
  transport_.send(world_rank(to), transport_.tags().message(group_->number, tag), {&part, 1}, kind,
                  gpu, posts ? Transport::Sending::copied : Transport::Sending::straight);
  if (timed) World::current().spend(&TimeBreakdown::communicate, world().now() - begin);
  world().safepoint();
}

Envelope MpiComm::receive_raw(int from, int tag, std::span<std::byte> data) {
  if (from != kAnySource) check_rank(from, size());
  check_tag(tag);
  begin_message(world());
  // The target is made before the receive is posted: it may have to wait for the device.
  MessageMemory target(HostMemory::Use::write, data.data(), data.size());
  HeadReceive head(transport_, from == kAnySource ? from : world_rank(from),
                   transport_.tags().message(group_->number, tag), [](int source, int mpi_tag) {
                     return blocked_in_receive(source, mpi_tag % Tags::kUserTags);
                   });
  poll_until(world(), head);
  const HeadInfo info = head.info();
  const Envelope envelope{rank_of_world(head.source()), info.bytes};
  // The sender may be blocked in what follows the head; the failure of the run ends it.
  if (info.bytes != data.size()) {
    throw CheckFailure(
        fmt::format("rank {} receives {} bytes with tag {} from rank {}, which sent {} bytes",
                    rank_, data.size(), tag, envelope.source, info.bytes));
  }
  count(static_cast<Traffic>(info.kind), 0, data.size());
  head.take(target);
  target.store();
  world().safepoint();
  return envelope;
}

}  // namespace hetsgd::mpi
