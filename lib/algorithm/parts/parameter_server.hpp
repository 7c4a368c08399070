// A parameter server: the common part of asgd, dc-asgd and ssp. The server holds the parameters and
// applies gradients to them; one message brings a gradient and takes the parameters back.
//
// The version of the parameters is the number of their updates. The staleness of a push is the
// number of updates by other workers between the worker's pull and the application of its gradient.
//
//   worker a      w_0  --- g(w_0) ---------------> pushes           gets w_2
//   worker b      w_0  --- g(w_0) ---> pushes      |                ^
//   server        version 0            1: w_1      2: w_2 ---------'
//   staleness                          0           1 = applied - 1 - version pulled
//
// The server is a Service: it handles one request after the other, in the order of arrival, on the
// process that runs it. So it needs no lock, and versions number the pushes. The time of an update
// is charged to the server (work()). Its link carries all pushes and pulls, and is the bottleneck
// that the papers compare with.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithm/worker.hpp"

namespace hetsgd {

// The initial state of a server of the parameters. It is sent as bytes, because the server may run
// in another process, without access to any worker. members() lists the members that are sent
// (core/byte_stream.hpp); a member that is not listed is lost.
//
// Endpoint::open_service makes the server from one worker's start, so all workers must have the
// same: w is a replica's initial model, never one that has moved.

struct ServerStart {
  int workers = 1;
  OptimizerOptions optimizer;
  std::vector<Tensor> tensors;
  std::vector<float> w;

  // A copy of w in host memory; off the clock, as set-up.
  static ServerStart of(Worker& self, const Buffer& w) {
    const std::span<const float> numbers = self.on_host(w);
    return {.workers = self.size(),
            .optimizer = self.plan().optimizer,
            .tensors = self.tensors(),
            .w = {numbers.begin(), numbers.end()}};
  }
  // The plan's optimizer with a fresh state, for a server that applies the workers' gradients
  // itself. `device` is the server's, and must outlive it.
  std::unique_ptr<Optimizer> make_optimizer(Device& device) const {
    return hetsgd::make_optimizer(optimizer, device, w.size(), tensors);
  }
  static constexpr auto members() {
    return std::tuple(&ServerStart::workers, &ServerStart::optimizer, &ServerStart::tensors,
                      &ServerStart::w);
  }
};

struct Push {  // carries the gradient
  double learning_rate;
  std::uint64_t version;  // version that the gradient was computed at
};
struct Pull {             // carries the parameters
  std::uint64_t version;  // of these parameters
  std::uint64_t applied;  // the version that the push made
  std::uint64_t lead;     // ssp: clocks that the worker is ahead of the slowest
};

// The server of asgd: applies every push at once and answers at once. Serial, on a host core. Other
// servers derive from it: dc-asgd changes the gradient before it is applied, ssp answers later.
class ParameterServer : public Service<Push, Pull> {
 public:
  explicit ParameterServer(const ServerStart& start)
      : device_(make_cpu_device<float>(1)),
        w_(start.w),
        optimizer_(start.make_optimizer(*device_)) {}

  void handle(int from, const Push& push, std::span<const float> g,
              Responder<Pull> reply) override {
    if (!g.empty()) return pushed(from, push, g, std::move(reply));
    pulled(from);
    answer({.version = version_, .applied = version_, .lead = 0}, reply);
  }
  void fields(Archive& fields) override {
    fields("w", w_);
    fields("optimizer", *optimizer_);
    fields("version", version_);
  }

  // An update streams `passes` vectors of n elements. The wait of a deferred answer is not charged,
  // because the server is free meanwhile.
  Work work(const Push&, std::size_t n) const override {
    const double numbers = passes() * static_cast<double>(n);
    return {.operations = numbers, .bytes = 4 * numbers, .launches = 1};
  }

 protected:
  // A worker pushes a gradient; or it joins, pushes nothing and pulls the parameters.
  virtual void pushed(int from, const Push& push, std::span<const float> g, Responder<Pull> reply) {
    static_cast<void>(from);
    apply(push, g);
    answer({.version = version_, .applied = version_, .lead = 0}, reply);
  }
  virtual void pulled(int from) { static_cast<void>(from); }
  virtual double passes() const { return optimizer_->passes(); }

  // w <- w - lr g, or the update of --optimizer. Increments the version.
  void apply(const Push& push, std::span<const float> g) {
    optimizer_->update(*device_, push.learning_rate, g, w_);
    ++version_;
  }
  // Sends the current parameters, which may be newer than the push's own version; so both versions
  // are sent. Each reply must be answered exactly once.
  void answer(const Pull& pull, Responder<Pull>& reply) const {
    reply(pull, w_, Traffic::parameters);
  }
  std::uint64_t version() const { return version_; }
  std::span<const float> parameters() const { return w_; }

 private:
  std::unique_ptr<Device> device_;
  std::vector<float> w_;
  std::unique_ptr<Optimizer> optimizer_;
  std::uint64_t version_ = 0;
};

// A worker's client. All workers start a run with the same parameters, version 0, so no worker
// pulls first; in a later segment of the run every worker does. The worker outlives it; one per
// worker, used by its main process.
class ParameterClient {
 public:
  template <class Server, class... Args>
  static ParameterClient open(Worker& self, const Args&... args) {
    const auto start = ServerStart::of(self, self.initial_parameters());
    return ParameterClient(self, self.serve<Server>("parameters", start, args...));
  }

  // The worker's replica, which holds the server's parameters between two steps. So the server
  // knows all that the run goes on from.
  Replica replica() {
    self_.stateless();
    Replica mine = self_.replica();
    if (self_.goes_on()) version_ = server_.call({}, {}, mine.w.span()).version;
    return mine;
  }

  // Pushes the replica's gradient and pulls its w. The gradient is sent as a whole vector, with
  // zeros in rows that no sample touched: the papers' servers take this form, and their bandwidth
  // is charged for it. Blocks until the answer arrives, under ssp until the slowest worker has
  // moved. Counts one update of the run. Records the staleness, and under --record-steps the event
  // {"type": "push", rank, version (after it), staleness}. Versions number the gradients in the
  // order of the server's updates. Returns ssp's lead.
  std::uint64_t push_and_pull(double learning_rate, Replica& replica) {
    const Pull pull =
        server_.call({learning_rate, version_}, replica.gradient.flat.span(), replica.w.span());
    const std::uint64_t staleness = pull.applied - 1 - version_;
    version_ = pull.version;
    self_.count_own_update();
    self_.observe("staleness", static_cast<std::int64_t>(staleness));
    if (self_.plan().record_steps) {
      self_.record({{"type", "push"},
                    {"rank", self_.rank()},
                    {"version", pull.applied},
                    {"pulled", pull.version},
                    {"staleness", staleness}});
    }
    return pull.lead;
  }

 private:
  ParameterClient(Worker& self, ServiceClient<Push, Pull> server)
      : self_(self), server_(std::move(server)) {}

  Worker& self_;
  ServiceClient<Push, Pull> server_;
  std::uint64_t version_ = 0;
};

}  // namespace hetsgd
