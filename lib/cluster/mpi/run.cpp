#include "cluster/mpi/run.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "cluster/blocking.hpp"
#include "core/byte_stream.hpp"
#include "core/error.hpp"
#include "core/rank_index.hpp"

namespace hetsgd::mpi {

namespace {

// Round trips in which a clock's offset is measured. The fastest one counts: its error is at most
// half of its length.
constexpr int kOffsetTrips = 32;
// While unfinished sends advance they have the channel's thread to themselves. They advance if the
// last one completed no longer ago than this.
constexpr auto kAdvancing = std::chrono::microseconds(300);
// At most this number of unfinished sends is tested at once, so that a look stays short.
constexpr std::size_t kReapedByTick = 64;
// After a failure the other ranks are waited for so long before the clock runs.
constexpr auto kRanksLimit = std::chrono::seconds(10);
// How often a rank that has ended looks whether all ranks have halted.
constexpr auto kLookForVote = std::chrono::microseconds(50);
// A message of an earlier segment that nobody has received stays in flight, and is not waited for.
constexpr auto kDropLimit = std::chrono::seconds(2);
// The most bytes of a service's arguments that one control message carries: MPI counts in int.
constexpr std::size_t kMostArguments = std::numeric_limits<int>::max() - 4096;

// One rank's report on its run.
struct RankReport {
  TimeBreakdown breakdown{};
  std::vector<int> cores{};
  std::string device{};
  Seconds elapsed{0}, paused{0}, clock_offset{0}, ended{0};

  static constexpr auto members() {
    using R = RankReport;
    return std::tuple(&R::breakdown, &R::cores, &R::device, &R::elapsed, &R::paused,
                      &R::clock_offset, &R::ended);
  }
};

// Worker w runs in rank w of the world.
std::vector<int> view_of(const ClusterOptions& options, const Segment& segment) {
  std::vector<int> view = segment.view;
  if (view.empty()) {
    view.resize(at(options.workers));
    std::iota(view.begin(), view.end(), 0);
  }
  return view;
}

}  // namespace

MpiRun::MpiRun(const ClusterOptions& options, Segment& segment, const Placement& placement)
    : RealtimeRun(options, segment, placement.cores,
                  std::max(1, static_cast<int>(placement.cores.size()) /
                                  Environment::get().place().local_size)),
      environment_(Environment::get()),
      coordinator_(environment_.coordinator()),
      placement_(placement),
      rank_(environment_.rank()),
      size_(environment_.size()),
      view_(view_of(options, segment)),
      rank_here_(rank_in_view(rank_)),
      may_lose_(options.scenario && options.scenario->has_failures()),
      host_(options.service_rank ? size_ - 1 : 0),
      gpus_(options.all_reduce, placement.seat.device.gpu),
      gives_gpu_memory_(gives_gpu_memory()) {
  world_.set_oversubscribed(placement.oversubscribed);
  // A rank without a worker is in no group: it makes no call of Comm.
  everybody_ = std::make_shared<Group>(0, view_);
}

int MpiRun::rank_in_view(int world_rank) const {
  const auto found = std::ranges::find(view_, world_rank);
  return found == view_.end() ? -1 : static_cast<int>(found - view_.begin());
}

// A communicator of its own for each run: a message that nobody received is none of the next run's.
// It is never freed: a later communicator could get its number again, and with it such messages.
//
// Every way through this function comes to end() and end_run(), on every rank: an error before the
// workers start aborts the World, whose run() then returns with it.
ClusterReport MpiRun::run(const std::function<void(Endpoint&)>& worker) {
  struct Ended {  // handlers may refer to what the caller owns
    ServiceList<MpiService>& services;
    ~Ended() { services.clear(); }
  } ended{services_};
  std::exception_ptr error;
  // The caller's thread calls MPI below.
  enter_thread();
  if (coordinator_.begin(*this, options_.peer_timeout)) {
    try {
      // All ranks have come to begin(), and so they make the same calls of MPI.
      duplicate_world();
      offset_ns_ = measure_offset();
      transport_ =
          std::make_unique<Transport>(messages_, world_, rank_, coordinator_.everybody_quiet());
      started_ = transport_.get();
      if (has_worker()) {
        start_worker(rank_here_, placement_.seat, [this, &worker](Process& me) {
          MpiEndpoint endpoint(*this, me);
          worker(endpoint);
          // Not reached where the worker is unwound: the whole run ends then, or the segment.
          coordinator_.services().worker_left(host_);
        });
      }
    } catch (...) {
      world_.abort(std::current_exception());
    }
    try {
      run_world();
    } catch (...) {
      error = std::current_exception();
    }
  } else {
    finish();
  }
  gpus_.close();  // needed where the run failed before all had come to the end
  // `error` is this rank's own, or the failure that the coordinator gave the World. Only the
  // failure that all agree on counts. It is missing only if this error came too late to be told.
  const auto failure = coordinator_.end_run();
  if (failure || error) environment_.remember_failure();
  if (error && size_ == 1) std::rethrow_exception(error);  // as it was thrown
  if (failure) std::rethrow_exception(failure->exception());
  if (error) std::rethrow_exception(error);
  segment_.end([&](SavedFields& fields) {
    services_.for_each([&](MpiService& service) { service.save(fields); });
  });
  return report();
}

void MpiRun::run_world() {
  try {
    // This calls start_clock() when the worker is set up, and finish() when nothing but services is
    // left. `aborted` is called with the world's mutex held.
    world_.run(has_worker() ? 1 : 0,
               {.start = [this] { return start_clock(); },
                .ended = [this] { finish(); },
                .aborted = [this](std::exception_ptr e) { coordinator_.fail(std::move(e)); }});
  } catch (const LostWorkers& loss) {
    fill_in_lost_workers(loss, options_, segment_);
    drop_messages();
  }
}

std::vector<Calls> MpiRun::lose(Seconds detected) {
  // In this order: a process that finds the check-ins closed halts.
  world_.lose(detected);
  std::vector<Calls> calls = check_ins_.close();
  if (segment_.losing) segment_.losing();
  return calls;
}

// A send that waits for its receiver would stay in flight for ever, since its receiver has left.
void MpiRun::drop_messages() {
  Sends& sends = Sends::get();
  const auto end = std::chrono::steady_clock::now() + kDropLimit;
  const auto drop_until = [&](auto done) {
    while (!done()) {
      if (!transport_->drop_arrived() && !sends.reap(kReapedByTick)) std::this_thread::yield();
    }
  };
  drop_until([&] { return sends.idle() || std::chrono::steady_clock::now() > end; });
  coordinator_.emptied();
  drop_until([&] { return coordinator_.everybody_emptied(); });
}

// A call of MPI that blocks would keep its core, which other ranks may need in order to come, and
// would not end where a rank stands still. A failure that leaves all ranks alive ends the wait only
// after a while: the others still come as a rule, and all have as many communicators then.
template <class Done>
void MpiRun::await_ranks(Done done) {
  std::optional<std::chrono::steady_clock::time_point> give_up;
  while (!done()) {
    std::this_thread::yield();
    if (!world_.aborting()) continue;
    const auto now = std::chrono::steady_clock::now();
    if (!give_up) give_up = now + kRanksLimit;
    if (coordinator_.loss() || now > *give_up) {
      throw runtime_failure("the run failed while rank {} waited for the others", rank_);
    }
  }
}

void MpiRun::duplicate_world() {
  // Where the wait is given up MPI may still write the number of the communicator.
  static std::deque<MPI_Comm> numbers;
  MPI_Comm& number = numbers.emplace_back(MPI_COMM_NULL);
  MPI_Request request;
  check(MPI_Comm_idup(MPI_COMM_WORLD, &number, &request), "MPI_Comm_idup");
  await_ranks([&] { return test(request); });
  messages_ = number;
}

// Cristian's algorithm: a rank sends to rank 0, which answers with its time, and takes it for the
// middle of the round trip. Ranks take turns at rank 0. The clocks of one host are one clock. It is
// measured once: a drift of the clocks during the run is not corrected.
std::int64_t MpiRun::measure_offset() {
  const auto& ranks = environment_.places();
  // One side of a round trip. Returns the time that the peer sent; rank 0 ignores it.
  const auto trip = [&](int peer, bool asks) {
    std::int64_t time = TrainingClock::monotonic_ns();
    const auto send = [&] {
      check(MPI_Send(&time, 1, MPI_INT64_T, peer, 0, messages_), "MPI_Send");
    };
    if (asks) send();
    std::int64_t other = 0;
    int found = 0;
    await_ranks([&] {
      check(MPI_Iprobe(peer, 0, messages_, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
      return found != 0;
    });
    check(MPI_Recv(&other, 1, MPI_INT64_T, peer, 0, messages_, MPI_STATUS_IGNORE), "MPI_Recv");
    time = TrainingClock::monotonic_ns();
    if (!asks) send();
    return other;
  };
  if (rank_ == 0) {
    for (int peer = 1; peer < size_; ++peer) {
      if (ranks[at(peer)].host == ranks[0].host) continue;
      for (int i = 0; i < kOffsetTrips; ++i) trip(peer, false);
    }
    return 0;
  }
  if (environment_.place().host == ranks[0].host) return 0;
  std::int64_t best = std::numeric_limits<std::int64_t>::max(), offset = 0;
  for (int i = 0; i < kOffsetTrips; ++i) {
    const std::int64_t begin = TrainingClock::monotonic_ns();
    const std::int64_t theirs = trip(0, true);
    const std::int64_t end = TrainingClock::monotonic_ns();
    // The rest of a long trip is waiting in one direction or the other, which moves the middle.
    if (end - begin >= best) continue;
    best = end - begin;
    offset = begin + (end - begin) / 2 - theirs;
  }
  return offset;
}

std::int64_t MpiRun::start_clock() {
  const std::int64_t at = coordinator_.set_up(offset_ns_);
  // The start lies in the future by a short notice, unless the run has failed.
  std::this_thread::sleep_for(std::chrono::nanoseconds(at - TrainingClock::monotonic_ns()));
  return at;
}

// A rank that loses workers comes to the end when all ranks have halted (FailureVote): else one
// whose worker had ended could leave the segment before it hears of the loss.
void MpiRun::finish() {
  while (world_.losing() && !check_ins_.is_decided()) std::this_thread::sleep_for(kLookForVote);
  reports_ = coordinator_.end(report_of_this_rank());
  // All ranks have ended, or the run has failed: no communicator of NCCL is in use. Services, which
  // use none, go on until ended_ is set.
  gpus_.close();
  ended_ = true;
}

// --- processes

void MpiRun::prepare(Process& me) {
  if (gives_gpu_memory_) me.exchange = cuda::make_exchange_memory(placement_.seat.device.gpu);
  if (placement_.seat.device.gpu < 0 || gives_gpu_memory_ || options_.all_reduce != AllReduce::mpi)
    return;
  throw with_hint(
      device_error("--all-reduce mpi: this MPI library does not accept pointers to GPU memory"),
      "use --all-reduce auto, or an MPI library with CUDA support (see mpirun hetsgd doctor)");
}

// Copies between processes that take turns on one GPU cost a turn each, and the way through the
// host has fewer of them: so ranks that share a GPU take that way (results/gpu.md), unless
// --all-reduce mpi asks for the other one.
bool MpiRun::gives_gpu_memory() const {
  const AllReduce way = options_.all_reduce;
  if (placement_.seat.device.gpu < 0 || way == AllReduce::host) return false;
  return (way == AllReduce::mpi || !placement_.shares_gpu) && environment_.takes_gpu_memory();
}

// MPI makes progress in whichever thread calls it, and may copy GPU memory of other threads'
// messages there: so that thread needs the GPU as its current one.
void MpiRun::enter_thread() const {
  if (gives_gpu_memory_) cuda::make_current(placement_.seat.device.gpu);
}

Process& MpiRun::start_helper(Process& parent, const std::string& name,
                              std::function<void(Endpoint&)> fn, ProcessKind kind) {
  return start_helper_on(placement_.seat.device, parent, name, kind,
                         [this, fn = std::move(fn)](Process& me) {
                           MpiEndpoint endpoint(*this, me);
                           fn(endpoint);
                         });
}

// --- groups

int MpiRun::new_group() {
  coordinator_.groups().ask();
  const int number = poll_for(
      world_, [&] { return coordinator_.groups().take(); }, [] { return "waits for rank 0"; });
  // All ranks of the new group get this number, and the rank that asked throws for all.
  if (number >= transport_->tags().groups()) {
    throw CheckFailure(
        fmt::format("more than {} groups in one run", transport_->tags().groups() - 1));
  }
  return number;
}

// --- services

// The services' rank. Making one holds the mutex of services_, so two openers never make it twice.
void MpiRun::make_service(const std::string& name,
                          const std::function<std::unique_ptr<ServiceHandler>()>& factory) {
  // A factory that comes after the end has nobody to serve.
  if (ended_) return;
  services_.open(name, [&](const auto& others) {
    // Names are tags: two names with one number would take each other's requests.
    for (const auto& [other, service] : others) {
      if (service_number(other) == service_number(name)) {
        throw CheckFailure(fmt::format(
            "services \"{}\" and \"{}\" have the same number: rename one", other, name));
      }
    }
    std::unique_ptr<ServiceHandler> handler = factory();
    load_service(segment_, name, *handler);
    auto service =
        std::make_shared<MpiService>(*transport_, name, std::move(handler), ended_,
                                     [this](int world_rank) { return rank_in_view(world_rank); });
    // Its thread posts the first receive; requests that have come before wait in MPI.
    start_service(name, [this, service = service.get()](Process&) {
      enter_thread();
      service->serve();
    });
    return service;
  });
}

void MpiRun::open_service(const std::string& name, const ServiceFactory& factory) {
  if (rank_ == host_) return make_service(name, factory.make);
  if (factory.serialise) {
    ServiceDirectory& directory = coordinator_.services();
    directory.ask(host_, name);
    // The answer comes on the channel's thread; the process polls, so that a pause or an abort
    // reaches it.
    const bool wanted = poll_for(
        world_, [&] { return directory.take_wanted(name); },
        [&] { return "opens " + service_name(name); });
    if (!wanted) return;
    const SerialisedFactory sent = factory.serialise();
    if (sent.arguments.size() <= kMostArguments) return directory.send_factory(host_, name, sent);
  }
  // The worker there must open it: a handler that cannot be sent can be made there alone.
  if (rank_in_view(host_) >= 0) return;
  throw CheckFailure(fmt::format(
      "{} is opened by rank {} and would run in rank {}, but its arguments do not travel",
      service_name(name), rank_, host_));
}

// --- pauses

void MpiRun::while_paused(FunctionRef fn) {
  if (size_ == 1) return world_.while_paused(fn);
  auto lock = world_.enter();
  // The calling process blocks in pause_for_me, and counts as stopped like all others.
  pause_for_me(lock, false, fn);
  world_.park(lock);
}

void MpiRun::while_paused_together(MpiComm& comm, FunctionRef fn) {
  if (size_ == 1) return world_.while_paused(fn);
  // Workers stand here together, so that no one of them is on the clock while another waits for it.
  comm.meet(Collective::while_paused_together);
  auto lock = world_.lock();
  const std::uint64_t mine = ++together_begun_;
  // From here on the clock is to stand; rank 0's word that all have stopped comes later. Or the
  // word has come already and the pause is over: it may have caught this worker in its last look
  // for a message.
  if (together_done_ < mine) world_.stop_from_outside(lock);
  if (comm.rank() == 0) pause_for_me(lock, true, fn);
  // The owner, on the first rank, comes here too: its fn has ended, but the clock stands until all
  // resume.
  const Until done([&] { return together_done_ >= mine; },
                   [] { return "waits for the end of a common pause"; });
  world_.block_for_others(lock, done);
}

void MpiRun::pause_for_me(World::Lock& lock, bool together, FunctionRef fn) {
  PauseRequest request{&World::current()};
  {
    const Enlisted enlisted(pause_requests_, request);
    // With the world's mutex held: the order of this list is the order in which rank 0 hears of
    // them.
    coordinator_.pause().ask(together);
    const Until granted([&] { return request.granted; }, [] { return "waits for a pause"; });
    world_.block_for_others(lock, granted);
  }
  // Without the mutex: fn may take its time. The clock goes on only when rank 0 has told all.
  try {
    world_.run_granted(lock, fn);
  } catch (...) {  // the algorithm may catch it and go on
    coordinator_.pause().done();
    throw;
  }
  coordinator_.pause().done();
}

void MpiRun::grant() {
  const auto lock = world_.lock();
  // The process that asked has been unwound; the run has failed, and nobody resumes.
  if (pause_requests_.empty()) return;
  PauseRequest& request = *pause_requests_.front();
  pause_requests_.pop_front();
  request.granted = true;
  world_.grant(*request.process);
}

void MpiRun::resume(std::int64_t at, bool together) {
  auto lock = world_.lock();
  // The count rises before the threads go on: those that wait for it look at it then.
  if (together) ++together_done_;
  world_.resume_from_outside(lock, at);
}

Pace MpiRun::pace() {
  if (!std::exchange(channel_entered_, true)) enter_thread();
  Sends& sends = Sends::get();
  const auto now = std::chrono::steady_clock::now();
  // No send is in flight: the channel need not hurry.
  if (sends.idle()) {
    progress_ = now;
    return Pace::calm;
  }
  if (sends.reap(kReapedByTick)) progress_ = now;
  // Sends that do not advance wait for their receivers, which may take any time.
  return now - progress_ < kAdvancing ? Pace::at_once : Pace::soon;
}

std::optional<Seconds> MpiRun::blocked(std::vector<BlockedProcess>& waiting) {
  const auto since = world_.blocked_since(waiting);
  return since ? std::optional(world_.now() - *since) : std::nullopt;
}

// --- the report

std::vector<std::byte> MpiRun::report_of_this_rank() const {
  ClusterReport local = local_report();
  // A rank of services reports an empty worker, which report() leaves out.
  if (local.workers.empty()) local.workers.emplace_back();
  const WorkerReport& worker = local.workers.front();
  return to_bytes(RankReport{.breakdown = worker.breakdown,
                             .cores = worker.cores,
                             .device = worker.device,
                             .elapsed = local.elapsed,
                             .paused = local.paused,
                             .clock_offset = std::chrono::nanoseconds(offset_ns_),
                             .ended = worker.ended});
}

ClusterReport MpiRun::report() const {
  if (rank_ != 0) return local_report();
  ClusterReport report;
  report.paused = world_.paused();
  for (const int worker : view_) {
    const auto r = static_cast<std::size_t>(worker);
    if (r >= reports_.size()) break;
    auto one = from_bytes<RankReport>(reports_[r], fmt::format("the report of rank {}", r));
    report.elapsed = std::max(report.elapsed, one.elapsed);
    const ProcessPlace& rank = environment_.places()[r];
    report.workers.push_back({.rank = worker,
                              .device = std::move(one.device),
                              .breakdown = one.breakdown,
                              .ended = one.ended,
                              .cores = std::move(one.cores),
                              .host = rank.host,
                              .pid = rank.pid,
                              .clock_offset = one.clock_offset});
  }
  return report;
}

// --- the endpoint

MpiEndpoint::MpiEndpoint(MpiRun& run, Process& process)
    : ProcessEndpoint(run.world_, run.options_, run.segment_, process, run),
      run_(run),
      comm_(*run.transport_, run, run.everybody_, run.rank_here_) {}

// The worker waits for the word of rank 0, which ends the segment on all ranks.
void MpiEndpoint::lose() {
  run_.coordinator_.failures().tell(now());
  poll_for(
      world_, [] { return std::optional<int>(); },
      [] { return "is lost, and waits until all know"; });
}

std::shared_ptr<ServicePort> MpiEndpoint::open_service_raw(const std::string& name,
                                                           const ServiceFactory& factory) {
  world_.safepoint();
  run_.open_service(name, factory);
  return std::make_shared<MpiPort>(*run_.transport_, name, run_.callers_, run_.host_);
}

}  // namespace hetsgd::mpi
