#include "cluster/sim/meeting.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "cluster/reduce.hpp"
#include "cluster/sim/comm.hpp"
#include "core/error.hpp"

namespace hetsgd::sim {

namespace {

// Below this the host pool's hand-over costs more than the work; above it, what one task gets at
// least.
constexpr std::size_t kTaskBytes = std::size_t{256} << 10;
// A window of all ranks' vectors that stays in the second cache between its reading and its
// writing.
constexpr std::size_t kWindowBytes = std::size_t{1} << 20;
// What split exchanges per rank: colour and key.
constexpr double kSplitBytes = 8;

Comm::Block block_of(std::size_t rank, std::size_t size, std::size_t n) {
  const std::size_t base = n / size, extra = n % size;
  const std::size_t begin = rank * base + std::min(rank, extra);
  return {begin, begin + base + (rank < extra ? 1 : 0)};
}

// Messages that `rank` sends in a binomial broadcast.
int broadcast_sends(int rank, int root, int size) {
  const int relative = (rank - root + size) % size;
  int sends = 0;
  for (int bit = 1; bit < size && (relative & bit) == 0; bit <<= 1) {
    if (relative + bit < size) ++sends;
  }
  return sends;
}

}  // namespace

Meeting::Meeting(World& world, std::vector<int> workers)
    : world_(world),
      workers_(std::move(workers)),
      process_(workers_.size()),
      arrival_(workers_.size()),
      in_(workers_.size()),
      out_(workers_.size()) {}

void Meeting::attend(int rank, const CollectiveCall& call, const void* in, void* out) {
  Engine& engine = world_.engine;
  Process& self = engine.current(collective_name(call.collective));
  if (!engine.tearing_down()) join(rank, call, in, out, self);
  engine.block([this] {
    return blocked_in_collective(collective_name(call_.collective), arrived_, size());
  });
}

void Meeting::join(int rank, const CollectiveCall& call, const void* in, void* out, Process& self) {
  const auto r = static_cast<std::size_t>(rank);
  if (process_[r] != nullptr) {
    throw CheckFailure(
        fmt::format("rank {} calls {} in {} while its {} goes on in {}: give a companion a Comm of "
                    "its own (split)",
                    rank, describe(call), self.name(), describe(call_), process_[r]->name()));
  }
  if (arrived_ == 0) {
    call_ = call;
    first_ = rank;
  } else {
    check_same_call(first_, call_, rank, call);
  }
  process_[r] = &self;
  arrival_[r] = world_.engine.now();
  in_[r] = in;
  out_[r] = out;
  if (++arrived_ == size()) start();
}

void Meeting::start() {
  last_arrival_ = world_.engine.now();
  start_moving();
  count_bytes();
  world_.engine.at(
      last_arrival_ + cost(), [](void* object) { static_cast<Meeting*>(object)->complete(); },
      this);
}

void Meeting::complete() {
  Engine& engine = world_.engine;
  for (auto& task : tasks_) {
    engine.pool().finish(task);
    if (task.error()) std::rethrow_exception(task.error());
  }
  tasks_.clear();
  if (call_.collective == Collective::split) form_groups();
  if (call_.collective == Collective::agree) make_for_all();
  arrived_ = 0;
  for (std::size_t r = 0; r < process_.size(); ++r) {
    Process& process = *std::exchange(process_[r], nullptr);
    process.ledger->wait += Seconds(last_arrival_ - arrival_[r]);
    process.ledger->communicate += Seconds(engine.now() - last_arrival_);
    engine.wake(process);
  }
}

double Meeting::charged() const {
  return world_.network.charged(call_.count * element_bytes(call_.element), call_.kind);
}

double Meeting::cost() const {
  const NetworkModel& model = world_.network.model();
  switch (call_.collective) {
    case Collective::all_reduce:
      return model.all_reduce_cost(size(), charged()).count();
    case Collective::broadcast:
      return model.broadcast_cost(size(), charged()).count();
    case Collective::all_gather:
    case Collective::agree:
      return model.all_gather_cost(size(), charged()).count();
    case Collective::reduce_scatter:
      return model.reduce_scatter_cost(size(), charged()).count();
    case Collective::split:
      return model.all_gather_cost(size(), kSplitBytes).count();
    case Collective::barrier:
    case Collective::fence_together:
      break;
  }
  return model.barrier_cost(size()).count();
}

// The same algorithms as cost(): ring, binomial tree, dissemination (whose messages are empty).
void Meeting::count_bytes() const {
  const int p = size();
  for (int r = 0; r < p; ++r) {
    double sent = 0;
    double received = 0;
    switch (call_.collective) {
      case Collective::all_reduce:
        sent = received = world_.network.model().all_reduce_bytes_sent(p, charged());
        break;
      case Collective::broadcast:
        sent = broadcast_sends(r, call_.root, p) * charged();
        received = r == call_.root ? 0 : charged();
        break;
      case Collective::all_gather:
      case Collective::agree:
        sent = received = (p - 1) * charged();
        break;
      case Collective::reduce_scatter:
        sent = received = (p - 1) * charged() / p;
        break;
      case Collective::split:
        sent = received = (p - 1) * kSplitBytes;
        break;
      case Collective::barrier:
      case Collective::fence_together:
        break;
    }
    world_.count_sent(workers_[static_cast<std::size_t>(r)], call_.kind, sent);
    world_.count_received(workers_[static_cast<std::size_t>(r)], call_.kind, received);
  }
}

void Meeting::start_moving() {
  if (call_.collective == Collective::barrier || call_.collective == Collective::split) return;
  if (call_.collective == Collective::agree) return;
  const std::size_t n = call_.count;
  const std::size_t bytes = n * element_bytes(call_.element) * process_.size();
  const auto threads = static_cast<std::size_t>(world_.engine.pool().threads());
  const std::size_t tasks = std::min(threads, bytes / kTaskBytes);
  if (tasks == 0) return move(0, n);
  ranges_.clear();
  for (std::size_t i = 0; i < tasks; ++i)
    ranges_.push_back({this, n * i / tasks, n * (i + 1) / tasks});
  for (const Range& range : ranges_) world_.engine.pool().submit(tasks_.emplace_back(range));
}

void Meeting::move(std::size_t begin, std::size_t end) const {
  if (begin == end) return;
  const std::size_t n = end - begin;
  const auto from = [&](std::size_t r) { return static_cast<const std::byte*>(in_[r]) + begin; };
  switch (call_.collective) {
    case Collective::all_reduce:
      return reduce_all(begin, end);
    case Collective::reduce_scatter:
      return reduce_blocks(begin, end);
    case Collective::broadcast: {
      const auto root = static_cast<std::size_t>(call_.root);
      for (std::size_t r = 0; r < out_.size(); ++r) {
        if (r != root) std::memcpy(static_cast<std::byte*>(out_[r]) + begin, from(root), n);
      }
      return;
    }
    case Collective::all_gather:
      for (std::size_t source = 0; source < in_.size(); ++source) {
        for (void* all : out_) {
          auto* to = static_cast<std::byte*>(all) + source * call_.count + begin;
          if (to != from(source)) std::memcpy(to, from(source), n);
        }
      }
      return;
    default:
      return;
  }
}

void Meeting::reduce_all(std::size_t begin, std::size_t end) const {
  const std::size_t line = 64 / element_bytes(call_.element);
  const std::size_t window = std::max(line * 4, kWindowBytes / (64 * in_.size()) * line);
  for (std::size_t at = begin; at < end; at += window) {
    reduce_in_rank_order(in_, out_, at, std::min(at + window, end), call_.element, call_.op);
  }
}

void Meeting::reduce_blocks(std::size_t begin, std::size_t end) const {
  for (std::size_t r = 0; r < out_.size(); ++r) {
    const auto block = block_of(r, out_.size(), call_.count);
    reduce_in_rank_order(in_, {&out_[r], 1}, std::max(begin, block.begin), std::min(end, block.end),
                         call_.element, call_.op);
  }
}

void Meeting::form_groups() const {
  std::map<int, std::vector<std::size_t>> members;  // by colour
  const auto part = [&](std::size_t r) -> SplitPart& { return *static_cast<SplitPart*>(out_[r]); };
  for (std::size_t r = 0; r < out_.size(); ++r) {
    if (part(r).color >= 0) members[part(r).color].push_back(r);
  }
  for (auto& [color, ranks] : members) {
    std::stable_sort(ranks.begin(), ranks.end(),
                     [&](std::size_t a, std::size_t b) { return part(a).key < part(b).key; });
    std::vector<int> workers;
    for (const std::size_t r : ranks) workers.push_back(workers_[r]);
    const auto group = std::make_shared<Group>(world_, std::move(workers));
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      part(ranks[i]).group = group;
      part(ranks[i]).rank = static_cast<int>(i);
    }
  }
}

void Meeting::make_for_all() const {
  std::vector<std::byte> all(in_.size() * call_.count);
  for (std::size_t r = 0; r < in_.size(); ++r) {
    std::memcpy(all.data() + r * call_.count, in_[r], call_.count);
  }
  const auto part = [&](std::size_t r) -> AgreePart& { return *static_cast<AgreePart*>(out_[r]); };
  const auto made = (*part(0).make)(all.data());
  for (std::size_t r = 0; r < out_.size(); ++r) part(r).made = made;
}

}  // namespace hetsgd::sim
