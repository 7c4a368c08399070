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
  NvtxRange(const CallLog& log, std::uint32_t label)
      : id_(nvtxDomainRangeStartEx(domain(), attributes(log.label(label).name.c_str()))) {}
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
  NvtxRange(const CallLog&, std::uint32_t) {}
};
#endif

// The labels of calls that every process may make.
struct ProcessLabels {
  explicit ProcessLabels(CallLog& log) {
    static constexpr std::array kNames = {"step", "part", "stage", "vector", "transfer"};
    for (std::size_t kind = 0; kind < kNames.size(); ++kind) {
      compute[kind] = log.label({.category = "compute", .name = kNames[kind]});
    }
    copy = log.label({.category = "communicate", .name = kNames.back()});
    sleep = log.label({.category = "compute", .name = "sleep"});
    evaluation = log.label({.category = "off_clock", .name = "evaluation"});
    lock = log.label({.category = "monitor", .name = "lock", .kind = CallKind::monitor});
    wait = log.label({.category = "monitor", .name = "wait", .kind = CallKind::monitor});
  }
  std::array<std::uint32_t, 5> compute{};  // by ComputeKind
  std::uint32_t copy, sleep, evaluation, lock, wait;
};

// One process: its endpoint, and its lines.
struct TracedProcess {
  Endpoint& endpoint;
  RecordedLine& own;
  std::function<RecordedLine&()> started_calls;  // made at first use
  const ProcessLabels labels{own.calls};
  const std::thread::id thread = std::this_thread::get_id();

  // A port, a Comm and a call in flight belong to the process that has opened or started them.
  // Another process would write to a line that is not its own, which in real time is a race.
  CallLog& log_for(std::uint32_t label) const {
    if (thread == std::this_thread::get_id()) return own.calls;
    throw CheckFailure(fmt::format(
        "{} of {} is called by another process: each process of a worker opens and starts its own",
        own.calls.label(label).name, own.name));
  }
  CallPoint point() const { return {own.rank, own.number, own.calls.calls(), endpoint.now()}; }
};

// Labels of one caller, by a small number. Each is made at its first use, because most are never
// used.
class Labels {
 public:
  template <class Make>
  std::uint32_t get(std::size_t which, CallLog& log, Make make) {
    std::uint32_t& known = known_[which];
    if (known == 0) known = log.label(make()) + 1;
    return known - 1;
  }

 private:
  std::array<std::uint32_t, 16> known_{};  // one more than the label; 0: not made
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

// A call from its making to its end, also when the run is unwound.
class Range : NonCopyable {
 public:
  // The waits and delays of the process meanwhile are the difference of its breakdown. `more`
  // outlives the range. Throws what log_for() throws.
  Range(const TracedProcess& process, std::uint32_t label, const CallCell& call = {},
        MoreOfCall* more = nullptr)
      : process_(process),
        breakdown_(process.endpoint.time_breakdown()),
        log_(process.log_for(label)),
        nvtx_(log_, label),
        more_(more),
        waited_(breakdown_.wait),
        delayed_(breakdown_.delay_achieved),
        call_(call) {
    call_.label = label;
    call_.begin = process.endpoint.now();
  }
  // A computation, whose work is in `more`.
  Range(const TracedProcess& process, std::uint32_t label, bool is_step, MoreOfCall& more)
      : Range(process, label, {}, &more) {
    computes_ = true;
    is_step_ = is_step;
  }
  ~Range() {
    call_.end = process_.endpoint.now();
    call_.wait = breakdown_.wait - waited_;
    call_.delay = breakdown_.delay_achieved - delayed_;
    call_.steps = breakdown_.steps;
    if (computes_) {
      more_->charged = breakdown_.last_charged;
      more_->busy = breakdown_.last_busy;
    }
    if (is_step_) {
      log_.add_step(call_, *more_);
    } else if (more_ != nullptr) {
      log_.add(call_, *more_);
    } else {
      log_.add(call_);
    }
    running_process = &process_;
  }

  CallCell& call() { return call_; }

 private:
  const TracedProcess& process_;
  const TimeBreakdown& breakdown_;
  CallLog& log_;
  [[no_unique_address]] NvtxRange nvtx_;
  MoreOfCall* const more_;
  const Seconds waited_, delayed_;
  bool computes_ = false, is_step_ = false;
  CallCell call_;
};

// A started call. Its time stands in a line of its own, beside what its process does meanwhile.
class TracedCall final : public PendingCall {
 public:
  // `label`: of the call itself, whose wait has `wait_label`.
  TracedCall(const TracedProcess& process, CallLabel label, std::uint32_t wait_label,
             const CallCell& call, std::unique_ptr<PendingCall> pending)
      : process_(process),
        label_(std::move(label)),
        wait_label_(wait_label),
        call_(call),
        started_(process.point()),
        pending_(std::move(pending)) {}
  CallTime wait() override {
    MoreOfCall more;
    CallCell waiting = call_;
    waiting.bytes = 0;
    waiting.cause = started_;
    Range range(process_, wait_label_, waiting, &more);
    const CallTime time = pending_->wait();
    more.since = time.begin;
    more.until = time.end;
    CallLog& line = process_.started_calls().calls;
    line.add(
        {.label = line.label(label_), .begin = time.begin, .end = time.end, .bytes = call_.bytes});
    return time;
  }
  void settle(bool failing) noexcept override {
    const SetsRunning sets(process_);
    pending_->settle(failing);
  }

 private:
  const TracedProcess& process_;
  const CallLabel label_;
  const std::uint32_t wait_label_;
  const CallCell call_;
  const CallPoint started_;
  const std::unique_ptr<PendingCall> pending_;
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
    const Range range = message(kSend, to, tag, data.size());
    comm_.send_bytes(to, tag, data, kind);
  }
  void post_bytes(int to, int tag, std::span<const std::byte> data, Traffic kind) override {
    const Range range = message(kPost, to, tag, data.size());
    comm_.post_bytes(to, tag, data, kind);
  }
  Envelope receive_bytes(int from, int tag, std::span<std::byte> data) override {
    Range range = message(kReceive, from, tag, data.size());
    const Envelope envelope = comm_.receive_bytes(from, tag, data);
    range.call().peer = envelope.source;
    return envelope;
  }
  void sendrecv_bytes(int peer, int tag, std::span<const std::byte> out, std::span<std::byte> in,
                      Traffic kind) override {
    const Range range = message(kSendrecv, peer, tag, out.size() + in.size());
    comm_.sendrecv_bytes(peer, tag, out, in, kind);
  }
  // A Comm that a split makes is traced, too.
  void make_raw(const CollectiveRequest& request) override {
    const CallCell call{.bytes = request.bytes(), .number = calls_.collectives++};
    const std::uint32_t label = label_of(collectives_, request, "", CallKind::collective);
    if (request.call.collective == Collective::split) return split(request, label, call);
    const Range range(process_, label, call);
    comm_.make_raw(request);
  }
  std::unique_ptr<PendingCall> start_raw(const CollectiveRequest& request) override {
    const CallCell call{.bytes = request.bytes(), .number = calls_.started++};
    return std::make_unique<TracedCall>(
        process_, CallLabel{.category = "communicate", .name = name_of(request)},
        label_of(waits_, request, "wait for ", CallKind::started), call, comm_.start_raw(request));
  }

 private:
  enum Message : std::size_t { kSend, kPost, kReceive, kSendrecv };

  static std::string name_of(const CollectiveRequest& request) {
    return std::string(collective_name(request.call.collective));
  }
  std::uint32_t label_of(Labels& labels, const CollectiveRequest& request, const char* before,
                         CallKind kind) {
    return labels.get(static_cast<std::size_t>(request.call.collective), process_.own.calls,
                      [&] { return label(before + name_of(request), kind); });
  }
  CallLabel label(std::string name, CallKind kind) const {
    return {.category = "communicate",
            .name = std::move(name),
            .group = group_,
            .kind = kind,
            .rank = comm_.rank()};
  }
  void split(const CollectiveRequest& request, std::uint32_t label, const CallCell& call) {
    auto& part = *static_cast<SplitPart*>(request.out);
    MoreOfCall more{.is_split = 1, .color = part.choice.color, .key = part.choice.key};
    std::string group = fmt::format("{}/{}:{}", group_, call.number, more.color);
    const Range range(process_, label, call, &more);
    comm_.make_raw(request);
    if (part.comm) {
      part.comm = std::make_unique<TracedComm>(process_, std::move(part.comm), std::move(group));
    }
  }
  Range message(Message which, int peer, int tag, std::uint64_t bytes) {
    struct Named {
      const char* name;
      CallKind kind;
    };
    static constexpr std::array<Named, 4> kMessages = {{{"send", CallKind::send},
                                                        {"post", CallKind::send},
                                                        {"receive", CallKind::receive},
                                                        {"sendrecv", CallKind::sendrecv}}};
    const std::uint32_t known = messages_.get(which, process_.own.calls, [&] {
      return label(kMessages[which].name, kMessages[which].kind);
    });
    return Range(process_, known, {.bytes = bytes, .peer = peer, .tag = tag});
  }

  const TracedProcess& process_;
  std::unique_ptr<Comm> owned_;
  Comm& comm_;
  GroupCalls own_calls_;
  GroupCalls& calls_;
  const std::string group_;
  Labels messages_, collectives_, waits_;  // by Message, and by Collective
};

class TracedPort final : public ServicePort {
 public:
  // `requests`: the number of requests of this rank so far.
  TracedPort(const TracedProcess& process, const std::string& service,
             std::atomic<std::uint64_t>& requests, std::shared_ptr<ServicePort> port)
      : process_(process),
        label_{.category = "service", .name = "service " + service},
        call_(process.own.calls.label({label_.category, label_.name, "", CallKind::service, 0})),
        wait_(process.own.calls.label(
            {label_.category, "wait for " + label_.name, "", CallKind::service, 0})),
        requests_(requests),
        port_(std::move(port)) {}

  void call_raw(const ServiceCall& call) override {
    const Range range(process_, call_, next(call));
    port_->call_raw(call);
  }
  std::unique_ptr<PendingCall> post_raw(const ServiceCall& call) override {
    const CallCell cell = next(call);
    return std::make_unique<TracedCall>(process_, label_, wait_, cell, port_->post_raw(call));
  }

 private:
  CallCell next(const ServiceCall& call) {
    return {.bytes = call.payload.size_bytes() + call.reply_payload.size_bytes(),
            .number = requests_++};
  }

  const TracedProcess& process_;
  const CallLabel label_;
  const std::uint32_t call_, wait_;
  std::atomic<std::uint64_t>& requests_;
  std::shared_ptr<ServicePort> port_;
};

// Notes waits, and which notification ended them. Only with TraceDetail::causes.
class TracedMonitor final : public Monitor {
 public:
  explicit TracedMonitor(std::unique_ptr<Monitor> monitor) : monitor_(std::move(monitor)) {}

  void lock() override {
    blocking(&ProcessLabels::lock, given_back_, [&] { monitor_->lock(); });
  }
  void unlock() override {
    note(given_back_);
    monitor_->unlock();
  }
  void wait(const std::function<bool()>& ready, std::string_view what) override {
    note(given_back_);
    blocking(&ProcessLabels::wait, notified_, [&] { monitor_->wait(ready, what); });
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
  void blocking(std::uint32_t ProcessLabels::*label, Moment& moment, Call call) {
    const TracedProcess* const self = running_process;
    if (self == nullptr) return call();
    const SetsRunning sets(*self);
    const Seconds begin = self->endpoint.now();
    call();
    const Seconds end = self->endpoint.now();
    if (end - begin < kShortest) return;
    const std::lock_guard lock(moment.mutex);
    self->own.calls.add({.label = self->labels.*label,
                         .begin = begin,
                         .end = end,
                         .wait = end - begin,
                         .steps = self->endpoint.time_breakdown().steps,
                         .cause = moment.point});
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
            endpoint, trace.line(endpoint.id(), background_task, parent),
            [this, task = background_task.empty() ? "" : background_task + " "]() -> RecordedLine& {
              if (!started_)
                started_ = &trace_.line(endpoint_.id(), task + std::string(kStartedCalls));
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
  CallLog& log() { return process_.own.calls; }

  void compute(const Work& work, ComputeKind kind, FunctionRef fn) override {
    MoreOfCall more{.work = work};
    const Range range = computation(label_of(kind), kind, more);
    endpoint_.compute(work, kind, fn);
  }
  void compute_in_place(const Work& work, ComputeKind kind,
                        const InPlaceComputation& how) override {
    const bool copies = kind == ComputeKind::transfer;
    MoreOfCall more{.work = work};
    const Range range = computation(copies ? process_.labels.copy : label_of(kind), kind, more);
    endpoint_.compute_in_place(work, kind, how);
  }
  bool compute_cancellable(CancellationToken& token, const Work& work, ComputeKind kind,
                           FunctionRef fn) override {
    MoreOfCall more{.work = work};
    const Range range = computation(label_of(kind), kind, more);
    return endpoint_.compute_cancellable(token, work, kind, fn);
  }
  std::unique_ptr<CancellationToken> make_cancellation_token() override {
    return endpoint_.make_cancellation_token();
  }
  void sleep(Seconds duration) override {
    const Range range(process_, process_.labels.sleep);
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
    process_.own.calls.rewind(set_up_);
    trace_.went_on();
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
  std::uint32_t label_of(ComputeKind kind) const {
    return process_.labels.compute[static_cast<std::size_t>(kind)];
  }
  Range computation(std::uint32_t label, ComputeKind kind, MoreOfCall& more) const {
    return Range(process_, label, kind == ComputeKind::step, more);
  }
  std::shared_ptr<ServicePort> traced(const std::string& name, std::shared_ptr<ServicePort> port) {
    return std::make_shared<TracedPort>(process_, name, trace_.requests(rank(), name),
                                        std::move(port));
  }
  // Called by the process that runs `fn`: rank 0 in a pause of all.
  void evaluate(FunctionRef fn) {
    const Range range(process_, process_.labels.evaluation);
    fn();
  }

  Endpoint& endpoint_;
  Trace& trace_;
  RecordedLine* started_ = nullptr;
  const TracedProcess process_;
  const CallLog::Mark set_up_ = process_.own.calls.mark();
  TracedComm comm_;
};

}  // namespace

void with_traced_endpoint(Endpoint& endpoint, Trace& trace,
                          const std::function<void(Endpoint&)>& fn) {
  TracedEndpoint traced(endpoint, trace, "");
  fn(traced);
}

void note_batch(Endpoint& endpoint, std::uint64_t samples) {
  static_cast<TracedEndpoint&>(endpoint).log().note_samples(samples);
}

}  // namespace hetsgd
