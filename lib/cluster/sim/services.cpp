#include "cluster/sim/services.hpp"

#include <deque>
#include <utility>

#include "cluster/sim/work.hpp"
#include "core/error.hpp"

namespace hetsgd::sim {

namespace {

// One call, from the client's process and back. Lies on that process's stack.
struct Call {
  SimService* service = nullptr;
  Process* process = nullptr;
  int rank = 0;
  // The request, copied when the call was made.
  Payload request;
  Payload numbers;
  double charged = 0;
  double sent = 0;  // when its last byte has left the worker's link
  // Where the reply goes.
  std::span<std::byte> reply;
  std::span<float> reply_numbers;
  // The reply's bytes on the wire, and its times.
  double arrived = 0;
  double answered = 0;
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
  }

  void call(int rank, std::span<const std::byte> request, std::span<const float> numbers,
            Traffic kind, std::span<std::byte> reply, std::span<float> reply_numbers);
  void answer(Call& call, std::span<const std::byte> reply, std::span<const float> numbers,
              Traffic kind);
  void dropped(int rank);
  ServiceHandler& handler() { return *handler_; }

 private:
  // The stations of a call, each an event.
  static void enter_server_link(void* object);
  static void arrive(void* object);
  static void serve(void* object);
  static void enter_worker_link(void* object);
  static void deliver(void* object);
  void serve_next();

  World& world_;
  const DeviceProfile& profile_;
  double work_scale_;
  std::string name_;
  std::deque<Call*> queue_;  // the first is being served
  std::unique_ptr<ServiceHandler> handler_;
};

namespace {

class SimReply final : public ReplyToken {
 public:
  SimReply(SimService& service, Call& call) : service_(service), rank_(call.rank), call_(&call) {}
  // The call is gone if the run is being torn down: the service knows.
  ~SimReply() override {
    if (call_ != nullptr) service_.dropped(rank_);
  }
  void answer(std::span<const std::byte> reply, std::span<const float> payload,
              Traffic kind) override {
    HETSGD_CHECK(call_ != nullptr);  // answered once
    service_.answer(*std::exchange(call_, nullptr), reply, payload, kind);
  }

 private:
  SimService& service_;
  int rank_;
  Call* call_;
};

class SimPort final : public ServicePort {
 public:
  SimPort(SimService& service, int rank) : service_(service), rank_(rank) {}
  void call_raw(std::span<const std::byte> request, std::span<const float> payload, Traffic kind,
                std::span<std::byte> reply, std::span<float> reply_payload) override {
    service_.call(rank_, request, payload, kind, reply, reply_payload);
  }

 private:
  SimService& service_;
  int rank_;
};

}  // namespace

void SimService::call(int rank, std::span<const std::byte> request, std::span<const float> numbers,
                      Traffic kind, std::span<std::byte> reply, std::span<float> reply_numbers) {
  Engine& engine = world_.engine;
  Network& network = world_.network;
  Process& self = engine.current("a service call");
  if (engine.tearing_down()) return engine.block([] { return std::string(); });

  Call call;
  call.service = this;
  call.process = &self;
  call.rank = rank;
  call.request.assign(request);
  call.numbers.assign(std::as_bytes(numbers));
  call.reply = reply;
  call.reply_numbers = reply_numbers;

  const double called = engine.now();
  const double numbers_bytes = network.charged(numbers.size_bytes(), kind);
  call.charged = network.charged(request.size(), Traffic::control) + numbers_bytes;
  world_.count_sent(rank, Traffic::control, call.charged - numbers_bytes);
  world_.count_sent(rank, kind, numbers_bytes);
  const auto slot = network.egress(rank, called, call.charged);
  call.sent = slot.end;
  engine.at_arrival(slot.start + network.model().server_latency.count(), rank, enter_server_link,
                    &call);
  engine.block([this] { return blocked_in_call(name_); });

  if (call.answered < call.arrived || engine.tearing_down()) return;
  self.ledger->wait += Seconds(call.answered - call.arrived);
  self.ledger->communicate += Seconds(call.arrived - called + engine.now() - call.answered);
}

void SimService::enter_server_link(void* object) {
  Call& call = *static_cast<Call*>(object);
  World& world = call.service->world_;
  const double latency = world.network.model().server_latency.count();
  const double through = world.network.server_ingress(world.engine.now(), call.charged);
  world.engine.at_arrival(std::max(through, call.sent + latency), call.rank, arrive, &call);
}

void SimService::arrive(void* object) {
  Call& call = *static_cast<Call*>(object);
  SimService& self = *call.service;
  call.arrived = self.world_.engine.now();
  self.queue_.push_back(&call);
  if (self.queue_.size() == 1) self.serve_next();
}

void SimService::serve_next() {
  if (queue_.empty()) return;
  Call& call = *queue_.front();
  const Work work = handler_->work_raw(call.request.bytes(), call.numbers.size() / sizeof(float));
  const double seconds = profile_.seconds(scaled(work, work_scale_)).count();
  world_.engine.at(world_.engine.now() + seconds, serve, &call);
}

void SimService::serve(void* object) {
  Call& call = *static_cast<Call*>(object);
  SimService& self = *call.service;
  // The reply can only be delivered by a later event, so the call outlives the handler.
  self.handler_->handle_raw(call.rank, call.request.bytes(), call.request_numbers(),
                            std::make_unique<SimReply>(self, call));
  self.queue_.pop_front();
  self.serve_next();
}

void SimService::answer(Call& call, std::span<const std::byte> reply,
                        std::span<const float> numbers, Traffic kind) {
  Engine& engine = world_.engine;
  Network& network = world_.network;
  if (engine.tearing_down()) return;
  HETSGD_CHECK_EQ(reply.size(), call.reply.size());
  if (numbers.size() != call.reply_numbers.size()) {
    throw CheckFailure(fmt::format(
        "service \"{}\" answers rank {} with {} numbers, but the caller made room for {}", name_,
        call.rank, numbers.size(), call.reply_numbers.size()));
  }
  // The caller is blocked and these are its buffers: they can be filled before it is woken.
  std::memcpy(call.reply.data(), reply.data(), reply.size());
  if (!numbers.empty())
    std::memcpy(call.reply_numbers.data(), numbers.data(), numbers.size_bytes());
  call.answered = engine.now();
  call.reply_kind = kind;
  call.reply_struct_bytes = network.charged(reply.size(), Traffic::control);
  call.reply_numbers_bytes = network.charged(numbers.size_bytes(), kind);
  const auto slot = network.server_egress(engine.now(), call.reply_charged());
  call.reply_sent = slot.end;
  engine.at_arrival(slot.start + network.model().server_latency.count(), call.rank,
                    enter_worker_link, &call);
}

void SimService::enter_worker_link(void* object) {
  Call& call = *static_cast<Call*>(object);
  World& world = call.service->world_;
  const double latency = world.network.model().server_latency.count();
  const double through = world.network.ingress(call.rank, world.engine.now(), call.reply_charged());
  world.engine.at_arrival(std::max(through, call.reply_sent + latency), call.rank, deliver, &call);
}

void SimService::deliver(void* object) {
  Call& call = *static_cast<Call*>(object);
  World& world = call.service->world_;
  world.count_received(call.rank, Traffic::control, call.reply_struct_bytes);
  world.count_received(call.rank, call.reply_kind, call.reply_numbers_bytes);
  world.engine.resume(*call.process);
}

void SimService::dropped(int rank) {
  if (world_.engine.tearing_down()) return;
  world_.engine.abort(std::make_exception_ptr(CheckFailure(fmt::format(
      "service \"{}\" dropped the request of rank {} without an answer", name_, rank))));
}

Services::Services(World& world, DeviceProfile profile, double work_scale)
    : world_(world), profile_(std::move(profile)), work_scale_(work_scale) {}

Services::~Services() = default;

std::shared_ptr<ServicePort> Services::open(
    int rank, const std::string& name,
    const std::function<std::unique_ptr<ServiceHandler>()>& factory) {
  auto& service = services_[name];
  if (!service) {
    service = std::make_unique<SimService>(world_, profile_, work_scale_, name, factory());
    for (const int gone : left_) service->handler().left(gone);
  }
  return std::make_shared<SimPort>(*service, rank);
}

void Services::left(int rank) {
  left_.push_back(rank);
  for (auto& [name, service] : services_) service->handler().left(rank);
}

}  // namespace hetsgd::sim
