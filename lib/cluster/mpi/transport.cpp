#include "cluster/mpi/transport.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "core/error.hpp"

namespace hetsgd::mpi {

namespace {

// Pieces grow by factors of 4 from the first to the largest size.
constexpr std::size_t kFirstPiece = std::size_t{16} << 10;
constexpr std::size_t kLargestPiece = std::size_t{4} << 20;
// MPI counts in int.
constexpr std::size_t kLargestRequest = std::size_t{1} << 30;
// A rank that is lost does not complete what it has begun; after so long nobody touches the memory.
constexpr Seconds kSettleLimit{5};
// A receiver that waits already answers a head at once. Copying what is longer than this takes
// longer than to wait for that answer, for at most kProbeWait.
constexpr std::size_t kWorthWaiting = std::size_t{128} << 10;
constexpr Seconds kProbeWait{10e-6};
// Unfinished sends that each send looks after.
constexpr std::size_t kReapedBySend = 4;

// Calls fn(begin, bytes) for each piece. Sender and receiver cut a message alike, as both know its
// length.
template <class Fn>
void for_each_piece(std::size_t bytes, Fn fn) {
  std::size_t size = kFirstPiece;
  for (std::size_t at = 0; at < bytes; at += size, size = std::min(4 * size, kLargestPiece)) {
    size = std::min(size, bytes - at);
    fn(at, size);
  }
}

// Returns when `done`, or after the limit. Only where nothing can be waited for by poll_until: a
// look of a few microseconds, and teardown.
template <class Done>
void settle(Seconds limit, Done done) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!done() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

}  // namespace

// The bytes of several parts, read one after the other. The parts are the caller's.
class Transport::Reader {
 public:
  Reader(std::span<const std::span<const std::byte>> parts, cuda::ExchangeMemory* gpu, Sending how)
      : parts_(parts), gpu_(gpu), how_(how) {}
  void read(std::byte* to, std::size_t bytes) {
    while (bytes > 0) {
      const auto part = parts_.front().subspan(at_);
      const std::size_t n = std::min(bytes, part.size());
      if (n > 0) gpu_ ? gpu_->copy(to, part.data(), n) : void(std::memcpy(to, part.data(), n));
      to += n;
      bytes -= n;
      at_ += n;
      if (at_ == parts_.front().size() && parts_.size() > 1) {
        parts_ = parts_.subspan(1);
        at_ = 0;
      }
    }
  }
  cuda::ExchangeMemory* gpu() const { return gpu_; }
  // True: the rest lies together in host memory, and may be sent from there.
  bool can_skip() const { return parts_.size() == 1 && !gpu_ && how_ == Sending::straight; }
  // The next bytes of the last part, where they lie.
  std::span<const std::byte> skip(std::size_t bytes) {
    const auto skipped = parts_.front().subspan(at_, bytes);
    at_ += bytes;
    return skipped;
  }

 private:
  std::span<const std::span<const std::byte>> parts_;
  cuda::ExchangeMemory* const gpu_;
  const Sending how_;
  std::size_t at_ = 0;
};

Tags::Tags() {
  void* value = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found), "MPI_Comm_get_attr");
  // MPI promises tags up to 32767 and no more. The tag's bits are those whose every value is
  // allowed.
  const unsigned limit = found ? *static_cast<unsigned*>(value) : 32767U;
  bits_ = std::bit_width(limit + 1) - 1;
  if (bits_ < 2 + kUserBits + 4) {
    throw device_error(
        "--cluster mpi: found an MPI library with message tags up to {}, expected at least {}",
        limit, (1 << (2 + kUserBits + 4)) - 1);
  }
}

// --- transport

void Transport::send(int to, int tag, std::span<const std::span<const std::byte>> parts,
                     Traffic kind, cuda::ExchangeMemory* gpu, Sending how) {
  // Transport::send and HeadReceive::take_rest are the two ends of one protocol (transport.hpp).
  Sends& sends = Sends::get();
  std::size_t bytes = 0;
  for (const auto part : parts) bytes += part.size();
  const HeadInfo info{bytes, sent_++, static_cast<std::int32_t>(kind)};
  Reader reader(parts, gpu, how);
  const std::size_t first = std::min(bytes, kHeadData);
  auto head = sends.take(sizeof info + first);
  std::memcpy(head->data, &info, sizeof info);
  reader.read(head->data + sizeof info, first);
  const std::size_t rest = bytes - first;
  // Only what can go from the caller's memory in one request is worth asking for.
  const bool asks = rest >= kWorthWaiting && rest <= kLargestRequest && reader.can_skip();
  check((asks ? MPI_Issend : MPI_Isend)(head->data, static_cast<int>(sizeof info + first), MPI_BYTE,
                                        to, tag, comm_, &head->request),
        "MPI_Isend");
  if (asks) settle(kProbeWait, [&] { return test(head->request); });
  const bool awaited = asks && head->request == MPI_REQUEST_NULL;
  // Complete or not: an unfinished head leaves when its receiver comes.
  sends.watch(std::move(head));
  if (awaited) {
    Requests direct(*this, "sends");
    direct.send(to, tags_.piece(info.number), reader.skip(rest));
    direct.wait(nullptr);
  } else if (rest > 0) {
    send_pieces(to, tags_.piece(info.number), reader, rest);
  }
  // Every send cleans up a little, so buffers come back even where the channel's thread gets no
  // core.
  sends.reap(kReapedBySend);
}

// The first piece is the probe; once it is matched the rest goes directly. Requests are made then
// only: they count as receiving, and can be awaited.
void Transport::send_pieces(int to, int tag, Reader& reader, std::size_t bytes) {
  Sends& sends = Sends::get();
  std::unique_ptr<Sends::Buffer> probe;
  std::optional<Requests> direct;
  for_each_piece(bytes, [&](std::size_t at, std::size_t n) {
    // The probe is tested before each piece, at the cost of one MPI_Test.
    if (!direct && probe && reader.can_skip() && test(probe->request)) {
      direct.emplace(*this, "sends");
    }
    if (direct) return direct->send(to, tag, reader.skip(n));
    auto piece = sends.take(n, reader.gpu());
    reader.read(piece->data, n);
    // A single piece has nothing behind it that it could speed up.
    const bool probes = at == 0 && n < bytes;
    check((probes ? MPI_Issend : MPI_Isend)(piece->data, static_cast<int>(n), MPI_BYTE, to, tag,
                                            comm_, &piece->request),
          "MPI_Isend");
    if (probes) {
      probe = std::move(piece);
    } else {
      sends.watch(std::move(piece));
    }
  });
  if (probe) sends.watch(std::move(probe));
  if (direct) direct->wait(nullptr);
}

bool Transport::poll(int from, int tag) {
  int found = 0;
  check(
      MPI_Iprobe(from == kAnySource ? MPI_ANY_SOURCE : from, tag, comm_, &found, MPI_STATUS_IGNORE),
      "MPI_Iprobe");
  return found != 0;
}

// The count rises before the test: an abort that comes in between sees the count, so
// still_receives() is never false while a receive is about to be posted.
void Transport::begin_receiving() {
  ++receivers_;
  if (!world_.aborting() || world_.losing()) [[likely]]
    return;
  --receivers_;
  world_.safepoint();
}

// A long message is there only when its sender has moved on, which it may never do: so its memory
// belongs to the process.
bool Transport::drop_arrived() {
  struct Dropped {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  static auto& dropped = *new std::vector<Dropped>;
  bool any = false;
  while (true) {
    int found = 0, count = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &found, &message, &status),
          "MPI_Improbe");
    if (!found) break;
    any = true;
    check(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
    Dropped& one = dropped.emplace_back();
    one.bytes.resize(static_cast<std::size_t>(count));
    check(MPI_Imrecv(one.bytes.data(), count, MPI_BYTE, &message, &one.request), "MPI_Imrecv");
  }
  return std::erase_if(dropped, [](Dropped& one) { return test(one.request); }) > 0 || any;
}

// --- heads

HeadReceive::HeadReceive(Transport& transport, int from, int tag,
                         std::string (*what)(int from, int tag))
    : transport_(transport), from_(from), tag_(tag), what_(what) {
  transport_.begin_receiving();
  check(MPI_Irecv(buffer_.data(), static_cast<int>(buffer_.size()), MPI_BYTE,
                  from == kAnySource ? MPI_ANY_SOURCE : from, tag, transport_.comm_, &request_),
        "MPI_Irecv");
  open_ = true;
}

HeadReceive::~HeadReceive() { cancel(); }

bool HeadReceive::done() {
  if (!open_) return true;
  if (!test(request_, &status_)) return false;
  open_ = false;
  transport_.end_receiving();
  return true;
}

bool HeadReceive::cancel() {
  if (!open_) return false;
  // The receive is complete afterwards, cancelled or not; either ends MPI's use of the buffer.
  MPI_Cancel(&request_);
  bool complete = false;
  settle(kSettleLimit, [&] { return complete = test(request_, &status_); });
  open_ = false;
  transport_.end_receiving();
  int cancelled = 0;
  if (complete) MPI_Test_cancelled(&status_, &cancelled);
  return complete && !cancelled;
}

HeadInfo HeadReceive::info() const {
  HeadInfo info;
  std::memcpy(&info, buffer_.data(), sizeof info);
  return info;
}

std::span<const std::byte> HeadReceive::data() const {
  return {buffer_.data() + sizeof(HeadInfo),
          static_cast<std::size_t>(std::min<std::uint64_t>(info().bytes, kHeadData))};
}

void HeadReceive::take(std::span<std::byte> message) {
  const auto first = data();
  if (!first.empty()) std::memcpy(message.data(), first.data(), first.size());
  take_rest(message.subspan(first.size()));
}

void HeadReceive::take(const MessageMemory& message) {
  const std::span<std::byte> all(message.data(), message.size());
  if (!message.gpu()) return take(all);
  const auto first = data();
  message.gpu()->copy(all.data(), first.data(), first.size());
  take_rest(all.subspan(first.size()));
}

void HeadReceive::take_rest(std::span<std::byte> rest) {
  if (rest.empty()) return;
  const int tag = transport_.tags().piece(info().number);
  // The sender may have sent all of the rest as one message, or the first piece of it: one receive
  // takes either, and its length tells. Shorter or longer rests always come in pieces.
  std::size_t whole = rest.size();
  if (whole >= kWorthWaiting && whole <= kLargestRequest) {
    Requests first(transport_, describe());
    first.receive_up_to(source(), tag, rest, whole);
    first.wait(&TimeBreakdown::communicate);
    if (whole == rest.size()) return;
  } else {
    whole = 0;
  }
  Requests requests(transport_, describe());
  for_each_piece(rest.size(), [&](std::size_t at, std::size_t n) {
    if (at >= whole) requests.receive(source(), tag, rest.subspan(at, n));
  });
  requests.wait(&TimeBreakdown::communicate);
}

// --- requests

Requests::Requests(Transport& transport, std::string what)
    : transport_(transport), what_(std::move(what)) {
  transport_.begin_receiving();
}

Requests::~Requests() {
  if (!open_) return;
  // Until the others know that the run has failed they may still read what is sent from here.
  if (!transport_.world().aborting() || transport_.world().losing()) {
    transport_.world().abort(std::make_exception_ptr(CheckFailure(what_ + ": was left")));
  }
  cancel();
}

void Requests::receive(int from, int tag, std::span<std::byte> data) {
  do {
    const auto part = data.first(std::min(data.size(), kLargestRequest));
    receives_.push_back({MPI_REQUEST_NULL, from, part.size(), nullptr});
    check(MPI_Irecv(part.data(), static_cast<int>(part.size()), MPI_BYTE, from, tag,
                    transport_.comm_, &receives_.back().request),
          "MPI_Irecv");
    data = data.subspan(part.size());
  } while (!data.empty());
}

void Requests::receive_up_to(int from, int tag, std::span<std::byte> data, std::size_t& received) {
  receives_.push_back({MPI_REQUEST_NULL, from, data.size(), &received});
  check(MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_BYTE, from, tag, transport_.comm_,
                  &receives_.back().request),
        "MPI_Irecv");
}

void Requests::send(int to, int tag, std::span<const std::byte> data) {
  do {
    const auto part = data.first(std::min(data.size(), kLargestRequest));
    sends_.push_back(MPI_REQUEST_NULL);
    check(MPI_Isend(part.data(), static_cast<int>(part.size()), MPI_BYTE, to, tag, transport_.comm_,
                    &sends_.back()),
          "MPI_Isend");
    data = data.subspan(part.size());
  } while (!data.empty());
}

void Requests::wait(Seconds TimeBreakdown::*account) {
  World& world = transport_.world();
  try {
    poll_until(world, *this, account);
  } catch (...) {
    // The run is aborted before the destructor cancels the requests: the other side must be told,
    // so that it lets go.
    world.abort(std::current_exception());
    throw;
  }
}

void Requests::check_received(const Receive& receive, int code, const MPI_Status& status) const {
  int bytes = -1;
  if (code == MPI_SUCCESS) {
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (receive.received) *receive.received = static_cast<std::size_t>(bytes);
    if (receive.received || static_cast<std::size_t>(bytes) == receive.bytes) return;
  }
  throw CheckFailure(fmt::format(
      "ranks {} and {} differ: rank {} {} and expects {} bytes from rank {}, which sent {}",
      receive.from, transport_.rank(), transport_.rank(), what_, receive.bytes, receive.from,
      bytes < 0 ? "more" : std::to_string(bytes)));
}

// In the order posted; a look at the first that is open drives them all.
bool Requests::receives_done() {
  for (; received_ < receives_.size(); ++received_) {
    Receive& receive = receives_[received_];
    int complete = 0;
    MPI_Status status;
    const int code = MPI_Test(&receive.request, &complete, &status);
    if (code == MPI_SUCCESS && !complete) return false;
    check_received(receive, code, status);
  }
  return true;
}

bool Requests::sends_done() {
  while (sent_ < sends_.size() && test(sends_[sent_])) ++sent_;
  return sent_ == sends_.size();
}

bool Requests::done() {
  if (!receives_done() || !sends_done()) return false;
  if (open_) transport_.end_receiving();
  open_ = false;
  return true;
}

bool Requests::cancel() {
  if (!open_) return false;
  // Receives are cancelled first, since others write to this memory. Then the count goes down, for
  // which the other ranks' direct sends wait (`quiet`). Only then this rank waits for its own
  // sends.
  for (Receive& receive : receives_) {
    if (receive.request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&receive.request);
    settle(kSettleLimit, [&] {
      int complete = 0;
      return MPI_Test(&receive.request, &complete, MPI_STATUS_IGNORE) != MPI_SUCCESS || complete;
    });
  }
  open_ = false;
  transport_.end_receiving();
  settle(kSettleLimit, [&] { return sends_done() || transport_.quiet_; });
  return false;
}

}  // namespace hetsgd::mpi
