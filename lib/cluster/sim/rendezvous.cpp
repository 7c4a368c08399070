#include "cluster/sim/rendezvous.hpp"

#include <algorithm>
#include <cstring>

#include "cluster/reduce.hpp"
#include "cluster/sim/comm.hpp"
#include "core/error.hpp"
#include "core/rank_index.hpp"

namespace hetsgd::sim {

namespace {

// Below this the host pool's hand-over costs more than the work; above it, what one task gets at
// least.
constexpr std::size_t kTaskBytes = std::size_t{256} << 10;
// A window of all ranks' vectors that stays in the second cache between its reading and its
// writing.
constexpr std::size_t kWindowBytes = std::size_t{1} << 20;
// Bytes that a split exchanges per rank: colour and key.
constexpr double kSplitBytes = 8;

// Messages that `rank` sends in a binomial broadcast. Counted from the root, a rank sends to itself
// plus 1, 2, 4, ... below its own lowest set bit (the root, which has none, to all of them): p - 1
// in all.
int broadcast_sends(int rank, int root, int size) {
  const int relative = (rank - root + size) % size;
  int sends = 0;
  for (int bit = 1; bit < size && (relative & bit) == 0; bit <<= 1) {
    if (relative + bit < size) ++sends;
  }
  return sends;
}

}  // namespace

Rendezvous::Rendezvous(World& world, const Members& members, CollectiveOrder* order)
    : world_(world),
      members_(members),
      order_(order),
      attendance_(members.workers.size()),
      arrival_(members.workers.size()),
      in_(members.workers.size()),
      out_(members.workers.size()) {}

// While the run is torn down (a destructor calls) the rank does not join: others' memory may be
// gone. block() then throws or returns, and the result is unspecified.
void Rendezvous::attend(int rank, const CollectiveRequest& request) {
  Engine& engine = world_.engine;
  Attendance mine{.process = &engine.begin_communication(collective_name(request.call.collective))};
  if (!engine.tearing_down()) join(rank, request, mine);
  const AwaitingOthers waiting(world_, *mine.process);
  engine.block([this] {
    return blocked_in_collective(collective_name(call_.collective), arrived_, size());
  });
}

void Rendezvous::join(int rank, const CollectiveRequest& request, Attendance& mine) {
  // All checks come before the first change, so that one that fails leaves the others as they are.
  const CollectiveCall& call = request.call;
  const std::size_t r = at(rank);
  if (attendance_[r] != nullptr) {
    throw CheckFailure(fmt::format(
        "rank {} calls {} in {} while its {} goes on in {}: give a background task a Comm of "
        "its own (split)",
        rank, describe(call), mine.process->name(), describe(call_),
        attendance_[r]->process->name()));
  }
  if (arrived_ == 0) {
    call_ = call;
    first_ = rank;
  } else {
    check_same_call(first_, call_, rank, call);
  }
  // Each pair is compared once, when the second of the two comes: p^2 / 2 comparisons per call.
  for (int other = 0; call.collective == Collective::all_to_all && other < size(); ++other) {
    if (attendance_[at(other)] == nullptr) continue;
    check_same_parts(other, parts(at(other)), rank, request.parts);
  }
  attendance_[r] = &mine;
  arrival_[r] = world_.engine.now();
  in_[r] = request.input();
  out_[r] = request.out;
  if (++arrived_ == size() && (order_ == nullptr || order_->may_begin(*this))) start();
}

// All may be here for long by then, or some not yet: then the last one to join starts it.
void Rendezvous::take_turn() {
  turn_ = world_.engine.now();
  if (arrived_ == size()) start();
}

// last_arrival_ is the time at which it begins; for a started call that is the turn, where it comes
// after the last arrival. The cost is known before any byte has moved: it depends on sizes alone.
void Rendezvous::start() {
  last_arrival_ = world_.engine.now();
  start_moving();
  count_bytes();
  const double seconds = cost(load()), latencies = cost({});
  transfer_ = world_.transfers.take();
  transfer_->begin(
      world_.engine, members_.network.hops, seconds,
      seconds > 0 ? (seconds - latencies) / seconds : 0,
      [](void* object) {
        auto& self = *static_cast<Rendezvous*>(object);
        self.world_.transfers.give_back(std::exchange(self.transfer_, nullptr));
        self.part_ended();
      },
      this);
  start_copies(seconds - latencies);
}

// Each rank copies its share on a core of the host as long as the bytes pass.
void Rendezvous::start_copies(double seconds) {
  parts_left_ = 1;
  if (seconds <= 0 || !world_.cores.shared()) return;
  while (copies_.size() < attendance_.size()) copies_.emplace_back();
  for (std::size_t r = 0; r < attendance_.size(); ++r) {
    if (!world_.computes_on_cores(members_.workers[r])) continue;
    ++parts_left_;
    copies_[r].start(
        world_.cores, seconds, [](void* object) { static_cast<Rendezvous*>(object)->part_ended(); },
        this);
  }
}

void Rendezvous::part_ended() {
  if (--parts_left_ == 0) complete();
}

void Rendezvous::finish_moving() {
  for (auto& task : tasks_) world_.engine.pool().finish(task);
}

// The event at the end. The order of its steps matters: the data are there before anybody is woken,
// the rendezvous is empty before the order may use it again, and the order comes last.
void Rendezvous::complete() {
  Engine& engine = world_.engine;
  finish_moving();
  for (auto& task : tasks_) {
    if (task.error()) std::rethrow_exception(task.error());
  }
  tasks_.clear();
  if (call_.collective == Collective::split) form_groups();
  if (call_.collective == Collective::agree) make_for_all();
  arrived_ = 0;
  for (std::size_t r = 0; r < attendance_.size(); ++r) {
    // Processes are woken and not resumed: all of them go on after this event, in the order of
    // ranks.
    Attendance& rank = *std::exchange(attendance_[r], nullptr);
    rank.complete = true;
    rank.begin = std::max(arrival_[r], turn_);
    rank.end = engine.now();
    if (!rank.started) {
      rank.process->breakdown->wait += Seconds(last_arrival_ - arrival_[r]);
      rank.process->breakdown->communicate += Seconds(engine.now() - last_arrival_);
      rank.process->communicated(last_arrival_, engine.now());
    }
    if (rank.process == nullptr) continue;
    const double late = engine.wake(*rank.process);
    if (!rank.started) rank.process->breakdown->wait += Seconds(late);
  }
  if (order_ != nullptr) order_->ended();
}

double Rendezvous::charged() const { return world_.network.charged(call_.bytes(), call_.kind); }

// The load of an all_to_all, as NetworkModel::all_to_all_cost wants it. A rank's link is full
// duplex, so the larger of what it sends and receives counts; what it keeps for itself passes no
// link.
Rendezvous::Load Rendezvous::busiest_load() const {
  const std::size_t all_ranks = at(size());
  const bool bus = members_.network.model.shared_bus;
  Load most, all;
  for (int r = 0; r < size(); ++r) {
    const AllToAll& mine = parts(at(r));
    const Inside out = inside(mine.send_counts, r), in = inside(mine.receive_counts, r);
    const auto charge = [&](std::size_t bytes, std::size_t parts) {
      return world_.network.charged_parts(bytes, parts, call_.kind);
    };
    const auto outside = [&](std::size_t bytes, const Inside& stays) {
      return charge(bytes - stays.elements * mine.width, all_ranks - 1 - stays.parts);
    };
    most.bytes =
        std::max({most.bytes, outside(mine.bytes_out(r), out), outside(mine.bytes_in(r), in)});
    most.inside = std::max({most.inside, charge(out.elements * mine.width, out.parts),
                            charge(in.elements * mine.width, in.parts)});
    all.bytes += outside(mine.bytes_out(r), out);
  }
  return bus ? all : most;
}

// Sums `counts`, by rank, over the other ranks in this rank's node; none without an inner level.
Rendezvous::Inside Rendezvous::inside(std::span<const std::size_t> counts, int rank) const {
  const std::vector<std::size_t>& node_of = members_.network.node_of;
  Inside sum;
  for (std::size_t r = 0; r < node_of.size(); ++r) {
    if (r == at(rank) || node_of[r] != node_of[at(rank)]) continue;
    sum.elements += counts[r];
    ++sum.parts;
  }
  return sum;
}

// A split gathers everybody's choice.
Rendezvous::Load Rendezvous::load() const {
  if (call_.collective == Collective::all_to_all) return busiest_load();
  return {call_.collective == Collective::split ? kSplitBytes : charged(), 0};
}

// while_paused_together never comes here: in this cluster nobody waits for it (SimEndpoint).
double Rendezvous::cost(const Load& load) const {
  const double bytes = load.bytes;
  const NetworkModel& model = members_.network.model;
  switch (call_.collective) {
    case Collective::all_reduce:
      return model.all_reduce_cost(size(), bytes).count();
    case Collective::broadcast:
      return (model.broadcast_scatters(size(), charged())
                  ? model.scattered_broadcast_cost(size(), bytes)
                  : model.tree_broadcast_cost(size(), bytes))
          .count();
    case Collective::all_gather:
    case Collective::agree:
    case Collective::split:
      return model.all_gather_cost(size(), bytes).count();
    case Collective::reduce_scatter:
      return model.reduce_scatter_cost(size(), bytes).count();
    case Collective::all_to_all:
      return model.all_to_all_cost(size(), bytes, load.inside).count();
    default:
      break;
  }
  return model.barrier_cost(size()).count();
}

// The same algorithms as cost(): ring, binomial tree or slices, dissemination (whose messages are
// empty).
void Rendezvous::count_bytes() const {
  const int p = size();
  for (int r = 0; r < p; ++r) {
    double sent = 0;
    double received = 0;
    switch (call_.collective) {
      case Collective::all_reduce:
        sent = received = members_.network.model.all_reduce_bytes_sent(p, charged());
        break;
      case Collective::broadcast:
        if (members_.network.model.broadcast_scatters(p, charged())) {
          // Everybody passes on what is not its own slice; the root has sent each the slice before.
          const double others = (p - 1) * charged() / p;
          sent = r == call_.root ? 2 * others : others;
          received = r == call_.root ? others : charged();
          break;
        }
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
      case Collective::all_to_all: {
        const AllToAll& mine = parts(at(r));
        const std::size_t others = at(p - 1);
        sent = world_.network.charged_parts(mine.bytes_out(r), others, call_.kind);
        received = world_.network.charged_parts(mine.bytes_in(r), others, call_.kind);
        break;
      }
      case Collective::split:
        sent = received = (p - 1) * kSplitBytes;
        break;
      default:
        break;
    }
    const int worker = members_.workers[at(r)];
    world_.count_sent(worker, call_.kind, sent);
    world_.count_received(worker, call_.kind, received);
  }
}

// Small calls are moved here and now, by the fiber of the last rank (or the event of the call
// before): its stack must do, which holds one block of 8 KiB in reduce_in_rank_order. Calls without
// data to move are done in complete(), as they make objects and not bytes.
void Rendezvous::start_moving() {
  if (call_.collective == Collective::barrier || call_.collective == Collective::split) return;
  if (call_.collective == Collective::agree) return;
  std::size_t n = call_.count;
  std::size_t bytes = call_.bytes() * attendance_.size();
  if (call_.collective == Collective::all_to_all) {  // ranges of receivers
    n = attendance_.size();
    bytes = 0;
    for (std::size_t r = 0; r < n; ++r) bytes += parts(r).send_bytes();
  }
  const auto threads = static_cast<std::size_t>(world_.engine.pool().threads());
  const std::size_t tasks = std::min(threads, bytes / kTaskBytes);
  if (tasks == 0) return move(0, n);
  // All ranges come first and then the tasks: a task refers to its range, which may not move any
  // more. The tasks lie in a deque for the same reason. Every element belongs to one range, so the
  // ranges need no lock, and how many there are changes no bit: sums are per element, in rank
  // order.
  ranges_.clear();
  for (std::size_t i = 0; i < tasks; ++i)
    ranges_.push_back({this, n * i / tasks, n * (i + 1) / tasks});
  for (const Range& range : ranges_) world_.engine.pool().submit(tasks_.emplace_back(range));
}

void Rendezvous::move(std::size_t begin, std::size_t end) const {
  if (begin == end) return;
  if (call_.collective == Collective::all_to_all) return move_parts(in_, begin, end);
  const std::size_t n = end - begin;
  const auto from = [&](std::size_t r) { return static_cast<const std::byte*>(in_[r]) + begin; };
  switch (call_.collective) {
    case Collective::all_reduce:
      return reduce_all(begin, end);
    case Collective::reduce_scatter:
      return reduce_blocks(begin, end);
    case Collective::broadcast: {
      const auto root = at(call_.root);
      for (std::size_t r = 0; r < out_.size(); ++r) {
        if (r != root) std::memcpy(static_cast<std::byte*>(out_[r]) + begin, from(root), n);
      }
      return;
    }
    // A rank's own part may lie in its place already.
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

// Reduces window by window, so that what is read is still in the cache when it is overwritten:
// inputs and outputs are the same memory. A window is whole cache lines, four at least. It is
// shorter than the block of reduce_in_rank_order where there are more than 128 ranks, and else does
// not matter.
void Rendezvous::reduce_all(std::size_t begin, std::size_t end) const {
  const std::size_t line = 64 / element_bytes(call_.element);
  const std::size_t window = std::max(line * 4, kWindowBytes / (64 * in_.size()) * line);
  for (std::size_t at = begin; at < end; at += window) {
    reduce_in_rank_order(in_, out_, at, std::min(at + window, end), call_.element, call_.op);
  }
}

// In place and without a copy: an element's result goes to the one rank that owns its block, whose
// own contribution of that element has been read by then.
void Rendezvous::reduce_blocks(std::size_t begin, std::size_t end) const {
  for (std::size_t r = 0; r < out_.size(); ++r) {
    const Block block = block_of(static_cast<int>(r), size(), call_.count);
    reduce_in_rank_order(in_, {&out_[r], 1}, std::max(begin, block.begin), std::min(end, block.end),
                         call_.element, call_.op);
  }
}

// The new groups' workers are named by their ranks in the run, also where this group is itself a
// part.
void Rendezvous::form_groups() const {
  const auto part = [&](int r) { return static_cast<SplitPart*>(out_[at(r)]); };
  std::vector<SplitChoice> choices;
  for (int r = 0; r < size(); ++r) choices.push_back(part(r)->choice);
  for (const std::vector<int>& ranks : plan_groups(choices)) {
    std::vector<int> workers;
    for (const int r : ranks) workers.push_back(members_.workers[at(r)]);
    const auto group = std::make_shared<Group>(world_, std::move(workers));
    int rank = 0;
    for (const int r : ranks) part(r)->comm = std::make_unique<SimComm>(group, rank++);
  }
}

// One rank's `make` makes the result for all, which is right because it must be the same
// everywhere. With P ranks this is P times less work and memory than each on its own. It runs on
// the event loop, where no process is current: a `make` that blocks is refused (Comm::agree).
void Rendezvous::make_for_all() const {
  std::vector<std::byte> all(in_.size() * call_.count);
  for (std::size_t r = 0; r < in_.size(); ++r) {
    std::memcpy(all.data() + r * call_.count, in_[r], call_.count);
  }
  const auto made = (*static_cast<AgreePart*>(out_.front())->make)(all.data());
  for (void* part : out_) static_cast<AgreePart*>(part)->made = made;
}

}  // namespace hetsgd::sim
