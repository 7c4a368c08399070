// The collectives of MpiComm.
#include <algorithm>
#include <cstring>

#include "cluster/blocking.hpp"
#include "cluster/mpi/comm.hpp"
#include "cluster/reduce.hpp"
#include "core/error.hpp"
#include "core/rank_index.hpp"

namespace hetsgd::mpi {

namespace {

// Up to here (bytes) latency is what counts, and one message per pair is cheaper than two phases.
// The call and the data fit into a head, so that small messages have no pieces.
constexpr std::size_t kSmall = 2048;

std::span<const std::byte> bytes_of(const CollectiveCall& call) {
  return std::as_bytes(std::span(&call, 1));
}

}  // namespace

// Where each rank's slice lies, in bytes: its own data in all_gather, else its block.
struct MpiComm::Slices {
  std::vector<std::size_t> bounds;  // [p + 1]

  Slices(const CollectiveCall& call, int p) {
    const bool gather = call.collective == Collective::all_gather;
    for (int r = 0; r < p; ++r) {
      bounds.push_back(gather ? at(r) * call.count
                              : hetsgd::block_of(r, p, call.count).begin *
                                    element_bytes(call.element));
    }
    bounds.push_back(gather ? at(p) * call.count : call.bytes());
  }
  std::size_t begin(int r) const { return bounds[at(r)]; }
  std::size_t bytes(int r) const { return bounds[at(r) + 1] - begin(r); }
};

// The check-in ends after the flag is given back, which the destructor does even where the
// collective is left.
MpiComm::Inside::Inside(MpiComm& comm)
    : comm_(comm),
      check_in_(comm.size() > 1 ? comm.host_.check_ins() : nullptr, comm.world(),
                {.group = comm.group_->number,
                 .kind = comm.group_->started ? CallKey::kStarted : CallKey::kBlocking,
                 .a = comm.members_.front()},
                comm.size()) {
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
  // The call is compared before the length, which says nothing where the calls differ.
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

// The same with the root's data: a rank that has it passes it on, others send the call alone. As
// every rank hears of every other, all have the data in the end.
void MpiComm::spread(const CollectiveCall& call, std::span<std::byte> data) {
  bool has = rank_ == call.root;
  for (int distance = 1; distance < size(); distance <<= 1) {
    send_small(next(distance), call, has ? data : std::span<std::byte>());
    has |= receive_small(next(size() - distance), call, data);
  }
}

void MpiComm::meet(Collective why) {
  const Inside inside(*this);
  rounds({.collective = why});
}

// Three steps inside of one collective: all choices to all, a number from rank 0 of the world, and
// that number to all. The plan is then the same function of the same choices on every rank.
void MpiComm::split_group(const CollectiveCall& call, SplitPart& part) {
  std::vector<SplitChoice> choices(members_.size());
  int number = 0;
  gather_small(call, std::as_bytes(std::span(&part.choice, 1)),
               std::as_writable_bytes(std::span(choices)));
  if (rank_ == 0) number = host_.new_group();
  spread(call, std::as_writable_bytes(std::span(&number, 1)));
  if (part.choice.color < 0) return;
  for (std::vector<int>& ranks : plan_groups(choices)) {
    const auto me = std::ranges::find(ranks, rank_);
    if (me == ranks.end()) continue;
    const int rank = static_cast<int>(me - ranks.begin());
    for (int& r : ranks) r = world_rank(r);
    part.comm = std::make_unique<MpiComm>(transport_, host_,
                                          std::make_shared<Group>(number, std::move(ranks)), rank);
    return;
  }
}

// A barrier and large data begin with one anyway.
bool MpiComm::checks_in(const CollectiveCall& call) const {
  if (size() == 1 || !host_.check_ins() || call.collective == Collective::barrier) return false;
  const bool has_parts =
      call.collective == Collective::split || call.collective == Collective::all_to_all;
  return has_parts || call.bytes() <= kSmall;
}

// --- with data: one of three ways
// The way depends on the length and on what rounds() has found out for all, so all ranks take the
// same one.

void MpiComm::make_raw(const CollectiveRequest& request) {
  const CollectiveCall& call = request.call;
  if (call.collective == Collective::agree) return agree_by_gathering(request);
  const CollectiveMemory mine = memory_of(request, rank_, size());
  if (size() == 1 && (mine.in_place || call.collective == Collective::broadcast)) {
    return world().safepoint();
  }
  const auto [sent, received] = traffic_of(request, rank_, size());
  count(call.kind, sent, received);
  Inside inside(*this);
  if (checks_in(call)) rounds(call);
  if (call.collective == Collective::barrier) {
    rounds(call);
  } else if (call.collective == Collective::split) {
    split_group(call, *static_cast<SplitPart*>(request.out));
  } else if (call.collective == Collective::all_to_all) {
    move_parts_of(call, request.parts);
  } else if (call.bytes() <= kSmall) {
    CollectiveViews<HostMemory> views(mine);
    move_small(call, views);
    views.store();
  } else if (begin_large(call, request.in, request.out)) {
    by_nccl(call, request.in, request.out);
  } else {
    CollectiveViews<MessageMemory> views(mine);
    move_large(call, views);
    views.store();
  }
  inside.leave();
}

void MpiComm::move_small(const CollectiveCall& call, CollectiveViews<HostMemory>& views) {
  switch (call.collective) {
    case Collective::broadcast:
      return spread(call, {rank_ == call.root ? views.in() : views.out(), call.count});
    case Collective::all_gather:
      return gather_small(call, {views.in(), call.count},
                          {views.out(), members_.size() * call.count});
    default:
      return reduce_small(call, views.out());
  }
}

void MpiComm::move_large(const CollectiveCall& call, CollectiveViews<MessageMemory>& views) {
  const Slices slices(call, size());
  std::byte* data = views.out();
  switch (call.collective) {
    case Collective::broadcast:
      if (rank_ == call.root) data = views.in();
      scatter_slices(call, slices, data);
      break;
    case Collective::all_gather:
      views.target.put(slices.begin(rank_), views.source);
      break;
    default:
      reduce_slices(call, views.target, slices);
      if (call.collective == Collective::reduce_scatter) return;
      break;
  }
  gather_slices(slices, data);
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

// The root sends each rank one slice, (p-1)/p of the data in all, and everybody passes its own on:
// no link carries more than twice the data, whatever p is. The root has all slices, but takes part
// in the gathering as the others do: it gets what it has.
void MpiComm::scatter_slices(const CollectiveCall& call, const Slices& slices, std::byte* data) {
  Requests requests(transport_, "broadcasts");
  if (rank_ == call.root) {
    for (int d = 1; d < size(); ++d) {
      requests.send(world_rank(next(d)), tag(kScatter),
                    {data + slices.begin(next(d)), slices.bytes(next(d))});
    }
  } else {
    requests.receive(world_rank(call.root), tag(kScatter),
                     {data + slices.begin(rank_), slices.bytes(rank_)});
  }
  requests.wait(&TimeBreakdown::communicate);
}

// --- NCCL
//
// Whether NCCL does a collective is decided by all ranks alike:
//
//                begin_large: all bring GPU memory and hope for it
//    unknown ------------------------------------------------------> asked (once per group)
//                                                       all GPUs will do |      | some will not
//                                                                        v      v
//                                              works: a communicator, until    never again
//                                              the run ends

// Large collectives begin with this call: so the wait for late ranks is not mixed up with what the
// transfer takes, and the calls of the ranks are compared. True: all bring GPU memory alone, and
// NCCL goes on.
bool MpiComm::begin_large(const CollectiveCall& call, const void* in, const void* out) {
  const bool mine = hopes_for_nccl() && is_device_memory(in, 1) && is_device_memory(out, 1);
  return rounds(call, mine) && nccl_works(call);
}

bool MpiComm::hopes_for_nccl() const {
  // Once the group knows that NCCL does not work, no rank hopes any more.
  return (!group_->knows_nccl || group_->nccl != nullptr) && host_.gpus().tries_nccl();
}

// All ranks hope for it, so all of them come here, and may make steps together.
bool MpiComm::nccl_works(const CollectiveCall& call) {
  if (!group_->knows_nccl) ask_for_nccl(call);
  return group_->nccl != nullptr;
}

// All ranks of the group are here, and each has a GPU. Its messages belong to the collective that
// is on.
void MpiComm::ask_for_nccl(CollectiveCall call) {
  GpuRanks& gpus = host_.gpus();
  const cuda::RankGpu mine = gpus.mine();
  std::vector<cuda::RankGpu> all(members_.size());
  gather_small(call, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  // The flag is set before can_use_nccl() may throw: an error ends the run on every rank, as all
  // have the same facts.
  group_->knows_nccl = true;
  if (!gpus.can_use_nccl(all)) return;
  cuda::NcclId id{};
  if (rank_ == 0) id = cuda::make_nccl_id();
  // The spread has a root; all ranks change their call in the same way, so the calls still agree.
  call.root = 0;
  spread(call, std::as_writable_bytes(std::span(id)));
  group_->nccl = &gpus.join(world(), id, rank_, size());
}

// in, out: as GpuGroup::move has them.
void MpiComm::by_nccl(const CollectiveCall& call, const void* in, void* out) {
  Process& me = World::current();
  me.device->synchronize();  // NCCL's stream does not wait for the device's
  me.breakdown.count(GpuPath::nccl);
  group_->nccl->start(call, in, out);
  await(world(), *group_->nccl, "waits for NCCL");
}

}  // namespace hetsgd::mpi
