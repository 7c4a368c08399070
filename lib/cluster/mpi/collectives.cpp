// The collectives of MpiComm.
#include <algorithm>
#include <cstring>

#include "cluster/blocking.hpp"
#include "cluster/group_plan.hpp"
#include "cluster/mpi/comm.hpp"
#include "cluster/reduce.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {

using Use = HostMemory::Use;

namespace {

// Up to here (bytes) latency is what counts, and one message per pair is cheaper than two phases.
// The call and the data fit into a head, so that small messages have no pieces.
constexpr std::size_t kSmall = 2048;

std::span<const std::byte> bytes_of(const CollectiveCall& call) {
  return std::as_bytes(std::span(&call, 1));
}

}  // namespace

// Where each rank's slice lies, in bytes.
struct MpiComm::Slices {
  std::vector<std::size_t> bounds;  // [p + 1]

  template <class BeginOf>
  Slices(int p, BeginOf begin_of) {
    for (int r = 0; r <= p; ++r) bounds.push_back(begin_of(r));
  }
  std::size_t begin(int r) const { return bounds[static_cast<std::size_t>(r)]; }
  std::size_t bytes(int r) const { return bounds[static_cast<std::size_t>(r) + 1] - begin(r); }
};

MpiComm::Inside::Inside(MpiComm& comm) : comm_(comm) {
  comm.world().safepoint();
  // Two processes of one rank would take each other's messages, as tags number the collectives in
  // the order in which this rank begins them. The flag stays set for its owner: the exception is
  // thrown before the object exists, so no destructor clears it.
  if (comm.group_->inside.exchange(true)) {
    throw CheckFailure(fmt::format(
        "two processes of rank {} are in a collective of one group at once", comm.rank_));
  }
  ++comm.group_->calls;
}

// [number of the collective | twin | phase]: all ranks count the same collectives, in the same
// order.
int MpiComm::tag(int phase) const {
  constexpr auto kNumbers = static_cast<std::uint32_t>(Tags::kUserTags / kPhases);
  const int number = static_cast<int>(group_->calls % kNumbers);
  return transport_.tags().collective(group_->number,
                                      number * kPhases + (group_->started ? kOfTwins : 0) + phase);
}

void MpiComm::check_call(const CollectiveCall& mine, int other,
                         std::span<const std::byte> bytes) const {
  CollectiveCall theirs;
  HETSGD_CHECK_GE(bytes.size(), sizeof theirs);
  std::memcpy(&theirs, bytes.data(), sizeof theirs);
  // The lower rank first: both sides report the same text.
  if (rank_ < other) {
    check_same_call(rank_, mine, other, theirs);
  } else {
    check_same_call(other, theirs, rank_, mine);
  }
}

// --- small ones: messages that carry the call

void MpiComm::send_small(int to, const CollectiveCall& call, std::span<const std::byte> data) {
  const std::span<const std::byte> parts[] = {bytes_of(call), data};
  transport_.send(world_rank(to), tag(kSmallPhase), parts, call.kind);
}

// False: the message had the call only. Messages of one sender arrive in the order sent, so several
// small steps within one collective may use the same tag: each side takes them in the order of the
// algorithm.
bool MpiComm::receive_small(int from, const CollectiveCall& call, std::span<std::byte> data) {
  HeadReceive head(transport_, world_rank(from), tag(kSmallPhase), [](int source, int) {
    return fmt::format("waits in a collective for rank {}", source);
  });
  poll_until(world(), head);
  const auto content = head.data();
  // Before the length, which says nothing where the calls differ.
  check_call(call, from, content);
  if (head.info().bytes == sizeof call) return false;
  HETSGD_CHECK_EQ(head.info().bytes, sizeof call + data.size());
  const auto first = content.subspan(sizeof call);
  if (!first.empty()) std::memcpy(data.data(), first.data(), first.size());
  head.take_rest(data.subspan(first.size()));
  return true;
}

// all: what each rank brings, by rank, mine.size() bytes each. All sends come first and do not
// wait, as small messages are copied; then p - 1 receives.
void MpiComm::gather_small(const CollectiveCall& call, std::span<const std::byte> mine,
                           std::span<std::byte> all) {
  for (int d = 1; d < size(); ++d) send_small(next(d), call, mine);
  const auto part = [&](int r) {
    return all.subspan(static_cast<std::size_t>(r) * mine.size(), mine.size());
  };
  if (!mine.empty()) std::memmove(part(rank_).data(), mine.data(), mine.size());
  for (int d = size() - 1; d > 0; --d) receive_small(next(d), call, part(next(d)));
}

// Everybody has come when this returns. True: `mine` is true for all. A rank passes on the
// conjunction of what it has heard; hearing of a rank twice does no harm, so p need not be a power
// of 2.
bool MpiComm::rounds(const CollectiveCall& call, bool mine) {
  bool all = mine;
  for (int distance = 1; distance < size(); distance <<= 1) {
    send_small(next(distance), call, std::as_bytes(std::span(&all, 1)));
    bool theirs = false;
    receive_small(next(size() - distance), call, std::as_writable_bytes(std::span(&theirs, 1)));
    all = all && theirs;
  }
  return all;
}

// The same with what the root has: a rank that has it passes it on, others send the call alone. As
// everybody hears of everybody, all have it in the end.
void MpiComm::spread(const CollectiveCall& call, std::span<std::byte> data) {
  bool has = rank_ == call.root;
  for (int distance = 1; distance < size(); distance <<= 1) {
    send_small(next(distance), call, has ? data : std::span<std::byte>());
    has |= receive_small(next(size() - distance), call, data);
  }
}

void MpiComm::barrier() {
  Inside inside(*this);
  rounds({.collective = Collective::barrier});
  inside.leave();
}

void MpiComm::meet(Collective why) {
  const Inside inside(*this);
  rounds({.collective = why});
}

std::unique_ptr<Comm> MpiComm::split(int color, int key) {
  // Three steps inside of one collective: all choices to all, a number from rank 0 of the world,
  // and that number to all. The plan is then the same function of the same choices on every rank.
  const SplitChoice mine{color, key};
  std::vector<SplitChoice> choices(members_.size());
  const CollectiveCall call{.collective = Collective::split};
  int number = 0;
  {
    Inside inside(*this);
    gather_small(call, std::as_bytes(std::span(&mine, 1)),
                 std::as_writable_bytes(std::span(choices)));
    // One number for the groups of all colours: they share no rank.
    if (rank_ == 0) number = groups_.new_group();
    spread(call, std::as_writable_bytes(std::span(&number, 1)));
    inside.leave();
  }
  if (color < 0) return nullptr;
  auto groups = plan_groups(choices);
  auto& ranks = *std::ranges::find_if(groups, [&](const std::vector<int>& group) {
    return std::ranges::find(group, rank_) != group.end();
  });
  const int rank = static_cast<int>(std::ranges::find(ranks, rank_) - ranks.begin());
  for (int& r : ranks) r = world_rank(r);
  return std::make_unique<MpiComm>(transport_, groups_,
                                   std::make_shared<Group>(number, std::move(ranks)), rank);
}

// --- reductions

// Every rank gets all contributions and adds them up in rank order, so all have the same bits. More
// bytes than by slices, but one step of latency instead of two.
void MpiComm::reduce_small(const CollectiveCall& call, void* data) {
  const std::size_t bytes = call.count * element_bytes(call.element);
  std::byte* all = group_->scratch.reserve(members_.size() * bytes);
  gather_small(call, {static_cast<const std::byte*>(data), bytes}, {all, members_.size() * bytes});
  std::vector<const void*> in;
  for (std::size_t r = 0; r < members_.size(); ++r) in.push_back(all + r * bytes);
  reduce_in_rank_order(in, {&data, 1}, 0, call.count, call.element, call.op);
}

// Afterwards the slice of this rank in `data` is the reduction over all ranks. The contributions of
// the others come into scratch memory, (p-1)/p of n in all, and are added when all are here: adding
// them as they come would make the bits depend on their order.
void MpiComm::reduce_slices(const CollectiveCall& call, MessageMemory& memory,
                            const Slices& slices) {
  std::byte* const data = memory.data();
  const std::size_t mine = slices.bytes(rank_), p = members_.size();
  std::byte* room = memory.contributions(group_->scratch, (p - 1) * mine);
  std::vector<const void*> in(p);
  {
    // The requests end before the reduction writes to `data`, whose other slices are being sent.
    Requests requests(transport_, "reduces");
    for (int d = size() - 1; d > 0; --d, room += mine) {
      in[static_cast<std::size_t>(next(d))] = room;
      requests.receive(world_rank(next(d)), tag(kScatter), {room, mine});
    }
    for (int d = 1; d < size(); ++d) {
      requests.send(world_rank(next(d)), tag(kScatter),
                    {data + slices.begin(next(d)), slices.bytes(next(d))});
    }
    requests.wait(&TimeBreakdown::communicate);
  }
  void* out = data + slices.begin(rank_);
  in[static_cast<std::size_t>(rank_)] = out;
  memory.reduce(in, out, mine / element_bytes(call.element), call.element, call.op);
}

// Every rank's slice to all. Each receives into the place where the slice belongs; nothing is
// copied.
void MpiComm::gather_slices(const Slices& slices, std::byte* data) {
  Requests requests(transport_, "gathers");
  for (int d = size() - 1; d > 0; --d) {
    requests.receive(world_rank(next(d)), tag(kGather),
                     {data + slices.begin(next(d)), slices.bytes(next(d))});
  }
  for (int d = 1; d < size(); ++d) {
    requests.send(world_rank(next(d)), tag(kGather),
                  {data + slices.begin(rank_), slices.bytes(rank_)});
  }
  requests.wait(&TimeBreakdown::communicate);
}

void MpiComm::all_reduce_raw(void* data, std::size_t n, Element element, ReduceOp op,
                             Traffic kind) {
  if (size() == 1) return world().safepoint();
  // The four large collectives below have one form: count the bytes, enter, then one of three ways.
  // The way depends on the length and on what rounds() has found out for all, so all ranks take the
  // same one.
  const CollectiveCall call{
      .collective = Collective::all_reduce, .count = n, .element = element, .op = op, .kind = kind};
  const std::size_t unit = element_bytes(element), bytes = n * unit;
  const Slices slices(size(),
                      [&](int r) { return (r == size() ? n : block_of(r, n).begin) * unit; });
  const std::size_t mine = slices.bytes(rank_), others = members_.size() - 1;
  count(kind, others * mine + bytes - mine, others * mine + bytes - mine);
  Inside inside(*this);
  if (bytes <= kSmall) {
    HostMemory host(Use::update, data, bytes);
    reduce_small(call, host.data());
    host.store();
  } else if (begin_large(call, data, data)) {
    by_nccl(call, data, data);
  } else {
    MessageMemory memory(Use::update, data, bytes);
    reduce_slices(call, memory, slices);
    gather_slices(slices, memory.data());
    memory.store();
  }
  inside.leave();
}

void MpiComm::reduce_scatter_raw(void* data, std::size_t n, Element element, ReduceOp op,
                                 Traffic kind) {
  if (size() == 1) return world().safepoint();
  const CollectiveCall call{.collective = Collective::reduce_scatter,
                            .count = n,
                            .element = element,
                            .op = op,
                            .kind = kind};
  const std::size_t unit = element_bytes(element), bytes = n * unit;
  const Slices slices(size(),
                      [&](int r) { return (r == size() ? n : block_of(r, n).begin) * unit; });
  const std::size_t mine = slices.bytes(rank_);
  count(kind, bytes - mine, (members_.size() - 1) * mine);
  Inside inside(*this);
  const std::size_t begin = slices.begin(rank_);
  if (bytes <= kSmall) {
    HostMemory host(Use::update, data, bytes);
    reduce_small(call, host.data());
    // The other slices are unspecified, and not worth a copy to the GPU.
    host.store(begin, begin + mine);
  } else if (begin_large(call, data, data)) {
    by_nccl(call, data, data);
  } else {
    MessageMemory memory(Use::update, data, bytes);
    reduce_slices(call, memory, slices);
    memory.store(begin, begin + mine);
  }
  inside.leave();
}

// --- copies

// The root sends each rank one slice, (p-1)/p of the data in all, and everybody passes its own on:
// no link carries more than twice the data, whatever p is. The root has all slices, but takes part
// in the gathering as the others do: it gets what it has.
void MpiComm::broadcast_large(const CollectiveCall& call, std::span<std::byte> data) {
  const Slices slices(
      size(), [&](int r) { return r == size() ? data.size() : block_of(r, data.size()).begin; });
  {
    Requests requests(transport_, "broadcasts");
    const auto slice = [&](int r) { return data.subspan(slices.begin(r), slices.bytes(r)); };
    if (rank_ == call.root) {
      for (int d = 1; d < size(); ++d) {
        requests.send(world_rank(next(d)), tag(kScatter), slice(next(d)));
      }
    } else {
      requests.receive(world_rank(call.root), tag(kScatter), slice(rank_));
    }
    requests.wait(&TimeBreakdown::communicate);
  }
  gather_slices(slices, data.data());
}

void MpiComm::broadcast_raw(void* data, std::size_t bytes, int root, Traffic kind) {
  check_rank(root, size());
  if (size() == 1) return world().safepoint();
  const CollectiveCall call{
      .collective = Collective::broadcast, .count = bytes, .root = root, .kind = kind};
  const auto others = members_.size() - 1;
  count(kind, rank_ == root ? others * bytes : 0, rank_ == root ? 0 : bytes);
  const auto use = rank_ == root ? Use::read : Use::write;
  Inside inside(*this);
  if (bytes <= kSmall) {
    HostMemory host(use, data, bytes);
    spread(call, {host.data(), bytes});
    if (rank_ != root) host.store();
  } else if (begin_large(call, data, data)) {
    by_nccl(call, data, data);
  } else {
    MessageMemory memory(use, data, bytes);
    broadcast_large(call, {memory.data(), bytes});
    if (rank_ != root) memory.store();
  }
  inside.leave();
}

void MpiComm::all_gather_raw(const void* mine, std::size_t bytes, void* all, Traffic kind) {
  const CollectiveCall call{.collective = Collective::all_gather, .count = bytes, .kind = kind};
  const std::size_t p = members_.size();
  count(kind, (p - 1) * bytes, (p - 1) * bytes);
  Inside inside(*this);
  if (bytes <= kSmall) {
    const HostMemory source(mine, bytes);
    HostMemory target(Use::write, all, p * bytes);
    gather_small(call, {source.data(), bytes}, {target.data(), p * bytes});
    target.store();
  } else if (begin_large(call, mine, all)) {
    by_nccl(call, mine, all);
  } else {
    const MessageMemory source(mine, bytes);
    MessageMemory target(Use::write, all, p * bytes);
    const Slices slices(size(), [&](int r) { return static_cast<std::size_t>(r) * bytes; });
    target.put(slices.begin(rank_), source);
    gather_slices(slices, target.data());
    target.store();
  }
  inside.leave();
}

}  // namespace hetsgd::mpi
