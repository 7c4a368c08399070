#include "cluster/mpi/run.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "cluster/blocking.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {

using threads::ProcessKind;
using threads::Until;

namespace {

// Round trips in which a clock's offset is measured; the fastest one counts.
constexpr int kOffsetTrips = 32;
// Unfinished sends get the channel's thread to themselves while they advance.
constexpr auto kAdvancing = std::chrono::microseconds(300);
constexpr std::size_t kReapedByTick = 64;

// What a rank reports of its run; its cores and its device, as text, follow.
struct RankReport {
  Ledger ledger;
  std::size_t cores = 0;
  Seconds elapsed{0}, fenced{0}, clock_offset{0};
};

}  // namespace

Run::Run(const ClusterOptions& options, const Placement& placement)
    : environment_(Environment::get()),
      coordinator_(environment_.coordinator()),
      options_(options),
      placement_(placement),
      rank_(environment_.rank().rank),
      size_(environment_.rank().size),
      workers_(options.workers),
      host_(options.service_rank ? size_ - 1 : 0),
      world_(
          std::max(1, static_cast<int>(placement.cores.size()) / environment_.rank().local_size)),
      gpus_(options.all_reduce, placement.device.gpu),
      gives_gpu_memory_(gives_gpu_memory()) {
  world_.set_crowded(placement.crowded);
  std::vector<int> all(static_cast<std::size_t>(workers_));
  std::iota(all.begin(), all.end(), 0);
  everybody_ = std::make_shared<Group>(0, std::move(all));
}

// A communicator of its own for each run: a message that nobody received is none of the next run's.
// It is never freed: who frees it can get its number again, and with it such messages.
ClusterReport Run::run(const std::function<void(Node&)>& worker) {
  struct Ended {  // handlers may refer to what the caller owns
    std::vector<std::shared_ptr<MpiService>>& services;
    ~Ended() { services.clear(); }
  } ended{services_};
  std::exception_ptr error;
  enter_thread();
  if (coordinator_.begin(*this, options_.peer_timeout)) {
    try {
      check(MPI_Comm_dup(MPI_COMM_WORLD, &messages_), "MPI_Comm_dup");
      offset_ns_ = measure_offset();
      transport_ =
          std::make_unique<Transport>(messages_, world_, rank_, coordinator_.everybody_quiet());
      started_ = transport_.get();
      if (rank_ < workers_) start_worker(worker);
    } catch (...) {
      world_.abort(std::current_exception());
    }
    try {
      world_.run(rank_ < workers_ ? 1 : 0,
                 {.start = [this] { return start_clock(); },
                  .ended = [this] { finish(); },
                  .aborted = [this](std::exception_ptr e) { coordinator_.fail(std::move(e)); }});
    } catch (...) {
      error = std::current_exception();
    }
  } else {
    finish();
  }
  gpus_.close();  // where it failed before all had come to the end
  const auto failure = coordinator_.end_run();
  if (failure || error) environment_.note_failure();
  if (error && size_ == 1) std::rethrow_exception(error);  // as it was thrown
  if (failure) std::rethrow_exception(failure->exception());
  if (error) std::rethrow_exception(error);
  return report();
}

// The clocks of one host are one clock.
std::int64_t Run::measure_offset() {
  const auto& ranks = environment_.ranks();
  const auto trip = [&](int peer, bool asks) {
    std::int64_t time = World::monotonic_ns();
    const auto send = [&] {
      check(MPI_Send(&time, 1, MPI_INT64_T, peer, 0, messages_), "MPI_Send");
    };
    if (asks) send();
    std::int64_t other = 0;
    check(MPI_Recv(&other, 1, MPI_INT64_T, peer, 0, messages_, MPI_STATUS_IGNORE), "MPI_Recv");
    time = World::monotonic_ns();
    if (!asks) send();
    return other;
  };
  if (rank_ == 0) {
    for (int peer = 1; peer < size_; ++peer) {
      if (ranks[static_cast<std::size_t>(peer)].host == ranks[0].host) continue;
      for (int i = 0; i < kOffsetTrips; ++i) trip(peer, false);
    }
    return 0;
  }
  if (environment_.rank().host == ranks[0].host) return 0;
  std::int64_t best = std::numeric_limits<std::int64_t>::max(), offset = 0;
  for (int i = 0; i < kOffsetTrips; ++i) {
    const std::int64_t begin = World::monotonic_ns();
    const std::int64_t theirs = trip(0, true);
    const std::int64_t end = World::monotonic_ns();
    if (end - begin >= best) continue;
    best = end - begin;
    offset = begin + (end - begin) / 2 - theirs;
  }
  return offset;
}

std::int64_t Run::start_clock() {
  const std::int64_t at = coordinator_.set_up(offset_ns_);
  std::this_thread::sleep_for(std::chrono::nanoseconds(at - World::monotonic_ns()));
  return at;
}

void Run::finish() {
  reports_ = coordinator_.end(report_of_this_rank());
  gpus_.close();
  ended_ = true;
}

// --- processes

void Run::set_up(Process& me, bool pin) {
  auto pinned = pin ? placement_.pinned : std::vector<int>();
  if (!pinned.empty() && !threads::pin_to(pinned)) pinned.clear();
  // A thread starts with the mask of its maker, which may be pinned.
  if (pinned.empty()) threads::pin_to(placement_.cores);
  if (pin) pinned_ = pinned;
  me.device = threads::make_device(placement_.device, options_.precision);
  me.device_text = threads::device_text(placement_.device, pinned);
  if (gives_gpu_memory_) me.exchange = cuda::make_exchange_memory(placement_.device.gpu);
  if (placement_.device.gpu < 0 || gives_gpu_memory_ || options_.all_reduce != AllReduce::mpi)
    return;
  throw with_hint(
      device_error("--all-reduce mpi: this MPI library takes no pointers to GPU memory"),
      "use --all-reduce auto, or an MPI library built with CUDA (mpirun hetsgd doctor tells)");
}

// Copies between processes that take turns on one GPU cost a turn each; the way through the host
// has fewer of them. Two ranks on one H200, ssgd on Delicious (0.76 MB of gradients), 101 steps: 0.25 s
// through the host, 0.34 s by a CUDA-aware Open MPI 4.1.4 (results/gpu.md).
bool Run::gives_gpu_memory() const {
  const AllReduce way = options_.all_reduce;
  if (placement_.device.gpu < 0 || way == AllReduce::host) return false;
  return (way == AllReduce::mpi || !placement_.shares_gpu) && mpi_cuda_aware();
}

// MPI makes progress in whichever thread calls it.
void Run::enter_thread() const {
  if (gives_gpu_memory_) cuda::make_current(placement_.device.gpu);
}

void Run::start_worker(const std::function<void(Node&)>& worker) {
  auto process = std::make_unique<Process>();
  process->name = worker_name(rank_);
  process->rank = rank_;
  world_.start(std::move(process), [this, &worker](Process& me) {
    set_up(me, true);
    MpiNode node(*this, me);
    world_.await_start();
    worker(node);
    coordinator_.worker_left(host_);
  });
}

void Run::start_companion(Process& parent, const std::string& name, std::function<void(Node&)> fn) {
  auto process = std::make_unique<Process>();
  process->name = companion_name(name, rank_);
  process->kind = ProcessKind::companion;
  process->rank = rank_;
  process->parent = &parent;
  world_.start(std::move(process), [this, fn = std::move(fn)](Process& me) {
    set_up(me, false);
    MpiNode node(*this, me);
    fn(node);
  });
}

// --- groups

int Run::new_group() {
  class ForNumber final : public threads::Poll {
   public:
    explicit ForNumber(Coordinator& coordinator) : coordinator_(coordinator) {}
    bool done() override { return (number = coordinator_.take_group()) != 0; }
    void cancel() override {}
    std::string describe() const override { return "waits for rank 0"; }
    int number = 0;

   private:
    Coordinator& coordinator_;
  } number(coordinator_);
  coordinator_.ask_for_group();
  world_.poll_until(number);
  if (number.number >= transport_->tags().groups()) {
    throw CheckFailure(
        fmt::format("more than {} groups in one run", transport_->tags().groups() - 1));
  }
  return number.number;
}

// --- fences

void Run::fence(FunctionRef fn) {
  if (size_ == 1) return world_.fence(fn);
  auto lock = world_.enter();
  fenced_by_me(lock, false, fn);
  world_.park(lock);
}

void Run::fence_together(MpiComm& comm, FunctionRef fn) {
  if (size_ == 1) return world_.fence(fn);
  comm.meet(Collective::fence_together);
  auto lock = world_.lock();
  const std::uint64_t mine = ++together_begun_;
  // From here on the clock is to stand; rank 0's word that all have stopped comes later. Or it has
  // come already and the fence is over: it may have caught this worker in its last look for a
  // message.
  if (together_done_ < mine) world_.stop_from_outside(lock);
  if (rank_ == 0) fenced_by_me(lock, true, fn);
  const Until done([&] { return together_done_ >= mine; },
                   [] { return "waits for the end of a common fence"; });
  world_.block_for_others(lock, done);
}

void Run::fenced_by_me(World::Lock& lock, bool together, FunctionRef fn) {
  FenceRequest request{&World::current()};
  struct Enlisted {  // the mutex is held at both ends
    std::deque<FenceRequest*>& list;
    FenceRequest* request;
    ~Enlisted() { std::erase(list, request); }
  };
  {
    fence_requests_.push_back(&request);
    const Enlisted enlisted{fence_requests_, &request};
    coordinator_.ask_for_fence(together);
    const Until granted([&] { return request.granted; }, [] { return "waits for a fence"; });
    world_.block_for_others(lock, granted);
  }
  world_.run_granted(lock, fn);
  coordinator_.fence_done();
}

void Run::grant() {
  const auto lock = world_.lock();
  if (fence_requests_.empty()) return;  // unwound
  FenceRequest& request = *fence_requests_.front();
  fence_requests_.pop_front();
  request.granted = true;
  world_.grant(*request.process);
}

void Run::resume(std::int64_t at, bool together) {
  auto lock = world_.lock();
  if (together) ++together_done_;
  world_.resume_from_outside(lock, at);
}

Pace Run::pace() {
  if (!std::exchange(channel_entered_, true)) enter_thread();
  const bool openers_wait = answer_openers();
  Sends& sends = Sends::get();
  const auto now = std::chrono::steady_clock::now();
  if (sends.idle()) {
    progress_ = now;
    return openers_wait ? Pace::soon : Pace::calm;
  }
  if (sends.reap(kReapedByTick)) progress_ = now;
  return now - progress_ < kAdvancing ? Pace::at_once : Pace::soon;
}

std::optional<Seconds> Run::blocked(std::vector<BlockedProcess>& waiting) {
  const auto since = world_.blocked_since(waiting);
  return since ? std::optional(world_.now() - *since) : std::nullopt;
}

// --- the report

std::vector<std::byte> Run::report_of_this_rank() const {
  RankReport mine;
  std::string device;
  for (const auto& process : world_.processes()) {
    if (process->kind == ProcessKind::service) continue;  // ends after the run
    mine.elapsed = std::max(mine.elapsed, process->since);
    if (process->kind != ProcessKind::worker) continue;
    mine.ledger = process->ledger;
    device = process->device_text;
  }
  for (const auto& process : world_.processes()) {
    if (process->kind == ProcessKind::companion) mine.ledger.add_traffic(process->ledger);
  }
  mine.fenced = world_.fenced();
  mine.clock_offset = std::chrono::nanoseconds(offset_ns_);
  mine.cores = pinned_.size();
  std::vector<std::byte> bytes;
  detail::put(bytes, &mine, sizeof mine);
  detail::put(bytes, pinned_.data(), pinned_.size() * sizeof(int));
  detail::put(bytes, device.data(), device.size());
  return bytes;
}

ClusterReport Run::report() const {
  ClusterReport report;
  report.fenced = world_.fenced();
  for (std::size_t r = 0; r < std::min(reports_.size(), static_cast<std::size_t>(workers_)); ++r) {
    std::span<const std::byte> bytes = reports_[r];
    RankReport one;
    HETSGD_CHECK_GE(bytes.size(), sizeof one);
    std::memcpy(&one, bytes.data(), sizeof one);
    bytes = bytes.subspan(sizeof one);
    std::vector<int> cores(one.cores);
    HETSGD_CHECK_GE(bytes.size(), one.cores * sizeof(int));
    if (one.cores > 0) std::memcpy(cores.data(), bytes.data(), one.cores * sizeof(int));
    bytes = bytes.subspan(one.cores * sizeof(int));
    report.elapsed = std::max(report.elapsed, one.elapsed);
    const MpiRank& rank = environment_.ranks()[r];
    report.workers.push_back({.rank = static_cast<int>(r),
                              .device = {reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                              .ledger = one.ledger,
                              .cores = std::move(cores),
                              .host = rank.host,
                              .pid = rank.pid,
                              .clock_offset = one.clock_offset});
  }
  return report;
}

// --- the node

MpiNode::MpiNode(Run& run, Process& process)
    : ProcessNode(run.world_, run.options_, process),
      run_(run),
      comm_(*run.transport_, run, run.everybody_, run.rank_),
      caller_(run.callers_++ % Tags::kUserTags) {}

void MpiNode::companion(std::string name, std::function<void(Node&)> fn) {
  world_.safepoint();
  process_.device->synchronize();  // the companion's device may go on where this one stands
  run_.start_companion(process_, name, std::move(fn));
}

std::shared_ptr<ServicePort> MpiNode::open_portable_service(
    const std::string& name, const std::function<std::unique_ptr<ServiceHandler>()>& factory,
    const std::function<ServiceRecipe()>& recipe) {
  world_.safepoint();
  run_.open_service(name, factory, recipe);
  return std::make_shared<MpiPort>(*run_.transport_, name, caller_, run_.host_);
}

}  // namespace hetsgd::mpi
