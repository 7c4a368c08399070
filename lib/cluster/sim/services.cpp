#include "cluster/sim/services.hpp"

#include <deque>
#include <utility>

#include "cluster/sim/world.hpp"
#include "core/error.hpp"

namespace hetsgd::sim {

namespace {

// One call, from the client's process and back. Belongs to the caller: on the stack of a blocking
// one, in the pending call of a posted one. Events, the queue and the answer's token refer to it
// until it is delivered, so neither ends before that, or the run fails before its next event.
struct Call {
  // Where the reply goes.
  std::span<std::byte> reply{};
  std::span<float> reply_numbers{};
  SimService* service = nullptr;
  Process* process = nullptr;  // waits; null: not yet
  int rank = 0;                // in the view
  int worker = 0;              // in the run
  // The request, copied when the call was made: it is handled later, and then must be what it was.
  Payload request{};
  Payload numbers{};
  double charged = 0;
  double sent = 0;  // when its last byte has left the worker's link
  // The reply's bytes on the wire, and its times. called <= arrived <= answered <= delivered.
  double called = 0;
  double arrived = 0;
  double answered = 0;
  double delivered = -1;  // not yet
  double reply_struct_bytes = 0;
  double reply_numbers_bytes = 0;
  Traffic reply_kind = Traffic::control;
  double reply_sent = 0;

  std::span<const float> request_numbers() const {
    const auto bytes = numbers.bytes();
    return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
  }
  double reply_charged() const { return reply_struct_bytes + reply_numbers_bytes; }
};

}  // namespace

class SimService {
 public:
  SimService(World& world, const DeviceProfile& profile, double work_scale, std::string name,
             std::unique_ptr<ServiceHandler> handler)
      : world_(world),
        profile_(profile),
        work_scale_(work_scale),
        name_(std::move(name)),
        handler_(std::move(handler)) {
    handler_->set_clock([&engine = world.engine] { return Seconds(engine.now()); });
    world.cores.add_polling(1);
  }

  // The request of `from`, the caller's, leaves; fills `call`.
  void send(Call& call, int rank, int worker, const ServiceCall& from);
  // Returns when the reply is here.
  void await(Call& call);
  void answer(Call& call, std::span<const std::byte> reply, std::span<const float> numbers,
              Traffic kind);
  std::string text() const { return blocked_in_call(name_); }
  const std::string& name() const { return name_; }
  void left(int rank) { handler_->left(rank); }
  void save(SavedFields& fields) { save_service(fields, name_, *handler_); }
  World& world() { return world_; }

 private:
  // The stations of a call, each an event.
  static void enter_server_link(void* object);
  static void arrive(void* object);
  static void serve(void* object);
  static void enter_worker_link(void* object);
  static void deliver(void* object);
  void begin(Call& call);
  void serve_next();

  World& world_;
  const DeviceProfile& profile_;
  double work_scale_;
  std::string name_;
  std::deque<Call*> queue_;  // the first is being served
  double idle_since_ = 0;
  double turned_ = 0;  // to the request that is being served
  HostCores::Task work_;
  // The last member, so that it is destroyed first: tokens that it has kept refer to the rest.
  std::unique_ptr<ServiceHandler> handler_;
};

namespace {

// The right and duty to answer one call, which the handler may keep for a later request. A lost one
// fails the run before its next event. The call is gone if the run is being torn down.
class SimReply final : public ReplyToken {
 public:
  SimReply(SimService& service, Call& call)
      : ReplyToken(service.name(), call.rank, call.reply.size(), call.reply_numbers.size()),
        service_(service),
        call_(call) {}
  ~SimReply() override {
    Engine& engine = service_.world().engine;
    if (const auto error = unanswered(); error && !engine.tearing_down()) engine.abort(error);
  }

 private:
  void deliver(std::span<const std::byte> reply, std::span<const float> payload,
               Traffic kind) override {
    service_.answer(call_, reply, payload, kind);
  }

  SimService& service_;
  Call& call_;
};

class SimPort final : public ServicePort {
 public:
  SimPort(SimService& service, int rank, int worker)
      : service_(service), rank_(rank), worker_(worker) {}
  void call_raw(const ServiceCall& from) override {
    Call call;
    Engine& engine = service_.world().engine;
    Process& self = engine.reach("a service call");
    service_.send(call, rank_, worker_, from);
    service_.await(call);
    // In a destructor while the run is torn down await() returns without an answer.
    if (call.answered < call.arrived || engine.tearing_down()) return;
    self.breakdown->wait += Seconds(call.answered - call.arrived);
    self.breakdown->wait += Seconds(engine.now() - call.delivered);
    self.breakdown->communicate +=
        Seconds(call.arrived - call.called + call.delivered - call.answered);
    self.communicated(call.called, call.arrived);
    self.communicated(call.answered, call.delivered);
  }
  std::unique_ptr<PendingCall> post_raw(const ServiceCall& from) override {
    service_.world().engine.reach("a service call");
    auto posted = std::make_unique<Posted>(service_);
    service_.send(posted->call, rank_, worker_, from);
    return posted;
  }

 private:
  // Only the time that wait() blocks is the process's; the call's own times are in CallTime.
  struct Posted final : PendingCall {
    explicit Posted(SimService& its_service) : service(its_service) {}
    CallTime wait() override {
      Engine& engine = service.world().engine;
      Process& self = engine.current("wait");
      const double since = engine.now();
      service.await(call);
      self.breakdown->wait += Seconds(engine.now() - since);
      return {Seconds(call.called), Seconds(call.delivered)};
    }
    void settle(bool failing) noexcept override {
      service.world().engine.settle(
          call.delivered >= 0, failing, [this] { wait(); }, [this] { return service.text(); });
    }
    SimService& service;
    Call call;
  };

  SimService& service_;
  int rank_, worker_;
};

}  // namespace

void SimService::send(Call& call, int rank, int worker, const ServiceCall& from) {
  Engine& engine = world_.engine;
  Network& network = world_.network;
  if (engine.tearing_down()) return;
  call.reply = from.reply;
  call.reply_numbers = from.reply_payload;
  call.service = this;
  call.rank = rank;
  call.worker = worker;
  call.request.assign(from.request);
  call.numbers.assign(std::as_bytes(from.payload));
  call.called = engine.now();
  const double numbers_bytes = network.charged(from.payload.size_bytes(), from.kind);
  call.charged = network.charged(from.request.size(), Traffic::control) + numbers_bytes;
  world_.count_sent(worker, Traffic::control, call.charged - numbers_bytes);
  world_.count_sent(worker, from.kind, numbers_bytes);
  const auto slot = network.link(worker).pass(Direction::out, call.called, call.charged);
  call.sent = slot.end;
  world_.copy(call.charged / network.link(worker).bytes_per_s());
  // Unlike a message, a request does not hold up its sender until it has left: a caller blocks for
  // the answer anyway, and post() is there to compute meanwhile.
  engine.at_arrival(slot.start + network.server_latency(worker), rank, enter_server_link, &call);
}

// deliver() resumes the process directly; from a posted call it may have come before, to nobody.
void SimService::await(Call& call) {
  if (call.delivered >= 0) return;
  call.process = &world_.engine.current("a service call");
  const AwaitingOthers waiting(world_, *call.process);
  world_.engine.block([this] { return text(); });
}

void SimService::enter_server_link(void* object) {
  Call& call = *static_cast<Call*>(object);
  World& world = call.service->world_;
  const double latency = world.network.server_latency(call.worker);
  // Two links of different speed: the request is here when the slower has passed its last byte.
  const double through =
      world.network.server().pass(Direction::in, world.engine.now(), call.charged).end;
  world.engine.at_arrival(std::max(through, call.sent + latency), call.rank, arrive, &call);
}

void SimService::arrive(void* object) {
  Call& call = *static_cast<Call*>(object);
  SimService& self = *call.service;
  call.arrived = self.world_.engine.now();
  self.queue_.push_back(&call);
  if (self.queue_.size() == 1) self.begin(call);
}

// The service has had nothing to do, and finds the request as late as any process that waits.
void SimService::begin(Call& call) {
  Engine& engine = world_.engine;
  if (!world_.cores.shared()) return serve_next();
  world_.cores.add_polling(-1);
  const double late = world_.cores.late(engine.now() - idle_since_, true);
  engine.at(
      engine.now() + late, [](void* object) { static_cast<Call*>(object)->service->serve_next(); },
      &call);
}

// The service time comes before the handler: an answer that it gives at once leaves at the end of
// it.
void SimService::serve_next() {
  if (queue_.empty()) {
    idle_since_ = world_.engine.now();
    return world_.cores.add_polling(1);
  }
  Call& call = *queue_.front();
  turned_ = world_.engine.now();
  const Work work = handler_->work_raw(call.request.bytes(), call.numbers.size() / sizeof(float));
  const double seconds = profile_.seconds(work.scaled(work_scale_)).count();
  if (world_.cores.shared()) return work_.start(world_.cores, seconds, serve, &call);
  world_.engine.at(world_.engine.now() + seconds, serve, &call);
}

void SimService::serve(void* object) {
  Call& call = *static_cast<Call*>(object);
  SimService& self = *call.service;
  // The reply can only be delivered by a later event, so the call outlives the handler.
  self.handler_->handle_request(call.rank, call.request.bytes(), call.request_numbers(),
                                std::make_unique<SimReply>(self, call), Seconds(self.turned_));
  self.queue_.pop_front();
  self.serve_next();
}

void SimService::answer(Call& call, std::span<const std::byte> reply,
                        std::span<const float> numbers, Traffic kind) {
  Engine& engine = world_.engine;
  Network& network = world_.network;
  if (engine.tearing_down()) return;
  // The buffers are the call's until it is delivered, so they can be filled before the reply has
  // travelled: nobody may look at them earlier.
  std::memcpy(call.reply.data(), reply.data(), reply.size());
  if (!numbers.empty())
    std::memcpy(call.reply_numbers.data(), numbers.data(), numbers.size_bytes());
  call.answered = engine.now();
  call.reply_kind = kind;
  call.reply_struct_bytes = network.charged(reply.size(), Traffic::control);
  call.reply_numbers_bytes = network.charged(numbers.size_bytes(), kind);
  const auto slot = network.server().pass(Direction::out, engine.now(), call.reply_charged());
  call.reply_sent = slot.end;
  world_.copy(call.reply_charged() / network.server().bytes_per_s());
  engine.at_arrival(slot.start + network.server_latency(call.worker), call.rank, enter_worker_link,
                    &call);
}

void SimService::enter_worker_link(void* object) {
  Call& call = *static_cast<Call*>(object);
  World& world = call.service->world_;
  const double latency = world.network.server_latency(call.worker);
  Link& link = world.network.link(call.worker);
  const double through = link.pass(Direction::in, world.engine.now(), call.reply_charged()).end;
  world.engine.at_arrival(std::max(through, call.reply_sent + latency), call.rank, deliver, &call);
}

void SimService::deliver(void* object) {
  Call& call = *static_cast<Call*>(object);
  World& world = call.service->world_;
  world.count_received(call.worker, Traffic::control, call.reply_struct_bytes);
  world.count_received(call.worker, call.reply_kind, call.reply_numbers_bytes);
  call.delivered = world.engine.now();
  if (call.process == nullptr) return;
  world.cores.shared() ? void(world.engine.wake(*call.process))
                       : world.engine.resume(*call.process);
}

// The profile is copied, as the services refer to it.
Services::Services(World& world, Segment& segment, DeviceProfile profile, double work_scale)
    : world_(world), segment_(segment), profile_(std::move(profile)), work_scale_(work_scale) {}

Services::~Services() = default;

std::shared_ptr<ServicePort> Services::open(int rank, int worker, const std::string& name,
                                            const ServiceFactory& factory) {
  const auto make = [&](const auto&) {
    std::unique_ptr<ServiceHandler> handler = factory.make();
    load_service(segment_, name, *handler);
    return std::make_shared<SimService>(world_, profile_, work_scale_, name, std::move(handler));
  };
  return std::make_shared<SimPort>(*services_.open(name, make), rank, worker);
}

void Services::left(int rank) { services_.left(rank); }

void Services::save(SavedFields& fields) {
  services_.for_each([&](SimService& service) { service.save(fields); });
}

}  // namespace hetsgd::sim
