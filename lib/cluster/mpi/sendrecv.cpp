#include <cstring>

#include "cluster/blocking.hpp"
#include "cluster/mpi/comm.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {

namespace {

// Up to here (bytes) data travel with the lengths, in the head of one message.
constexpr std::size_t kShort = 2048;

bool is_long(std::size_t bytes) { return bytes > kShort; }

}  // namespace

//    [lengths | short data] to the peer, which is not awaited
//    [lengths | short data] from the peer: it has come to the same call; lengths are compared
//    long data both ways at once, straight from memory to memory
void MpiComm::sendrecv_bytes(int peer, int tag, std::span<const std::byte> out,
                             std::span<std::byte> in, Traffic kind) {
  check_rank(peer, size());
  HETSGD_CHECK(peer != rank_);
  check_tag(tag);
  world().safepoint();
  // The kind of tag is sendrecv's own, so neither receive() nor poll() finds these messages. Head
  // and long data share the tag: MPI matches the messages of a pair in the order sent.
  const int other = world_rank(peer), mpi_tag = transport_.tags().sendrecv(group_->number, tag);
  const MessageMemory source(out.data(), out.size());
  MessageMemory target(MessageMemory::Use::write, in.data(), in.size());
  const SendrecvLengths mine{out.size(), in.size()};
  const std::span<const std::byte> parts[] = {
      std::as_bytes(std::span(&mine, 1)), {source.data(), is_long(out.size()) ? 0 : out.size()}};
  transport_.send(other, mpi_tag, parts, kind);
  HeadReceive head(transport_, other, mpi_tag, [](int from, int its_tag) {
    return blocked_in_sendrecv(from, its_tag % Tags::kUserTags);
  });
  poll_until(world(), head);
  const auto content = head.data();
  SendrecvLengths theirs;
  HETSGD_CHECK_GE(content.size(), sizeof theirs);
  std::memcpy(&theirs, content.data(), sizeof theirs);
  check_same_sendrecv(rank_, mine, tag, peer, theirs);
  if (!is_long(in.size()) && !in.empty()) {
    std::memcpy(target.data(), content.data() + sizeof theirs, in.size());
  }
  // The lengths are the same on both sides, so each knows what the other sends.
  if (is_long(in.size()) || is_long(out.size())) {
    Requests requests(transport_, "exchanges");
    if (is_long(in.size())) requests.receive(other, mpi_tag, {target.data(), in.size()});
    if (is_long(out.size())) requests.send(other, mpi_tag, {source.data(), out.size()});
    requests.wait(&TimeBreakdown::communicate);
  }
  count(kind, out.size(), in.size());
  target.store();
  world().safepoint();
}

}  // namespace hetsgd::mpi
