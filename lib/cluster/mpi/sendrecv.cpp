#include <algorithm>
#include <bit>
#include <cstring>

#include "cluster/blocking.hpp"
#include "cluster/mpi/comm.hpp"
#include "cluster/mpi/transport.hpp"
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
void MpiComm::sendrecv_raw(int peer, int tag, std::span<const std::byte> out,
                           std::span<std::byte> in, Traffic kind) {
  check_rank(peer, size());
  HETSGD_CHECK(peer != rank_);
  check_tag(tag);
  // The kind of tag is sendrecv's own, so neither receive() nor poll() finds these messages. Head
  // and long data share the tag: MPI matches the messages of a pair in the order sent.
  const int other = world_rank(peer), mpi_tag = transport_.tags().sendrecv(group_->number, tag);
  const int me = world_rank(rank_);
  const CheckIn check_in(
      host_.check_ins(), world(),
      {.group = group_->number, .kind = tag, .a = std::min(me, other), .b = std::max(me, other)},
      2);
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

// Buffers in flight (Sends).

bool test(MPI_Request& request, MPI_Status* status) {
  int complete = 0;
  check(MPI_Test(&request, &complete, status), "MPI_Test");
  return complete != 0;
}

Sends& Sends::get() {
  static Sends* sends = new Sends;  // never destroyed: MPI may still read from the buffers
  return *sends;
}

std::unique_ptr<Sends::Buffer> Sends::take(std::size_t bytes, cuda::ExchangeMemory* gpu) {
  // At most half of a buffer is unused, and one size serves many messages.
  const std::size_t capacity = std::bit_ceil(std::max(bytes, std::size_t{256}));
  {
    const std::lock_guard guard(mutex_);
    auto& list = (gpu ? free_on_gpu_ : free_)[static_cast<std::size_t>(std::countr_zero(capacity))];
    if (!list.empty()) {
      auto buffer = std::move(list.back());
      list.pop_back();
      return buffer;
    }
  }
  auto buffer = std::make_unique<Buffer>();
  buffer->capacity = capacity;
  if (!gpu) buffer->host = std::make_unique_for_overwrite<std::byte[]>(capacity);
  buffer->data = gpu ? gpu->allocate(capacity) : buffer->host.get();
  return buffer;
}

void Sends::give(std::unique_ptr<Buffer> buffer) {
  Free& lists = buffer->host ? free_ : free_on_gpu_;
  lists[static_cast<std::size_t>(std::countr_zero(buffer->capacity))].push_back(std::move(buffer));
}

void Sends::watch(std::unique_ptr<Buffer> buffer) {
  // Most small messages have left already: they need no place in the list. MPI is called without
  // the mutex, as it may take its time.
  const bool complete = test(buffer->request);
  bool first = false;
  {
    const std::lock_guard guard(mutex_);
    if (complete) return give(std::move(buffer));
    on_their_way_.push_back(std::move(buffer));
    unfinished_ = on_their_way_.size();
    first = unfinished_ == 1;
  }
  // Without the mutex. Only the change from none to one is told: from then on the channel's thread
  // looks by itself until none is left.
  if (first) tell_();
}

bool Sends::reap(std::size_t count) {
  if (idle()) return false;
  const std::lock_guard guard(mutex_);
  bool any = false;
  for (std::size_t i = std::min(count, on_their_way_.size()); i > 0; --i) {
    // In turns, so that the first ones in the list do not hide the others.
    if (next_ >= on_their_way_.size()) next_ = 0;
    if (!test(on_their_way_[next_]->request)) {
      ++next_;
      continue;
    }
    any = true;
    // The order of the list does not matter: the last one takes the place.
    std::swap(on_their_way_[next_], on_their_way_.back());
    give(std::move(on_their_way_.back()));
    on_their_way_.pop_back();
  }
  unfinished_ = on_their_way_.size();
  return any;
}

}  // namespace hetsgd::mpi
