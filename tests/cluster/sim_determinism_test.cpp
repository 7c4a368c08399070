// The same program gives the same virtual times and the same bits, whatever the host does.
#include <bit>
#include <random>
#include <tuple>

#include "cluster/sim_support.hpp"
#include "core/random.hpp"

namespace hetsgd::sim {
namespace {

// (rank, what, bits of the time, bits of a value), in the order in which things happened.
using Trace = std::vector<std::tuple<int, int, std::uint64_t, std::uint64_t>>;

struct Push {
  int round;
};
struct Pull {
  int round;
  float sum;
};

// A parameter server whose result depends on the order of requests in the last bit.
class Server final : public Service<Push, Pull> {
 public:
  void handle(int from, const Push& push, std::span<const float> x,
              Responder<Pull> reply) override {
    for (const float value : x) sum_ = sum_ * 0.999F + value * static_cast<float>(1 + from);
    if (push.round % 3 == 2 && !held_) {
      held_ = std::make_unique<Responder<Pull>>(std::move(reply));  // answered with the next one
      return;
    }
    reply({push.round, sum_});
    if (held_) (*std::exchange(held_, nullptr))({push.round, sum_});
  }
  void left(int) override {
    if (held_) (*std::exchange(held_, nullptr))({-1, sum_});
  }

 private:
  float sum_ = 0;
  std::unique_ptr<Responder<Pull>> held_;
};

class Program {
 public:
  Program(int workers, bool host_delays) : workers_(workers), host_delays_(host_delays) {}

  void worker(Endpoint& endpoint) {
    RandomStream random(5, Purpose::test, static_cast<std::uint64_t>(endpoint.rank()));
    auto server = serve<Server>(endpoint, "server");
    std::vector<float> x(64, 1.0F / static_cast<float>(1 + endpoint.rank()));
    endpoint.background_task("listener", [this](Endpoint& self) { listen(self); });
    for (int round = 0; round < 30; ++round) {
      compute(endpoint, x, random.uniform(0.1, 2));
      if (random.below(3) == 0) endpoint.sleep(Seconds(random.uniform()));
      Pull pull = server.call({round}, x);
      note(endpoint, 1, pull.sum);
      x[0] += pull.sum * 1e-6F;
      const int peer = static_cast<int>(random.below(static_cast<std::uint64_t>(workers_)));
      endpoint.comm().send(peer, 1, x, Traffic::parameters);
      if (round % 5 == 4) {
        endpoint.comm().all_reduce(std::span(x));
        for (float& value : x) value /= static_cast<float>(workers_);
        note(endpoint, 2, x[3]);
      }
    }
    endpoint.comm().barrier();  // nobody sends any more: the listeners may stop
    const float stop = -1;
    std::vector<float> last(64, stop);
    endpoint.comm().send(endpoint.rank(), 1, last);
  }

  Trace trace;

 private:
  void compute(Endpoint& endpoint, std::vector<float>& x, double seconds) {
    endpoint.compute({.operations = 8 * seconds, .bytes = 0, .launches = 0}, ComputeKind::step,
                     [&] {
                       if (host_delays_) {
                         thread_local std::mt19937 host(std::random_device{}());
                         std::this_thread::sleep_for(std::chrono::microseconds(host() % 500));
                       }
                       for (float& value : x) value = value * 1.001F + 0.1F / (1 + value * value);
                     });
    note(endpoint, 0, x[5]);
  }

  void listen(Endpoint& self) {
    std::vector<float> received(64);
    while (true) {
      const auto envelope = self.comm().receive<float>(kAnySource, 1, received);
      if (received[0] == -1) return;
      note(self, 10 + envelope.source, received[7]);
    }
  }

  void note(Endpoint& endpoint, int what, float value) {
    trace.emplace_back(endpoint.rank(), what, std::bit_cast<std::uint64_t>(endpoint.now().count()),
                       std::bit_cast<std::uint32_t>(value));
  }

  int workers_;
  bool host_delays_;
};

Trace trace_of(int host_threads, bool host_delays) {
  ClusterOptions options = slow_machine(6);
  options.host_threads = host_threads;
  options.speed = {1, 0.92, 0.84, 0.76};
  options.payload_scale = 1.7;
  options.scenario =
      std::make_shared<Scenario>(std::vector<std::string>{"kind=uniform,min=0ms,max=300ms",
                                                          "kind=lognormal,median=50ms,sigma=1"},
                                 6, 11);
  Program program(6, host_delays);
  run(options, [&](Endpoint& endpoint) { program.worker(endpoint); });
  return program.trace;
}

TEST(SimDeterminism, TimesAndBitsDoNotDependOnTheHost) {
  const Trace reference = trace_of(1, false);
  ASSERT_GT(reference.size(), 500U);
  EXPECT_EQ(trace_of(1, true), reference);
  EXPECT_EQ(trace_of(2, true), reference);
  EXPECT_EQ(trace_of(7, true), reference);
  std::atomic<bool> stop = false;
  std::vector<std::thread> load;
  for (int i = 0; i < 4; ++i) {
    load.emplace_back([&] {
      while (!stop) {
      }
    });
  }
  EXPECT_EQ(trace_of(2, false), reference);
  stop = true;
  for (auto& thread : load) thread.join();
}

}  // namespace
}  // namespace hetsgd::sim
