#include "training/traced_endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "core/error.hpp"
#include "core/non_copyable.hpp"
#include "training/nvtx.hpp"

namespace hetsgd {

namespace {

// The lines of one process.
struct TraceLines {
  TraceLine& own;
  std::function<TraceLine&()> started_calls;  // made at first use
  const std::thread::id thread = std::this_thread::get_id();
};

// A port, a Comm and a call under way belong to the process that has opened or started them.
// Another process would write to a line that is not its own, which in real time is a race.
TraceLine& own_line(const TraceLines& lines, const std::string& call) {
  if (lines.thread == std::this_thread::get_id()) return lines.own;
  throw CheckFailure(fmt::format(
      "{} of {} is called by another process: each process of a worker opens and starts its own",
      call, lines.own.name));
}

// From its making to its end, also when the run is unwound.
class Range : NonCopyable {
 public:
  // What the process has waited and was delayed meanwhile is the difference of its breakdown.
  // Errors: check, as own_line().
  Range(Endpoint& endpoint, const TraceLines& lines, const char* category, std::string name,
        CallPlace place = {}, std::uint64_t bytes = 0)
      : endpoint_(endpoint),
        line_(own_line(lines, name)),
        nvtx_(name.c_str()),
        waited_(endpoint.time_breakdown().wait),
        delayed_(endpoint.time_breakdown().delay_achieved) {
    range_.category = category;
    range_.name = std::move(name);
    range_.bytes = bytes;
    range_.place = std::move(place);
    range_.begin = endpoint.now();
  }
  ~Range() {
    const TimeBreakdown& breakdown = endpoint_.time_breakdown();
    range_.end = endpoint_.now();
    range_.wait = breakdown.wait - waited_;
    range_.delay = breakdown.delay_achieved - delayed_;
    range_.steps = breakdown.steps;
    line_.ranges.push_back(std::move(range_));
  }

  CallPlace& place() { return range_.place; }

 private:
  Endpoint& endpoint_;
  TraceLine& line_;
  NvtxRange nvtx_;
  const Seconds waited_, delayed_;
  TraceRange range_;
};

// Its time stands in a line of its own, beside what its process does meanwhile.
class TracedCall final : public PendingCall {
 public:
  TracedCall(Endpoint& endpoint, const TraceLines& lines, const char* category, std::string name,
             CallPlace place, std::uint64_t bytes, std::unique_ptr<PendingCall> call)
      : endpoint_(endpoint),
        lines_(lines),
        category_(category),
        name_(std::move(name)),
        place_(std::move(place)),
        bytes_(bytes),
        call_(std::move(call)) {}
  CallTime wait() override {
    Range range(endpoint_, lines_, category_, "wait for " + name_, place_);
    const CallTime time = call_->wait();
    range.place().since = time.begin;
    TraceRange& started = lines_.started_calls().ranges.emplace_back();
    started.category = category_;
    started.name = name_;
    started.begin = time.begin;
    started.end = time.end;
    started.bytes = bytes_;
    return time;
  }
  void settle(bool failing) noexcept override { call_->settle(failing); }

 private:
  Endpoint& endpoint_;
  const TraceLines& lines_;
  const char* const category_;
  const std::string name_;
  const CallPlace place_;
  const std::uint64_t bytes_;
  const std::unique_ptr<PendingCall> call_;
};

class TracedComm final : public Comm {
 public:
  // That of all workers.
  TracedComm(Endpoint& endpoint, const TraceLines& lines, Comm& comm, GroupCalls& calls)
      : endpoint_(endpoint), lines_(lines), comm_(comm), calls_(calls) {}
  // Of a part of one, whose only user is the process that has split it.
  TracedComm(Endpoint& endpoint, const TraceLines& lines, std::unique_ptr<Comm> comm,
             std::string group)
      : endpoint_(endpoint),
        lines_(lines),
        owned_(std::move(comm)),
        comm_(*owned_),
        calls_(own_calls_),
        group_(std::move(group)) {}

  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  bool poll(int from, int tag) override { return comm_.poll(from, tag); }
  void barrier() override {
    const Range range = collective("barrier", 0);
    comm_.barrier();
  }
  std::unique_ptr<Comm> split(int color, int key) override {
    const std::string group = fmt::format("{}/{}:{}", group_, calls_.collectives, color);
    Range range = collective("split", 0);
    range.place().is_split = true;
    range.place().color = color;
    range.place().key = key;
    auto part = comm_.split(color, key);
    if (!part) return nullptr;
    return std::make_unique<TracedComm>(endpoint_, lines_, std::move(part), group);
  }
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
  void all_reduce_raw(void* data, std::size_t count, Element element, ReduceOp op,
                      Traffic kind) override {
    const Range range = collective("all_reduce", count * element_bytes(element));
    comm_.all_reduce_raw(data, count, element, op, kind);
  }
  void broadcast_raw(void* data, std::size_t bytes, int root, Traffic kind) override {
    const Range range = collective("broadcast", bytes);
    comm_.broadcast_raw(data, bytes, root, kind);
  }
  void all_gather_raw(const void* mine, std::size_t bytes, void* all, Traffic kind) override {
    const Range range = collective("all_gather", bytes);
    comm_.all_gather_raw(mine, bytes, all, kind);
  }
  std::shared_ptr<const void> agree_raw(const void* mine, std::size_t bytes, const Maker& make,
                                        Traffic kind) override {
    const Range range = collective("agree", bytes);
    return comm_.agree_raw(mine, bytes, make, kind);
  }
  void reduce_scatter_raw(void* data, std::size_t count, Element element, ReduceOp op,
                          Traffic kind) override {
    const Range range = collective("reduce_scatter", count * element_bytes(element));
    comm_.reduce_scatter_raw(data, count, element, op, kind);
  }
  void all_to_all_raw(const AllToAll& mine, Traffic kind) override {
    const Range range = collective("all_to_all", mine.send_bytes());
    comm_.all_to_all_raw(mine, kind);
  }
  std::unique_ptr<PendingCall> start_raw(const CollectiveRequest& request) override {
    const CollectiveCall& call = request.call;
    const std::uint64_t bytes = call.collective == Collective::all_to_all
                                    ? request.parts.send_bytes()
                                    : call.count * element_bytes(call.element);
    CallPlace place = place_of(CallKind::started);
    place.number = calls_.started++;
    return std::make_unique<TracedCall>(endpoint_, lines_, "communicate",
                                        std::string(collective_name(call.collective)),
                                        std::move(place), bytes, comm_.start_raw(request));
  }

 private:
  CallPlace place_of(CallKind kind) const {
    return {.kind = kind, .group = group_, .rank = comm_.rank()};
  }
  Range collective(const char* name, std::uint64_t bytes) {
    CallPlace place = place_of(CallKind::collective);
    place.number = calls_.collectives++;
    return Range(endpoint_, lines_, "communicate", name, std::move(place), bytes);
  }
  Range message(const char* name, CallKind kind, int peer, int tag, std::uint64_t bytes) {
    CallPlace place = place_of(kind);
    place.peer = peer;
    place.tag = tag;
    return Range(endpoint_, lines_, "communicate", name, std::move(place), bytes);
  }

  Endpoint& endpoint_;
  const TraceLines& lines_;
  std::unique_ptr<Comm> owned_;
  Comm& comm_;
  GroupCalls own_calls_;
  GroupCalls& calls_;
  const std::string group_;
};

class TracedPort final : public ServicePort {
 public:
  TracedPort(Endpoint& endpoint, const TraceLines& lines, const std::string& service,
             std::shared_ptr<ServicePort> port)
      : endpoint_(endpoint), lines_(lines), name_("service " + service), port_(std::move(port)) {}

  void call_raw(const ServiceCall& call) override {
    const Range range(endpoint_, lines_, "service", name_, {.kind = CallKind::service},
                      call.payload.size_bytes() + call.reply_payload.size_bytes());
    port_->call_raw(call);
  }
  std::unique_ptr<PendingCall> post_raw(const ServiceCall& call) override {
    return std::make_unique<TracedCall>(
        endpoint_, lines_, "service", name_, CallPlace{.kind = CallKind::service},
        call.payload.size_bytes() + call.reply_payload.size_bytes(), port_->post_raw(call));
  }

 private:
  Endpoint& endpoint_;
  const TraceLines& lines_;
  const std::string name_;
  std::shared_ptr<ServicePort> port_;
};

class TracedEndpoint final : public Endpoint {
 public:
  TracedEndpoint(Endpoint& endpoint, Trace& trace, const std::string& background_task)
      : endpoint_(endpoint),
        trace_(trace),
        line_(trace.line(endpoint.rank(), background_task)),
        lines_{line_,
               [this, name = background_task.empty() ? "" : background_task + " "]() -> TraceLine& {
                 if (!started_) started_ = &trace_.line(rank(), name + std::string(kStartedCalls));
                 return *started_;
               }},
        comm_(endpoint_, lines_, endpoint.comm(), trace.world_calls(endpoint.rank())) {}

  int rank() const override { return endpoint_.rank(); }
  int size() const override { return endpoint_.size(); }
  Seconds now() const override { return endpoint_.now(); }
  Device& device() override { return endpoint_.device(); }
  bool in_host_memory() override { return endpoint_.in_host_memory(); }
  Comm& comm() override { return comm_; }
  TimeBreakdown& time_breakdown() override { return endpoint_.time_breakdown(); }
  TimeBreakdown account() override { return endpoint_.account(); }
  TraceLine& line() { return line_; }

  void compute(const Work& work, ComputeKind kind, FunctionRef fn) override {
    const Range range(endpoint_, lines_, "compute", name_of(kind));
    endpoint_.compute(work, kind, fn);
  }
  void compute_in_place(const Work& work, ComputeKind kind,
                        const InPlaceComputation& how) override {
    const bool copies = kind == ComputeKind::transfer;
    const Range range(endpoint_, lines_, copies ? "communicate" : "compute", name_of(kind));
    endpoint_.compute_in_place(work, kind, how);
  }
  bool compute_cancellable(CancellationToken& token, const Work& work, ComputeKind kind,
                           FunctionRef fn) override {
    const Range range(endpoint_, lines_, "compute", name_of(kind));
    return endpoint_.compute_cancellable(token, work, kind, fn);
  }
  std::unique_ptr<CancellationToken> make_cancellation_token() override {
    return endpoint_.make_cancellation_token();
  }
  void sleep(Seconds duration) override {
    const Range range(endpoint_, lines_, "compute", "sleep");
    endpoint_.sleep(duration);
  }

  void background_task(std::string name, std::function<void(Endpoint&)> fn) override {
    endpoint_.background_task(name,
                              [&trace = trace_, name, fn = std::move(fn)](Endpoint& endpoint) {
                                TracedEndpoint traced(endpoint, trace, name);
                                fn(traced);
                              });
  }
  std::unique_ptr<Monitor> make_monitor() override { return endpoint_.make_monitor(); }

  std::shared_ptr<ServicePort> open_service(const std::string& name,
                                            const ServiceFactory& factory) override {
    return traced(name, endpoint_.open_service(name, factory));
  }

  void while_paused(FunctionRef fn) override {
    endpoint_.while_paused([&] { evaluate(fn); });
  }
  void while_paused_together(FunctionRef fn) override {
    endpoint_.while_paused_together([&] { evaluate(fn); });
  }

 private:
  static const char* name_of(ComputeKind kind) {
    switch (kind) {
      case ComputeKind::step:
        return "step";
      case ComputeKind::part:
        return "part";
      case ComputeKind::vector:
        return "vector";
      case ComputeKind::transfer:
        return "transfer";
      case ComputeKind::stage:
        return "stage";
    }
    return "";
  }
  std::shared_ptr<ServicePort> traced(const std::string& name, std::shared_ptr<ServicePort> port) {
    return std::make_shared<TracedPort>(endpoint_, lines_, name, std::move(port));
  }
  // By whoever comes to it: rank 0 in a pause of all.
  void evaluate(FunctionRef fn) {
    const Range range(endpoint_, lines_, "off_clock", "evaluation");
    fn();
  }

  Endpoint& endpoint_;
  Trace& trace_;
  TraceLine& line_;
  TraceLine* started_ = nullptr;
  const TraceLines lines_;
  TracedComm comm_;
};

}  // namespace

void with_traced_endpoint(Endpoint& endpoint, Trace& trace,
                          const std::function<void(Endpoint&)>& fn) {
  TracedEndpoint traced(endpoint, trace, "");
  fn(traced);
}

void note_batch(Endpoint& endpoint, std::uint64_t samples) {
  std::vector<TraceRange>& ranges = static_cast<TracedEndpoint&>(endpoint).line().ranges;
  const auto step = std::find_if(ranges.rbegin(), ranges.rend(),
                                 [](const TraceRange& range) { return range.name == "step"; });
  if (step != ranges.rend()) step->samples = samples;
}

}  // namespace hetsgd
