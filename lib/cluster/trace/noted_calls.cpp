// The calls of Endpoint, Monitor, Comm, ServicePort and Pending. Each is noted here, if calls are
// recorded, and then made by the cluster.
//
//   Comm::send_bytes() -- NotedCall: [begin, end] --> RecordedLine of the process --> Trace
//        |
//        v
//   send_raw() of the cluster
//
// Each object has a pointer to its notes, which is null if calls are not recorded. Evaluations are
// noted, too, although they take none of the clock. What a service does is noted by its handler
// (service.cpp).
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "cluster/endpoint.hpp"
#include "cluster/trace/trace.hpp"
#include "core/error.hpp"

#ifdef HETSGD_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace hetsgd {
namespace {

// A range in the timeline of NVIDIA's profilers; nothing where NVTX is not built in or no profiler
// listens. Ranges may overlap on one thread: workers of `sim` are fibers. So they are started and
// ended by an id, and not pushed and popped, which the profiler would match by thread. The name
// must live as long.
#ifdef HETSGD_NVTX
nvtxDomainHandle_t nvtx_domain() {
  static const nvtxDomainHandle_t hetsgd = nvtxDomainCreateA("hetsgd");
  return hetsgd;
}
std::uint64_t begin_nvtx(const std::string& name) {
  static thread_local nvtxEventAttributes_t all = {};
  all.version = NVTX_VERSION;
  all.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  all.messageType = NVTX_MESSAGE_TYPE_ASCII;
  all.message.ascii = name.c_str();
  return nvtxDomainRangeStartEx(nvtx_domain(), &all);
}
void end_nvtx(std::uint64_t range) { nvtxDomainRangeEnd(nvtx_domain(), range); }
#else
std::uint64_t begin_nvtx(const std::string&) { return 0; }
void end_nvtx(std::uint64_t) {}
#endif

// The labels that every process has, by their numbers. The first five are a ComputeKind.
enum ProcessLabel : std::uint32_t { kSleep = 5, kEvaluation, kLock, kWait };
const std::array<CallLabel, 9> kProcessLabels = {{{"compute", "step"},
                                                  {"compute", "part"},
                                                  {"compute", "stage"},
                                                  {"compute", "vector"},
                                                  {"communicate", "transfer"},
                                                  {"compute", "sleep"},
                                                  {"off_clock", "evaluation"},
                                                  {"monitor", "lock", "", CallKind::monitor},
                                                  {"monitor", "wait", "", CallKind::monitor}}};

const std::string kWaitFor = "wait for ";

enum Message : std::uint8_t { kSend, kPost, kReceive, kSendrecv };

}  // namespace

// --- notes

// The notes of one process, which it alone makes. The endpoint and the trace outlive them.
class ProcessNotes : NonCopyable {
 public:
  ProcessNotes(Endpoint& its_endpoint, Trace& its_trace, const std::string& background_task,
               const CallPoint& parent)
      : endpoint(its_endpoint),
        trace(its_trace),
        line(its_trace.line(its_endpoint.id(), background_task, parent)),
        started_name_(background_task.empty() ? "" : background_task + " ") {
    for (const CallLabel& label : kProcessLabels) line.calls.label(label);
    set_up = line.calls.mark();
    running = this;
  }

  CallPoint point() const { return {line.rank, line.number, line.calls.calls(), endpoint.now()}; }
  // The calls that it has started. Their line is made when the first one is complete.
  CallLog& started_calls() {
    if (started_ == nullptr) {
      started_ = &trace.line(endpoint.id(), started_name_ + std::string(kStartedCalls));
    }
    return started_->calls;
  }
  // The process that runs on this thread, for monitors, whose callers do not say who they are. In
  // `sim` a thread runs many processes, and another one goes on only where this one blocks. So each
  // call that may have blocked sets it when it returns.
  static thread_local const ProcessNotes* running;

  Endpoint& endpoint;
  Trace& trace;
  RecordedLine& line;
  CallLog::Mark set_up;  // where the calls of a later segment's set-up begin
  const std::thread::id thread = std::this_thread::get_id();

 private:
  const std::string started_name_;
  RecordedLine* started_ = nullptr;
};
thread_local const ProcessNotes* ProcessNotes::running = nullptr;

// The notes of a process on the calls of one group.
class CommNotes {
 public:
  // It is `its_rank` of `its_group` (CallLabel::group). A line is named by the worker's number in
  // the run, but calls are counted by rank in the view, because groups and services number the
  // ranks of the view.
  CommNotes(std::shared_ptr<ProcessNotes> its_process, std::string its_group, int its_rank)
      : process(std::move(its_process)),
        group(std::move(its_group)),
        collectives(process->trace.made(process->endpoint.rank(), "group " + group)),
        started_(process->trace.made(process->endpoint.rank(), "started " + group)),
        rank_(its_rank) {}

  CallCell message(Message message, int peer, int tag, std::size_t bytes) {
    static constexpr std::array<std::string_view, 4> kNames = {"send", "post", "receive",
                                                               "sendrecv"};
    static constexpr std::array kKinds = {CallKind::send, CallKind::send, CallKind::receive,
                                          CallKind::sendrecv};
    return {.label = label(message, "", kNames[message], kKinds[message]),
            .bytes = bytes,
            .peer = peer,
            .tag = tag};
  }
  CallCell collective(const CollectiveRequest& request, bool starts) {
    const std::size_t which = kMessages + static_cast<std::size_t>(request.call.collective);
    const std::string_view name = collective_name(request.call.collective);
    return {.label = starts ? label(which + kCollectives, kWaitFor, name, CallKind::started)
                            : label(which, "", name, CallKind::collective),
            .bytes = request.bytes(),
            .number = starts ? started_++ : collectives++};
  }

  const std::shared_ptr<ProcessNotes> process;
  const std::string group;
  std::atomic<std::uint64_t>& collectives;  // of this rank so far

 private:
  static constexpr std::size_t kMessages = 4, kCollectives = 9;
  // A label is made at its first use, because most are never used.
  std::uint32_t label(std::size_t which, std::string_view before, std::string_view name,
                      CallKind kind) {
    std::uint32_t& known = labels_[which];
    if (known == 0) {
      known = 1 + process->line.calls.label(
                      {"communicate", fmt::format("{}{}", before, name), group, kind, rank_});
    }
    return known - 1;
  }

  std::atomic<std::uint64_t>& started_;
  const int rank_;
  // One more than their numbers; 0: not made.
  std::array<std::uint32_t, kMessages + 2 * kCollectives> labels_{};
};

// The notes of a process on its calls of one service.
struct PortNotes {
  std::shared_ptr<ProcessNotes> process;
  std::uint32_t call, wait;              // labels
  std::atomic<std::uint64_t>& requests;  // of this rank so far

  CallCell next(std::uint32_t label, const ServiceCall& request) {
    return {.label = label,
            .bytes = request.payload.size_bytes() + request.reply_payload.size_bytes(),
            .number = requests++};
  }
};

// The wait for a call that was started at waiting.cause. Its bytes are those of the call, whose
// time stands in a line of its own, beside what its process does meanwhile.
struct StartedNotes {
  std::shared_ptr<ProcessNotes> process;
  CallCell waiting;
};

// The last moments in which a process has let others go on.
struct MonitorNotes {
  std::mutex mutex;  // notify_all() needs no lock of the monitor's
  CallPoint given_back, notified;
};

namespace {

class SetsRunning : NonCopyable {
 public:
  // Null: there are no notes.
  explicit SetsRunning(const ProcessNotes* process) : process_(process) {}
  ~SetsRunning() {
    if (process_ != nullptr) ProcessNotes::running = process_;
  }

 private:
  const ProcessNotes* const process_;
};

// A call from here to the end of the scope, also when the run is unwound. The waits and delays of
// the process meanwhile are the difference of its breakdown.
//
// A port, a Comm and a call in flight belong to the process that has opened or started them.
// Another process would write to a line that is not its own, which in real time is a race: it gets
// a CheckFailure.
class NotedCall : NonCopyable {
 public:
  NotedCall(const ProcessNotes& process, const CallCell& its_call,
            const std::optional<MoreOfCall>& its_more = {})
      : call(its_call),
        more(its_more),
        process_(process),
        breakdown_(process.endpoint.time_breakdown()),
        waited_(breakdown_.wait),
        delayed_(breakdown_.delay_achieved) {
    const std::string& name = process.line.calls.label(call.label).name;
    if (process.thread != std::this_thread::get_id()) {
      throw CheckFailure(
          fmt::format("{} of {} is called by another process: each process of a worker opens and "
                      "starts its own",
                      name, process.line.name));
    }
    nvtx_ = begin_nvtx(name);
    call.begin = process.endpoint.now();
  }
  NotedCall(const ProcessNotes& process, ComputeKind kind, const Work& work)
      : NotedCall(process, {.label = static_cast<std::uint32_t>(kind)}, MoreOfCall{.work = work}) {}
  ~NotedCall() {
    end_nvtx(nvtx_);
    call.end = process_.endpoint.now();
    call.wait = breakdown_.wait - waited_;
    call.delay = breakdown_.delay_achieved - delayed_;
    call.steps = breakdown_.steps;
    if (call.label < kSleep) {
      more->charged = breakdown_.last_charged;
      more->busy = breakdown_.last_busy;
    }
    CallLog& calls = process_.line.calls;
    if (call.label == static_cast<std::uint32_t>(ComputeKind::step)) {
      calls.add_step(call, *more);
    } else {
      more ? calls.add(call, *more) : calls.add(call);
    }
    ProcessNotes::running = &process_;
  }

  CallCell call;
  std::optional<MoreOfCall> more;

 private:
  const ProcessNotes& process_;
  const TimeBreakdown& breakdown_;
  const Seconds waited_, delayed_;
  std::uint64_t nvtx_;
};

Pending noted_pending(std::unique_ptr<PendingCall> call, std::shared_ptr<ProcessNotes> process,
                      CallCell waiting) {
  waiting.cause = process->point();
  StartedNotes notes{std::move(process), waiting};
  return Pending(std::move(call), std::make_shared<StartedNotes>(std::move(notes)));
}

// Two ranges: of the wait in the line of the process, and of the call beside it.
CallTime noted_wait(const StartedNotes& notes, PendingCall& call) {
  ProcessNotes& process = *notes.process;
  NotedCall noted(process, notes.waiting, MoreOfCall());
  noted.call.bytes = 0;
  const CallTime time = call.wait();
  noted.more->since = time.begin;
  noted.more->until = time.end;
  const CallLabel& wait = process.line.calls.label(notes.waiting.label);
  CallLog& calls = process.started_calls();
  const std::uint32_t label = calls.label({wait.category, wait.name.substr(kWaitFor.size())});
  calls.add({.label = label, .begin = time.begin, .end = time.end, .bytes = notes.waiting.bytes});
  return time;
}

}  // namespace

// --- Endpoint

void Endpoint::note_calls(Trace& trace) { note_calls(trace, "", {}); }

void Endpoint::note_calls(Trace& trace, const std::string& background_task,
                          const CallPoint& parent) {
  notes_ = std::make_shared<ProcessNotes>(*this, trace, background_task, parent);
  comm().notes_ = std::make_shared<CommNotes>(notes_, "", rank());
}

void Endpoint::note_batch(std::uint64_t samples) {
  if (notes_) notes_->line.calls.note_samples(samples);
}

// A call that is not noted takes no room on the stack: thousands of fibers have one each, and what
// they touch is not in a cache.
bool Endpoint::compute_unless(CancellationToken* token, const Work& work, ComputeKind kind,
                              FunctionRef fn) {
  if (!notes_) return compute_raw(token, work, kind, fn);
  const NotedCall noted(*notes_, kind, work);
  return compute_raw(token, work, kind, fn);
}

void Endpoint::compute_in_place(const Work& work, ComputeKind kind, const InPlaceComputation& how) {
  if (!notes_) return compute_in_place_raw(work, kind, how);
  const NotedCall noted(*notes_, kind, work);
  compute_in_place_raw(work, kind, how);
}

void Endpoint::sleep(Seconds duration) {
  if (!notes_) return sleep_raw(duration);
  const NotedCall noted(*notes_, CallCell{.label = kSleep});
  sleep_raw(duration);
}

void Endpoint::background_task(std::string name, std::function<void(Endpoint&)> fn) {
  if (!notes_) return background_task_raw(std::move(name), std::move(fn));
  const SetsRunning sets(notes_.get());
  background_task_raw(name, [&trace = notes_->trace, name, parent = notes_->point(),
                             fn = std::move(fn)](Endpoint& endpoint) {
    endpoint.note_calls(trace, name, parent);
    fn(endpoint);
  });
}

std::unique_ptr<Monitor> Endpoint::make_monitor() {
  auto monitor = make_monitor_raw();
  if (notes_ && notes_->trace.has_causes()) monitor->notes_ = std::make_shared<MonitorNotes>();
  return monitor;
}

std::shared_ptr<ServicePort> Endpoint::open_service(const std::string& name,
                                                    const ServiceFactory& factory) {
  if (!notes_) return open_service_raw(name, factory);
  const SetsRunning sets(notes_.get());
  ServiceFactory noted = factory;
  if (notes_->trace.has_causes()) {
    noted.make = [&] {
      auto handler = factory.make();
      handler->note_requests(notes_->trace, name);
      return handler;
    };
  }
  auto port = open_service_raw(name, noted);
  // Requests are counted by rank in the view, as the service counts them.
  const std::string what = "service " + name;
  const auto label = [&](const std::string& call) {
    return notes_->line.calls.label({"service", call, "", CallKind::service, 0});
  };
  port->notes_ = std::make_shared<PortNotes>(
      PortNotes{notes_, label(what), label(kWaitFor + what), notes_->trace.made(rank(), what)});
  return port;
}

// Calls of the set-up are not on the clock.
void Endpoint::go_on() {
  go_on_raw();
  if (!notes_) return;
  notes_->line.calls.rewind(notes_->set_up);
  notes_->trace.went_on();
}

// The process that runs `fn` calls it: rank 0 in a pause of all.
void Endpoint::pause(bool together, FunctionRef fn) {
  const SetsRunning sets(notes_.get());
  pause_raw(together, [&] {
    std::optional<NotedCall> noted;
    if (notes_) noted.emplace(*notes_, CallCell{.label = kEvaluation});
    fn();
  });
}

// --- Monitor

namespace {

void note_moment(MonitorNotes* notes, CallPoint MonitorNotes::*moment) {
  if (notes == nullptr || ProcessNotes::running == nullptr) return;
  const std::lock_guard lock(notes->mutex);
  notes->*moment = ProcessNotes::running->point();
}

// Makes a call that ends at the earliest at the moment. A short wait for a lock is the price of the
// lock, not a wait for another process.
void wait_for_moment(MonitorNotes* notes, CallPoint MonitorNotes::*moment, std::uint32_t label,
                     FunctionRef call) {
  constexpr Seconds kShortest{1e-6};
  const ProcessNotes* const self = ProcessNotes::running;
  if (notes == nullptr || self == nullptr) return call();
  const SetsRunning sets(self);
  const Seconds begin = self->endpoint.now();
  call();
  const Seconds end = self->endpoint.now();
  if (end - begin < kShortest) return;
  const std::lock_guard lock(notes->mutex);
  self->line.calls.add({.label = label,
                        .begin = begin,
                        .end = end,
                        .wait = end - begin,
                        .steps = self->endpoint.time_breakdown().steps,
                        .cause = notes->*moment});
}

}  // namespace

void Monitor::lock() {
  wait_for_moment(notes_.get(), &MonitorNotes::given_back, kLock, [&] { lock_raw(); });
}

void Monitor::unlock() {
  note_moment(notes_.get(), &MonitorNotes::given_back);
  unlock_raw();
}

void Monitor::wait(const std::function<bool()>& ready, std::string_view what) {
  note_moment(notes_.get(), &MonitorNotes::given_back);
  wait_for_moment(notes_.get(), &MonitorNotes::notified, kWait, [&] { wait_raw(ready, what); });
}

void Monitor::notify_all() {
  note_moment(notes_.get(), &MonitorNotes::notified);
  notify_all_raw();
}

// --- Comm

void Comm::send_bytes(int to, int tag, std::span<const std::byte> data, Traffic kind, bool posts) {
  if (!notes_) return send_raw(to, tag, data, kind, posts);
  const NotedCall noted(*notes_->process,
                        notes_->message(posts ? kPost : kSend, to, tag, data.size()));
  send_raw(to, tag, data, kind, posts);
}

Envelope Comm::receive_bytes(int from, int tag, std::span<std::byte> data) {
  if (!notes_) return receive_raw(from, tag, data);
  NotedCall noted(*notes_->process, notes_->message(kReceive, from, tag, data.size()));
  const Envelope envelope = receive_raw(from, tag, data);
  noted.call.peer = envelope.source;
  return envelope;
}

void Comm::sendrecv_bytes(int peer, int tag, std::span<const std::byte> out,
                          std::span<std::byte> in, Traffic kind) {
  if (!notes_) return sendrecv_raw(peer, tag, out, in, kind);
  const NotedCall noted(*notes_->process,
                        notes_->message(kSendrecv, peer, tag, out.size() + in.size()));
  sendrecv_raw(peer, tag, out, in, kind);
}

void Comm::make(const CollectiveRequest& request) {
  check_request(request);
  if (!notes_) return make_raw(request);
  const NotedCall noted(*notes_->process, notes_->collective(request, false));
  make_raw(request);
}

Pending Comm::start(const CollectiveRequest& request) {
  const Collective collective = request.call.collective;
  if (collective == Collective::barrier || collective == Collective::split ||
      collective == Collective::agree) {
    throw CheckFailure(fmt::format("{} cannot be started", collective_name(collective)));
  }
  if (size() == 1) {
    make(request);
    return {};
  }
  check_request(request);
  auto call = start_raw(request);
  if (!notes_) return Pending(std::move(call));
  return noted_pending(std::move(call), notes_->process, notes_->collective(request, true));
}

// The calls of the part are noted, too.
std::unique_ptr<Comm> Comm::split(int color, int key) {
  SplitPart part{.choice = {color, key}, .comm = nullptr};
  const CollectiveRequest request{.call = {.collective = Collective::split}, .out = &part};
  std::string group;
  std::optional<NotedCall> noted;
  if (notes_) {
    group = fmt::format("{}/{}:{}", notes_->group, notes_->collectives.load(), color);
    noted.emplace(*notes_->process, notes_->collective(request, false),
                  MoreOfCall{.is_split = 1, .color = color, .key = key});
  }
  make_raw(request);
  noted.reset();
  if (notes_ && part.comm) {
    part.comm->notes_ =
        std::make_shared<CommNotes>(notes_->process, std::move(group), part.comm->rank());
  }
  return std::move(part.comm);
}

// --- ServicePort

void ServicePort::call(const ServiceCall& call) {
  if (!notes_) return call_raw(call);
  const NotedCall noted(*notes_->process, notes_->next(notes_->call, call));
  call_raw(call);
}

Pending ServicePort::post(const ServiceCall& call) {
  auto posted = post_raw(call);
  if (!notes_) return Pending(std::move(posted));
  return noted_pending(std::move(posted), notes_->process, notes_->next(notes_->wait, call));
}

// --- Pending

CallTime Pending::wait() {
  if (!call_) return {};
  const CallTime time = notes_ ? noted_wait(*notes_, *call_) : call_->wait();
  call_.reset();
  return time;
}

void Pending::settle() noexcept {
  if (!call_) return;
  const SetsRunning sets(notes_ ? notes_->process.get() : nullptr);
  call_->settle(std::uncaught_exceptions() > exceptions_);
  call_.reset();
}

}  // namespace hetsgd
