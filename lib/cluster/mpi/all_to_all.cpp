// The all_to_all of MpiComm.
//
//    every rank to every other: [call | announcement | short part]
//         | heard from all: lengths are checked, and the call
//         +-- all hope for NCCL, and it works --> NCCL
//         +-- else: long parts, each in a message of its own, straight from memory to memory
//
// All know of all when they have heard from everybody. So lengths that differ are an error and no
// hang, and long parts need no copy, as their receivers are there. With GPU memory no part travels
// with its length, as it may go by NCCL.
#include <cstring>
#include <optional>

#include "cluster/mpi/comm.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {

namespace {

// Up to here (bytes) a part travels with its length; it fits into the head of the message.
constexpr std::size_t kShortPart = 2048;

// A rank's announcement of its part to another rank.
struct Announcement {
  std::uint64_t bytes = 0;
  std::uint8_t hopes_for_nccl = 0;
  // The part comes in a message of its own, unless NCCL moves it. The sender says so, as the
  // receiver cannot know in which memory the part lies.
  std::uint8_t part_follows = 0;
};

}  // namespace

// One call on this rank; run() is called once.
class MpiComm::AllToAllHere {
 public:
  AllToAllHere(MpiComm& comm, const AllToAll& mine, const CollectiveCall& call)
      : comm_(comm), mine_(mine), call_(call) {}

  void run() {
    const std::size_t send = mine_.send_bytes(), receive = mine_.receive_bytes();
    // A side with no bytes has no memory to ask for, and stands in nobody's way.
    const bool hopes = comm_.size() > 1 && comm_.hopes_for_nccl() &&
                       (send == 0 || is_device_memory(mine_.send, send)) &&
                       (receive == 0 || is_device_memory(mine_.receive, receive));
    // Where NCCL may move the data, nothing is copied before it is known that it will not.
    if (!hopes) make_source();
    for (int d = 1; d < comm_.size(); ++d) announce(comm_.next(d), hopes);
    // Every rank hears the hopes of all, so all decide alike.
    bool all_hope = hopes;
    follow_.resize(comm_.members_.size());
    for (int d = comm_.size() - 1; d > 0; --d) all_hope = listen(comm_.next(d)) && all_hope;
    if (all_hope && comm_.nccl_works(call_)) return comm_.by_nccl(call_, &mine_, nullptr);
    if (!source_) make_source();
    const int me = comm_.rank_;
    // The own part: a copy within this rank.
    const std::span<std::byte> room = target_room(me);
    target_->put(static_cast<std::size_t>(room.data() - target_->data()), *source_,
                 static_cast<std::size_t>(here_.part_for(me).data() - source_->data()),
                 room.size());
    move_long_parts(hopes);
    target_->store();
  }

 private:
  // here_: the same parts where this rank's messages reach them.
  void make_source() {
    source_.emplace(mine_.send, mine_.send_bytes());
    here_.send = source_->data();
  }
  // Made when it is first needed: NCCL needs none.
  std::span<std::byte> target_room(int from) {
    if (!target_) {
      target_.emplace(HostMemory::Use::write, mine_.receive, mine_.receive_bytes());
      here_.receive = target_->data();
    }
    return here_.room_for(from);
  }
  // A part in GPU memory cannot travel with its length.
  bool travels_alone(int to, bool hopes) const {
    const std::size_t bytes = mine_.part_for(to).size();
    return bytes > kShortPart || (bytes > 0 && (hopes || source_->gpu() != nullptr));
  }

  void announce(int to, bool hopes) {
    // With hopes, source_ does not exist yet.
    const bool alone = travels_alone(to, hopes);
    const Announcement announcement{mine_.part_for(to).size(), hopes, alone};
    const std::span<const std::byte> parts[] = {
        std::as_bytes(std::span(&call_, 1)), std::as_bytes(std::span(&announcement, 1)),
        alone || hopes ? std::span<const std::byte>() : here_.part_for(to)};
    comm_.transport_.send(comm_.world_rank(to), comm_.tag(kSmallPhase), parts, call_.kind);
  }

  // True: the other rank hopes for NCCL.
  bool listen(int from) {
    HeadReceive head(
        comm_.transport_, comm_.world_rank(from), comm_.tag(kSmallPhase),
        [](int source, int) { return fmt::format("waits in a collective for rank {}", source); });
    poll_until(comm_.world(), head);
    const auto content = head.data();
    comm_.check_call(call_, from, content);
    Announcement theirs;
    HETSGD_CHECK_GE(content.size(), sizeof call_ + sizeof theirs);
    std::memcpy(&theirs, content.data() + sizeof call_, sizeof theirs);
    // The check comes before anything is written to the place of the part.
    check_same_part(from, theirs.bytes, comm_.rank_, mine_.room_for(from).size());
    follow_[static_cast<std::size_t>(from)] = theirs.part_follows;
    const auto part = content.subspan(sizeof call_ + sizeof theirs);
    if (!part.empty()) {
      std::byte* const room = target_room(from).data();
      if (cuda::ExchangeMemory* const gpu = target_->gpu()) {
        gpu->copy(room, part.data(), part.size());
      } else {
        std::memcpy(room, part.data(), part.size());
      }
    }
    return theirs.hopes_for_nccl != 0;
  }

  void move_long_parts(bool hopes) {
    Requests requests(comm_.transport_, "all_to_all");
    for (int d = comm_.size() - 1; d > 0; --d) {
      const int from = comm_.next(d);
      if (follow_[static_cast<std::size_t>(from)] == 0) continue;
      requests.receive(comm_.world_rank(from), comm_.tag(kScatter), target_room(from));
    }
    for (int d = 1; d < comm_.size(); ++d) {
      const int to = comm_.next(d);
      if (travels_alone(to, hopes)) {
        requests.send(comm_.world_rank(to), comm_.tag(kScatter), here_.part_for(to));
      }
    }
    requests.wait(&TimeBreakdown::communicate);
  }

  MpiComm& comm_;
  const AllToAll& mine_;
  AllToAll here_ = mine_;
  const CollectiveCall& call_;
  std::optional<MessageMemory> source_, target_;
  std::vector<std::uint8_t> follow_;  // by rank: its part comes in a message of its own
};

void MpiComm::move_parts_of(const CollectiveCall& call, const AllToAll& mine) {
  AllToAllHere(*this, mine, call).run();
}

}  // namespace hetsgd::mpi
