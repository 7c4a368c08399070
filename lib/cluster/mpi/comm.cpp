#include "cluster/mpi/comm.hpp"

#include <algorithm>
#include <cstring>

#include "cluster/blocking.hpp"
#include "cluster/threads/host_memory.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {

using threads::HostMemory;

void MpiComm::count(Traffic kind, std::size_t sent, std::size_t received) {
  Ledger& ledger = World::current().ledger;
  ledger.bytes_sent[static_cast<std::size_t>(kind)] += sent;
  ledger.bytes_received[static_cast<std::size_t>(kind)] += received;
}

int MpiComm::rank_of_world(int world_rank) const {
  const auto found = std::ranges::find(members_, world_rank);
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

void MpiComm::send_bytes(int to, int tag, std::span<const std::byte> data, Traffic kind) {
  HETSGD_CHECK_GE(to, 0);
  HETSGD_CHECK_LT(to, size());
  check_tag(tag);
  world().safepoint();
  cuda::ExchangeMemory* const gpu = exchange_for(data.data(), data.size());
  const HostMemory source(data.data(), gpu ? 0 : data.size());
  const std::span<const std::byte> part(source.data(), data.size());
  count(kind, data.size(), 0);
  // What is copied in a blink is not worth two looks at the clock.
  const bool timed = data.size() > kHeadData;
  const Seconds begin = timed ? world().now() : Seconds(0);
  transport_.send(world_rank(to), transport_.tags().message(group_->number, tag), {&part, 1}, kind,
                  gpu);
  if (timed) World::current().ledger.communicate += world().now() - begin;
  world().safepoint();
}

Envelope MpiComm::receive_bytes(int from, int tag, std::span<std::byte> data) {
  HETSGD_CHECK_GE(from, kAnySource);
  HETSGD_CHECK_LT(from, size());
  check_tag(tag);
  world().safepoint();
  MessageMemory target(HostMemory::Use::write, data.data(), data.size());
  HeadReceive head(transport_, from == kAnySource ? from : world_rank(from),
                   transport_.tags().message(group_->number, tag), [](int source, int mpi_tag) {
                     return blocked_in_receive(source, mpi_tag % Tags::kUserTags);
                   });
  world().poll_until(head);
  const HeadInfo info = head.info();
  const Envelope envelope{rank_of_world(head.source()), info.bytes};
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
