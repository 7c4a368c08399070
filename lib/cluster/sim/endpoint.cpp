#include "cluster/sim/endpoint.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "cluster/endpoint.hpp"
#include "cluster/sim/cancellation.hpp"
#include "cluster/sim/engine.hpp"
#include "cluster/sim/monitor.hpp"
#include "cluster/sim/world.hpp"
#include "core/error.hpp"
#include "core/rank_index.hpp"

namespace hetsgd::sim {

// The device is made on first use: a worker that never computes costs no device.
Device& SimDevices::of_worker(int rank) {
  const std::lock_guard lock(mutex_);
  auto& device = workers_[at(rank)];
  if (!device) device = make_cpu_device<float>(1, precision_);
  return *device;
}

std::unique_ptr<Device> SimDevices::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return make_cpu_device<float>(1, precision_);
  auto device = std::move(free_.back());
  free_.pop_back();
  return device;
}

void SimDevices::give_back(std::unique_ptr<Device> device) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(device));
}

namespace {

// The workers of the view, by rank.
std::vector<int> workers_of(const Segment& segment, int workers) {
  if (!segment.view.empty()) return segment.view;
  std::vector<int> all(static_cast<std::size_t>(workers));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Network::Scale traffic_scale(const ClusterOptions& options) {
  Network::Scale scale;
  scale.fill(options.payload_scale);
  scale[static_cast<std::size_t>(Traffic::control)] = 1;
  scale[static_cast<std::size_t>(Traffic::rows)] = options.rows_scale;
  scale[static_cast<std::size_t>(Traffic::ids)] = options.ids_scale;
  scale[static_cast<std::size_t>(Traffic::input)] = 0;
  return scale;
}

HostWaits waits_of(const NetworkModel& network) {
  return {network.wake.count(), network.poll.count(), network.poll_core_share};
}

std::vector<bool> workers_on_cores(const ClusterOptions& options) {
  std::vector<bool> on_cores;
  for (int worker = 0; options.host_cores > 0 && worker < options.workers; ++worker) {
    on_cores.push_back(options.profile_of(worker).in_host_memory());
  }
  return on_cores;
}

std::function<double(int, double)> reachability(const ClusterOptions& options) {
  if (!options.scenario || !options.scenario->has_gaps()) return nullptr;
  return [&scenario = *options.scenario](int worker, double now) {
    return scenario.reachable(worker, Seconds(now)).count();
  };
}

}  // namespace

SimRun::SimRun(const ClusterOptions& options_, SimDevices& devices_, Segment& segment_)
    // When a worker's main process has returned the services hear of it: nobody must wait for that
    // worker any more. The end of a background task says nothing of its worker.
    : options(options_),
      devices(devices_),
      segment(segment_),
      size(static_cast<int>(workers_of(segment, options.workers).size())),
      timelines(static_cast<std::size_t>(options_.workers)),
      engine(options_.host_threads, {.ended =
                                         [this](Process& process) {
                                           if (process.background_task.empty())
                                             services.left(rank_of(process.rank));
                                         },
                                     .idle = [this] { return start_clock(); },
                                     .reachable = reachability(options_),
                                     .late = lateness()}),
      world{engine,
            Network(options_.network, options_.workers, traffic_scale(options_),
                    options_.rows_part_bytes),
            HostCores(engine, options_.host_cores, waits_of(options_.network)),
            workers_on_cores(options_)},
      services(world, segment, options_.server_profile.value_or(options_.profile_of(0)),
               options_.work_scale),
      everybody(std::make_shared<Group>(world, workers_of(segment, options.workers))),
      set_up(at(size)) {
  world.workers.resize(at(options.workers));
  world.cores.add_polling(kControlPolls * options.workers);
}

std::function<double(double, bool)> SimRun::lateness() {
  if (options.host_cores == 0) return nullptr;
  return [this](double waited, bool others) { return world.cores.late(waited, others); };
}

SimEndpoint::SimEndpoint(SimRun& run, int rank, const SimEndpoint* parent)
    : run_(run),
      rank_(rank),
      id_(run.segment.id(rank)),
      is_background_task_(parent != nullptr),
      comm_(run.everybody, rank),
      account_(parent != nullptr ? parent->account_ : nullptr),
      is_set_up_(is_background_task_ || !run.segment.goes_on()) {}

SimEndpoint::~SimEndpoint() {
  if (device_) run_.devices.give_back(std::move(device_));
}

Device& SimEndpoint::device() {
  if (!is_background_task_) return run_.devices.of_worker(id_);
  if (!device_) device_ = run_.devices.take();
  return *device_;
}

// Steps state their work as charged already, vector operations state it for the real size: hence
// the scale. The speed divides the whole time, overhead of launches included; the scenario
// stretches what is left, from the present time on, as its slow phases are intervals of the clock.
SimEndpoint::Duration SimEndpoint::duration(const Work& work, ComputeKind kind) {
  const bool vector = kind == ComputeKind::vector;
  const DeviceProfile& profile = run_.options.profile_of(id_);
  if (kind == ComputeKind::transfer) {  // the device is free meanwhile
    return {profile.copy_seconds(work.host_link_bytes), Seconds(0), Seconds(0)};
  }
  const double speed = run_.options.speed_of(id_);
  const Seconds full_speed = at_full_speed(work, kind);
  Seconds time = full_speed / speed, busy = time;
  if (work.host_link_bytes > 0) {  // another engine copies: the device is free meanwhile
    Work computed = work;
    computed.host_link_bytes = 0;
    busy = scaled_seconds(computed, kind) / speed;
  }
  if (!vector && kind != ComputeKind::stage) {
    std::optional<std::uint64_t> iteration;
    if (kind == ComputeKind::step) iteration = breakdown_.steps++;
    if (iteration && !is_background_task_ && run_.options.recorded_step) {
      const auto recorded = run_.options.recorded_step({id_, *iteration, now(), work});
      time = recorded.time;
      busy = recorded.busy;
    } else if (const Scenario* scenario = run_.options.scenario.get()) {
      busy = scenario->stretched(id_, std::nullopt, now(), time);
      time = scenario->stretched(id_, iteration, now(), time);
    }
  }
  return {time, std::max(time - full_speed, Seconds(0)), busy};
}

Seconds SimEndpoint::scaled_seconds(const Work& work, ComputeKind kind) const {
  const ClusterOptions& options = run_.options;
  const DeviceProfile& profile = options.profile_of(id_);
  if (kind == ComputeKind::vector) return profile.seconds(work.scaled(options.work_scale));
  return profile.seconds(work, options.precision);
}

Seconds SimEndpoint::at_full_speed(const Work& work, ComputeKind kind) const {
  const auto& step_time = run_.options.step_time;
  if (kind == ComputeKind::vector || !step_time) return scaled_seconds(work, kind);
  return kind == ComputeKind::step ? step_time(id_, breakdown_.steps) : Seconds(0);
}

// A speed above 1 is a faster core; one below is reached by sleeping.
Seconds SimEndpoint::core_seconds(const Work& work, ComputeKind kind) {
  return at_full_speed(work, kind) / std::max(1.0, run_.options.speed_of(id_));
}

// For kind `step` it also begins the next iteration, like duration().
Seconds SimEndpoint::delay_after(ComputeKind kind, Seconds start, Seconds elapsed) {
  const Seconds slowed = elapsed / std::min(1.0, run_.options.speed_of(id_));
  if (kind == ComputeKind::vector || kind == ComputeKind::stage) return slowed - elapsed;
  std::optional<std::uint64_t> iteration;
  if (kind == ComputeKind::step) iteration = breakdown_.steps++;
  const Scenario* const scenario = run_.options.scenario.get();
  return (scenario ? scenario->stretched(id_, iteration, start, slowed) : slowed) - elapsed;
}

// A simulated delay is exact, so what was achieved is what was requested.
void SimEndpoint::charge(ComputeKind kind, Seconds time, Seconds delay) {
  breakdown_.delay_requested += delay;
  breakdown_.delay_achieved += delay;
  (kind == ComputeKind::transfer ? breakdown_.communicate : breakdown_.compute) += time;
}

void SimEndpoint::note(ComputeKind kind, Seconds start) {
  if (!account_) return;
  kind == ComputeKind::transfer ? account_->communicated(start, now())
                                : account_->computed(start, now());
}

namespace {

// Says of a process that it computes. It ends also where the process is unwound.
struct Computing : NonCopyable {
  explicit Computing(Process& its_process) : process(its_process) { process.computes = true; }
  ~Computing() { process.computes = false; }
  Process& process;
};

}  // namespace

// A computation that nobody cuts short has a token that nobody cancels. fn is handed to the pool
// although it may be cut short: the host works ahead, and whether the token will be cancelled is
// known only when virtual time comes to it.
bool SimEndpoint::compute_raw(CancellationToken* token, const Work& work, ComputeKind kind,
                              FunctionRef fn) {
  SimCancellationToken nobodys(run_.world);
  const bool is_whole = token == nullptr;
  auto& stop = is_whole ? nobodys : static_cast<SimCancellationToken&>(*token);
  Engine& engine = run_.engine;
  const Computing computing(engine.enter(is_whole ? "compute" : "compute_cancellable"));
  if (stop.cancelled() || engine.tearing_down()) return false;
  HostTask task(fn);  // cut short: forgotten where it goes out of scope, or waited for if it runs
  engine.pool().submit(task);
  const bool complete = on_cores(kind) ? run_on_cores(stop, is_whole, work, kind, task)
                                       : run_on_device(stop, is_whole, work, kind, task);
  if (complete && task.error()) std::rethrow_exception(task.error());
  return complete;
}

bool SimEndpoint::run_on_device(SimCancellationToken& stop, bool is_whole, const Work& work,
                                ComputeKind kind, HostTask& task) {
  const Seconds start = now();
  const Duration whole = duration(work, kind);
  breakdown_.last_charged = whole.time;
  breakdown_.last_busy = whole.busy;
  // Where nothing can cut it short it is accounted at the start.
  if (is_whole) charge(kind, whole.time, whole.delay);
  DeviceTimeline::Use use(timeline(), start.count(), kind, whole.busy.count(), whole.time.count());
  bool complete = stop.sleep_until(use.end(), task);
  while (complete && use.end() > run_.engine.now()) complete = stop.sleep_until(use.end(), task);
  note(kind, start);
  if (!is_whole) {
    // The delay comes after the computation: of a cut one, what had passed of it.
    const Seconds time = complete ? whole.time : now() - start;
    charge(kind, time, std::max(Seconds(0), time - (whole.time - whole.delay)));
  }
  if (complete) breakdown_.wait += Seconds(use.waited());
  return complete;
}

bool SimEndpoint::run_on_cores(SimCancellationToken& stop, bool is_whole, const Work& work,
                               ComputeKind kind, HostTask& task) {
  const Seconds start = now(), seconds = core_seconds(work, kind);
  bool complete = stop.run_on(run_.world.cores, seconds.count(), task);
  const Seconds computed = now(), delay = delay_after(kind, start, computed - start);
  if (complete && delay > Seconds(0)) {
    complete = stop.sleep_until((computed + delay).count(), task);
  }
  breakdown_.last_charged = now() - start;
  breakdown_.last_busy = seconds;
  note(kind, start);
  charge(kind, now() - start, is_whole ? delay : now() - computed);
  return complete;
}

// The running process reads and writes, and nobody else runs meanwhile.
void SimEndpoint::compute_in_place_raw(const Work& work, ComputeKind kind,
                                       const InPlaceComputation& how) {
  run_.engine.enter("compute_in_place");
  how.read();
  compute_raw(nullptr, work, kind, how.fn);
  run_.engine.enter("compute_in_place");  // a lost worker does not write
  how.write();
}

std::unique_ptr<CancellationToken> SimEndpoint::make_cancellation_token() {
  return std::make_unique<SimCancellationToken>(run_.world);
}

// An event even for a duration of 0: others that are due now run first, as after a yield.
void SimEndpoint::sleep_raw(Seconds duration) {
  HETSGD_CHECK_GE(duration.count(), 0.0);
  Engine& engine = run_.engine;
  engine.enter("sleep");  // before the clock is read: in a computation that is another thread's
  const double called = engine.now();
  engine.sleep_until(called + duration.count());
  breakdown_.wait += Seconds(engine.now() - called);
}

void SimEndpoint::background_task_raw(std::string name, std::function<void(Endpoint&)> fn) {
  HETSGD_CHECK(!name.empty());
  run_.engine.current("background_task");
  if (run_.engine.tearing_down()) return;
  if (!is_set_up_) return held_.hold(std::move(name), std::move(fn));
  if (!account_) {
    account_ = std::make_shared<WorkerAccount>(breakdown_);
    run_.engine.current("background_task").account = account_.get();
  }
  // The endpoint belongs to the body and ends with it; shared, as a std::function is copyable.
  auto endpoint = std::make_shared<SimEndpoint>(run_, rank_, this);
  TimeBreakdown* breakdown = &endpoint->breakdown_;
  run_.engine.spawn(id_, std::move(name), breakdown, account_.get(),
                    [endpoint = std::move(endpoint), fn = std::move(fn)] { fn(*endpoint); });
}

std::unique_ptr<Monitor> SimEndpoint::make_monitor_raw() {
  return std::make_unique<SimMonitor>(run_.engine);
}

std::shared_ptr<ServicePort> SimEndpoint::open_service_raw(const std::string& name,
                                                           const ServiceFactory& factory) {
  return run_.services.open(rank_, id_, name, factory);
}

// The set-up of a later segment takes virtual time like any other, from 0 on, and leaves traces on
// links. Both are replaced here, where nobody but the waiting processes could have seen them.
bool SimRun::start_clock() {
  const auto waits = [](const Process* process) { return process != nullptr; };
  if (!std::ranges::all_of(set_up, waits) || !segment.goes_on()) return false;
  const auto clock = [](const WorkerStart& start) { return start.clock; };
  const auto [first, last] = std::ranges::minmax(segment.start, {}, clock);
  if (segment.from != nullptr) {
    Archive archive = Archive::loading(*segment.from, *segment.from, "the state of the run");
    archive("network", world.network);
  }
  engine.set_clock((segment.together ? last : first).clock.count());
  for (std::size_t rank = 0; rank < set_up.size(); ++rank) {
    const WorkerStart& start = segment.start[rank];
    const Seconds time = segment.together ? last.clock : start.clock;
    TimeBreakdown& breakdown = *world.workers[at(segment.id(static_cast<int>(rank)))];
    breakdown = start.spent;
    breakdown.wait += time - start.clock;
    engine.wake_at(time.count(), *std::exchange(set_up[rank], nullptr));
  }
  schedule_loss(Seconds(engine.now()));
  return true;
}

int SimRun::rank_of(int worker) const {
  int rank = 0;
  while (segment.id(rank) != worker) ++rank;
  return rank;
}

void SimRun::schedule_loss(Seconds time) {
  if (!options.scenario || !options.scenario->has_failures()) return;
  const Seconds until =
      segment.lost.empty() ? Seconds(std::numeric_limits<double>::infinity()) : segment.detected;
  losing_.clear();
  for (int rank = 0; rank < size; ++rank) {
    const int id = segment.id(rank);
    const std::optional<Lost> lost = options.scenario->lost(id, time);
    if (!lost) continue;
    const Seconds at = std::max(lost->at, time);
    if (at >= until || (!losing_.empty() && at > lost_at_) || !engine.runs(id)) continue;
    if (at < lost_at_ || losing_.empty()) losing_.clear();
    lost_at_ = at;
    losing_.push_back(id);
  }
  if (!losing_.empty()) engine.at(lost_at_.count(), lose, this);
}

// Workers that are lost before the others know of the first one are lost together with it. One that
// has returned meanwhile has nothing to lose.
void SimRun::lose(void* object) {
  SimRun& self = *static_cast<SimRun*>(object);
  const Seconds now(self.engine.now());
  if (self.engine.closing()) return;
  std::erase_if(self.losing_, [&](int id) { return !self.engine.runs(id); });
  if (self.losing_.empty()) return self.schedule_loss(now);
  if (self.segment.lost.empty()) {
    self.segment.detected = now + self.options.detect;
    self.engine.at(self.segment.detected.count(), detect, object);
  }
  for (const int id : self.losing_) {
    const std::optional<Lost> lost = self.options.scenario->lost(id, now);
    self.engine.lose(id, lost && lost->mode == FailureMode::cut_off);
    self.segment.lost.emplace(id, now);
  }
  self.schedule_loss(now);
}

void SimRun::detect(void* object) {
  SimRun& self = *static_cast<SimRun*>(object);
  self.engine.close();
  for (const auto& [id, at] : self.segment.lost) self.services.left(self.rank_of(id));
  if (self.segment.losing) self.segment.losing();
}

void SimEndpoint::go_on_raw() {
  HETSGD_CHECK(!is_set_up_);
  Engine& engine = run_.engine;
  run_.set_up[at(rank_)] = &engine.current("go_on");
  engine.block([] { return "waits for the set-up of all workers"; });
  is_set_up_ = true;
  held_.start_all([this](std::string name, HeldTasks::Body body) {
    background_task_raw(std::move(name), std::move(body));
  });
}

// The only host clock of this cluster. It measures what the pause cost the user, computations of
// others that were finished first included, and goes into the report alone: never into virtual
// time. In a pause of all the others need not wait: virtual time stands while rank 0 runs fn, so
// nobody can tell whether they were "here". They go on at their own next event.
void SimEndpoint::pause_raw(bool together, FunctionRef fn) {
  if (together && rank_ != 0) return;
  const auto start = std::chrono::steady_clock::now();
  run_.engine.off_the_clock(fn);
  run_.paused_s += Seconds(std::chrono::steady_clock::now() - start).count();
}

}  // namespace hetsgd::sim
