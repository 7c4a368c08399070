#include "cluster/trace/traced_endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "cluster/trace/traced_service.hpp"
#include "core/error.hpp"
#include "core/non_copyable.hpp"

#ifdef HETSGD_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace hetsgd {

namespace {

// A range in the timeline of NVIDIA's profilers; nothing where NVTX is not built in or no profiler
// listens. Ranges may overlap on one thread: workers of `sim` are fibers. So they are started and
// ended by an id, and not pushed and popped, which the profiler would match by thread.
#ifdef HETSGD_NVTX
class NvtxRange : NonCopyable {
 public:
  explicit NvtxRange(const char* name) : id_(nvtxDomainRangeStartEx(domain(), attributes(name))) {}
  ~NvtxRange() { nvtxDomainRangeEnd(domain(), id_); }

 private:
  static nvtxDomainHandle_t domain() {
    static const nvtxDomainHandle_t hetsgd = nvtxDomainCreateA("hetsgd");
    return hetsgd;
  }
  // One per thread, filled anew for each call that it is passed to. The name must live as long.
  static const nvtxEventAttributes_t* attributes(const char* name) {
    static thread_local nvtxEventAttributes_t all = {};
    all.version = NVTX_VERSION;
    all.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    all.messageType = NVTX_MESSAGE_TYPE_ASCII;
    all.message.ascii = name;
    return &all;
  }
  nvtxRangeId_t id_;
};
#else
class NvtxRange {
 public:
  explicit NvtxRange(const char*) {}
};
#endif

// One process: its endpoint, and its lines.
struct TracedProcess {
  Endpoint& endpoint;
  TraceLine& own;
  std::function<TraceLine&()> started_calls;  // made at first use
  const std::thread::id thread = std::this_thread::get_id();

  // A port, a Comm and a call in flight belong to the process that has opened or started them.
  // Another process would write to a line that is not its own, which in real time is a race.
  TraceLine& line_for(const std::string& call) const {
    if (thread == std::this_thread::get_id()) return own;
    throw CheckFailure(fmt::format(
        "{} of {} is called by another process: each process of a worker opens and starts its own",
        call, own.name));
  }
  CallPoint point() const { return {own.rank, own.number, own.ranges.size(), endpoint.now()}; }
};

// The process that runs on this thread, for calls that do not name theirs: those of a monitor. In
// `sim` a thread runs many processes, and another one goes on only where this one blocks. So each
// call that may have blocked sets it when it returns.
thread_local const TracedProcess* running_process = nullptr;
class SetsRunning : NonCopyable {
 public:
  explicit SetsRunning(const TracedProcess& process) : process_(process) {}
  ~SetsRunning() { running_process = &process_; }

 private:
  const TracedProcess& process_;
};

// A range from its making to its end, also when the run is unwound.
class Range : NonCopyable {
 public:
  // The waits and delays of the process meanwhile are the difference of its breakdown. Errors:
  // check, as line_for().
  Range(const TracedProcess& process, const char* category, std::string name, CallPlace place = {},
        std::uint64_t bytes = 0)
      : process_(process),
        endpoint_(process.endpoint),
        line_(process.line_for(name)),
        nvtx_(name.c_str()),
        waited_(endpoint_.time_breakdown().wait),
        delayed_(endpoint_.time_breakdown().delay_achieved),
        range_{.category = category,
               .name = std::move(name),
               .begin = endpoint_.now(),
               .bytes = bytes,
               .place = std::move(place)} {}
  ~Range() {
    const TimeBreakdown& breakdown = endpoint_.time_breakdown();
    range_.end = endpoint_.now();
    range_.wait = breakdown.wait - waited_;
    range_.delay = breakdown.delay_achieved - delayed_;
    range_.steps = breakdown.steps;
    if (computes_) {
      range_.charged = breakdown.last_charged;
      range_.busy = breakdown.last_busy;
    }
    line_.ranges.push_back(std::move(range_));
    running_process = &process_;
  }

  CallPlace& place() { return range_.place; }
  CallPoint& cause() { return range_.cause; }
  // The range is a computation.
  void computes(const Work& work) {
    range_.work = work;
    computes_ = true;
  }

 private:
  const TracedProcess& process_;
  Endpoint& endpoint_;
  TraceLine& line_;
  NvtxRange nvtx_;
  const Seconds waited_, delayed_;
  bool computes_ = false;
  TraceRange range_;
};

// A started call. Its time stands in a line of its own, beside what its process does meanwhile.
class TracedCall final : public PendingCall {
 public:
  TracedCall(const TracedProcess& process, const char* category, std::string name, CallPlace place,
             std::uint64_t bytes, std::unique_ptr<PendingCall> call)
      : process_(process),
        category_(category),
        name_(std::move(name)),
        place_(std::move(place)),
        bytes_(bytes),
        started_(process.point()),
        call_(std::move(call)) {}
  CallTime wait() override {
    Range range(process_, category_, "wait for " + name_, place_);
    const CallTime time = call_->wait();
    range.place().since = time.begin;
    range.place().until = time.end;
    range.cause() = started_;
    process_.started_calls().ranges.push_back({.category = category_,
                                               .name = name_,
                                               .begin = time.begin,
                                               .end = time.end,
                                               .bytes = bytes_});
    return time;
  }
  void settle(bool failing) noexcept override {
    const SetsRunning sets(process_);
    call_->settle(failing);
  }

 private:
  const TracedProcess& process_;
  const char* const category_;
  const std::string name_;
  const CallPlace place_;
  const std::uint64_t bytes_;
  const CallPoint started_;
  const std::unique_ptr<PendingCall> call_;
};

class TracedComm final : public Comm {
 public:
  // The Comm of all workers.
  TracedComm(const TracedProcess& process, Comm& comm, GroupCalls& calls)
      : process_(process), comm_(comm), calls_(calls) {}
  // The Comm of a part of a group. Its only user is the process that has split the group.
  TracedComm(const TracedProcess& process, std::unique_ptr<Comm> comm, std::string group)
      : process_(process),
        owned_(std::move(comm)),
        comm_(*owned_),
        calls_(own_calls_),
        group_(std::move(group)) {}

  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  bool poll(int from, int tag) override { return comm_.poll(from, tag); }
  void send_bytes(int to, int tag, std::span<const std::byte> data, Traffic kind) override {
    const Range range = message("send", CallKind::send, to, tag, data.size());
    comm_.send_bytes(to, tag, data, kind);
  }
  void post_bytes(int to, int tag, std::span<const std::byte> data, Traffic kind) override {
    const Range range = message("post", CallKind::send, to, tag, data.size());
    comm_.post_bytes(to, tag, data, kind);
  }
  Envelope receive_bytes(int from, int tag, std::span<std::byte> data) override {
    Range range = message("receive", CallKind::receive, from, tag, data.size());
    const Envelope envelope = comm_.receive_bytes(from, tag, data);
    range.place().peer = envelope.source;
    return envelope;
  }
  void sendrecv_bytes(int peer, int tag, std::span<const std::byte> out, std::span<std::byte> in,
                      Traffic kind) override {
    const Range range = message("sendrecv", CallKind::sendrecv, peer, tag, out.size() + in.size());
    comm_.sendrecv_bytes(peer, tag, out, in, kind);
  }
  // A Comm that a split makes is traced, too.
  void make_raw(const CollectiveRequest& request) override {
    CallPlace place = place_of(CallKind::collective);
    place.number = calls_.collectives++;
    SplitPart* const split = request.call.collective == Collective::split
                                 ? static_cast<SplitPart*>(request.out)
                                 : nullptr;
    std::string part;
    if (split) {
      place.is_split = true;
      place.color = split->choice.color;
      place.key = split->choice.key;
      part = fmt::format("{}/{}:{}", group_, place.number, place.color);
    }
    const Range range(process_, "communicate", name_of(request), std::move(place), request.bytes());
    comm_.make_raw(request);
    if (split && split->comm) {
      split->comm = std::make_unique<TracedComm>(process_, std::move(split->comm), part);
    }
  }
  std::unique_ptr<PendingCall> start_raw(const CollectiveRequest& request) override {
    CallPlace place = place_of(CallKind::started);
    place.number = calls_.started++;
    return std::make_unique<TracedCall>(process_, "communicate", name_of(request), std::move(place),
                                        request.bytes(), comm_.start_raw(request));
  }

 private:
  static std::string name_of(const CollectiveRequest& request) {
    return std::string(collective_name(request.call.collective));
  }
  CallPlace place_of(CallKind kind) const {
    return {.kind = kind, .group = group_, .rank = comm_.rank()};
  }
  Range message(const char* name, CallKind kind, int peer, int tag, std::uint64_t bytes) {
    CallPlace place = place_of(kind);
    place.peer = peer;
    place.tag = tag;
    return Range(process_, "communicate", name, std::move(place), bytes);
  }

  const TracedProcess& process_;
  std::unique_ptr<Comm> owned_;
  Comm& comm_;
  GroupCalls own_calls_;
  GroupCalls& calls_;
  const std::string group_;
};

class TracedPort final : public ServicePort {
 public:
  // `requests`: the number of requests of this rank so far.
  TracedPort(const TracedProcess& process, const std::string& service,
             std::atomic<std::uint64_t>& requests, std::shared_ptr<ServicePort> port)
      : process_(process),
        name_("service " + service),
        requests_(requests),
        port_(std::move(port)) {}

  void call_raw(const ServiceCall& call) override {
    const Range range(process_, "service", name_, next_place(),
                      call.payload.size_bytes() + call.reply_payload.size_bytes());
    port_->call_raw(call);
  }
  std::unique_ptr<PendingCall> post_raw(const ServiceCall& call) override {
    CallPlace place = next_place();
    return std::make_unique<TracedCall>(process_, "service", name_, std::move(place),
                                        call.payload.size_bytes() + call.reply_payload.size_bytes(),
                                        port_->post_raw(call));
  }

 private:
  CallPlace next_place() { return {.kind = CallKind::service, .number = requests_++}; }

  const TracedProcess& process_;
  const std::string name_;
  std::atomic<std::uint64_t>& requests_;
  std::shared_ptr<ServicePort> port_;
};

// Notes waits, and which notification ended them. Only with TraceDetail::causes.
class TracedMonitor final : public Monitor {
 public:
  explicit TracedMonitor(std::unique_ptr<Monitor> monitor) : monitor_(std::move(monitor)) {}

  void lock() override {
    blocking("lock", given_back_, [&] { monitor_->lock(); });
  }
  void unlock() override {
    note(given_back_);
    monitor_->unlock();
  }
  void wait(const std::function<bool()>& ready, std::string_view what) override {
    note(given_back_);
    blocking("wait", notified_, [&] { monitor_->wait(ready, what); });
  }
  void notify_all() override {
    note(notified_);
    monitor_->notify_all();
  }

 private:
  // A shorter wait for a lock is the price of the lock, not a wait for another process.
  static constexpr Seconds kShortest{1e-6};

  // The last moment at which another process could go on.
  struct Moment {
    std::mutex mutex;  // notify_all() needs no lock of the monitor's
    CallPoint point;
  };
  static void note(Moment& moment) {
    if (running_process == nullptr) return;
    const std::lock_guard lock(moment.mutex);
    moment.point = running_process->point();
  }
  template <class Call>
  void blocking(const char* name, Moment& end, Call call) {
    const TracedProcess* const self = running_process;
    if (self == nullptr) return call();
    const SetsRunning sets(*self);
    TraceRange range{.category = "monitor", .name = name, .begin = self->endpoint.now()};
    call();
    range.end = self->endpoint.now();
    if (range.end - range.begin < kShortest) return;
    range.wait = range.end - range.begin;
    range.steps = self->endpoint.time_breakdown().steps;
    range.place.kind = CallKind::monitor;
    {
      const std::lock_guard lock(end.mutex);
      range.cause = end.point;
    }
    self->own.ranges.push_back(std::move(range));
  }

  const std::unique_ptr<Monitor> monitor_;
  Moment given_back_, notified_;
};

class TracedEndpoint final : public Endpoint {
 public:
  TracedEndpoint(Endpoint& endpoint, Trace& trace, const std::string& background_task,
                 const CallPoint& parent = {})
      : endpoint_(endpoint),
        trace_(trace),
        process_{
            endpoint, trace.line(endpoint.rank(), background_task, parent),
            [this, task = background_task.empty() ? "" : background_task + " "]() -> TraceLine& {
              if (!started_) started_ = &trace_.line(rank(), task + std::string(kStartedCalls));
              return *started_;
            }},
        comm_(process_, endpoint.comm(), trace.world_calls(endpoint.rank())) {
    running_process = &process_;
  }

  int rank() const override { return endpoint_.rank(); }
  int size() const override { return endpoint_.size(); }
  int id() const override { return endpoint_.id(); }
  Seconds now() const override { return endpoint_.now(); }
  Device& device() override { return endpoint_.device(); }
  bool in_host_memory() override { return endpoint_.in_host_memory(); }
  Comm& comm() override { return comm_; }
  TimeBreakdown& time_breakdown() override { return endpoint_.time_breakdown(); }
  TimeBreakdown account() override { return endpoint_.account(); }
  TraceLine& line() { return process_.own; }

  void compute(const Work& work, ComputeKind kind, FunctionRef fn) override {
    Range range(process_, "compute", name_of(kind));
    range.computes(work);
    endpoint_.compute(work, kind, fn);
  }
  void compute_in_place(const Work& work, ComputeKind kind,
                        const InPlaceComputation& how) override {
    const bool copies = kind == ComputeKind::transfer;
    Range range(process_, copies ? "communicate" : "compute", name_of(kind));
    range.computes(work);
    endpoint_.compute_in_place(work, kind, how);
  }
  bool compute_cancellable(CancellationToken& token, const Work& work, ComputeKind kind,
                           FunctionRef fn) override {
    Range range(process_, "compute", name_of(kind));
    range.computes(work);
    return endpoint_.compute_cancellable(token, work, kind, fn);
  }
  std::unique_ptr<CancellationToken> make_cancellation_token() override {
    return endpoint_.make_cancellation_token();
  }
  void sleep(Seconds duration) override {
    const Range range(process_, "compute", "sleep");
    endpoint_.sleep(duration);
  }

  void background_task(std::string name, std::function<void(Endpoint&)> fn) override {
    const SetsRunning sets(process_);
    endpoint_.background_task(name, [&trace = trace_, name, parent = process_.point(),
                                     fn = std::move(fn)](Endpoint& endpoint) {
      TracedEndpoint traced(endpoint, trace, name, parent);
      fn(traced);
    });
  }
  std::unique_ptr<Monitor> make_monitor() override {
    auto monitor = endpoint_.make_monitor();
    if (!trace_.has_causes()) return monitor;
    return std::make_unique<TracedMonitor>(std::move(monitor));
  }

  std::shared_ptr<ServicePort> open_service(const std::string& name,
                                            const ServiceFactory& factory) override {
    const SetsRunning sets(process_);
    if (!trace_.has_causes()) return traced(name, endpoint_.open_service(name, factory));
    return traced(name, endpoint_.open_service(name, traced_factory(factory, name, trace_)));
  }

  // Ranges of the set-up are not on the clock.
  void go_on() override {
    endpoint_.go_on();
    process_.own.ranges.resize(ranges_before_);
  }
  void while_paused(FunctionRef fn) override {
    const SetsRunning sets(process_);
    endpoint_.while_paused([&] { evaluate(fn); });
  }
  void while_paused_together(FunctionRef fn) override {
    const SetsRunning sets(process_);
    endpoint_.while_paused_together([&] { evaluate(fn); });
  }

 private:
  static const char* name_of(ComputeKind kind) {
    static constexpr std::array kNames = {"step", "part", "stage", "vector", "transfer"};
    return kNames[static_cast<std::size_t>(kind)];
  }
  std::shared_ptr<ServicePort> traced(const std::string& name, std::shared_ptr<ServicePort> port) {
    return std::make_shared<TracedPort>(process_, name, trace_.requests(rank(), name),
                                        std::move(port));
  }
  // Called by the process that runs `fn`: rank 0 in a pause of all.
  void evaluate(FunctionRef fn) {
    const Range range(process_, "off_clock", "evaluation");
    fn();
  }

  Endpoint& endpoint_;
  Trace& trace_;
  TraceLine* started_ = nullptr;
  const TracedProcess process_;
  const std::size_t ranges_before_ = process_.own.ranges.size();
  TracedComm comm_;
};

}  // namespace

void with_traced_endpoint(Endpoint& endpoint, Trace& trace,
                          const std::function<void(Endpoint&)>& fn) {
  TracedEndpoint traced(endpoint, trace, "");
  fn(traced);
}

void note_batch(Endpoint& endpoint, std::uint64_t samples) {
  std::deque<TraceRange>& ranges = static_cast<TracedEndpoint&>(endpoint).line().ranges;
  const auto step = std::find_if(ranges.rbegin(), ranges.rend(),
                                 [](const TraceRange& range) { return range.name == "step"; });
  if (step != ranges.rend()) step->samples = samples;
}

}  // namespace hetsgd
