// adpsgd: asynchronous decentralised parallel SGD. While a worker computes a gradient, its replica
// is averaged with that of a random peer; then the gradient, which belongs to the replica before
// the averaging, is applied. No server, no barrier, and no worker waits for more than one peer.
//
// Paper:      Lian, Zhang, Zhang, Liu, "Asynchronous decentralized parallel stochastic gradient
//             descent", ICML 2018, algorithm 1 (a baseline of RNA, section 5.5.3).
// Implements: worker i: g = grad f(x_i);  with a random peer j: x_i, x_j <- (x_i + x_j) / 2, both
//             at once;  x_i <- x_i - lr g.
//             Bipartite: even ranks are active and begin an averaging per iteration, with an odd
//             (passive) one; so no two that average can wait for each other.
// Symbols:    x_i replica of worker i, lr --learning-rate, b --batch-size (every worker's).
// Cost:       per iteration of an active worker n elements to the peer and n back, and a header.
// Records:    histograms "staleness" (averagings of the replica between the reading of a gradient's
//             model and its application) and "iteration_gap" (iterations between the two at an
//             averaging); under --record-steps events "read", "apply" {rank, iteration} and
//             "average" {active, passive, iteration}, in the order in which the replicas saw them.
// Deviations: the two locks of an averaging are taken in the order active, passive, and not by
//             rank: an active worker holds its own while it asks a passive one, which holds its
//             lock only while it averages and never waits with it. One worker is sgd up to
//             rounding.

#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>

#include "algorithm/algorithm.hpp"
#include "core/random.hpp"

namespace hetsgd {
namespace {

using Guard = std::lock_guard<Monitor>;

enum Tag : int { kHeader, kModel, kMean };

struct Header {
  std::int64_t iteration = 0;  // of the active worker
  bool goodbye = false;        // no active worker asks any more; nothing follows
};

// State that a worker's two processes share. They read and write x.w with the monitor held.
struct Gossip {
  explicit Gossip(Worker& self) : monitor(self.make_monitor()), x(self.replica()) {}

  std::unique_ptr<Monitor> monitor;
  Replica x;
  std::int64_t iteration = 0;   // of the main process
  std::int64_t averagings = 0;  // that x has seen
  std::int64_t requested = 0;   // active: averagings that the main process asked for
  bool finished = false;        // all main processes have left their loops

  void fields(Archive& fields) {
    fields.or_first("x", x);
    fields("iteration", iteration);
    fields("averagings", averagings);
    requested = averagings;  // none is under way, and an active worker may have become passive
  }
};

class AdPsgd final : public Algorithm {
 public:
  void worker(Worker& self) const override {
    const std::uint64_t b = self.plan().batch_size;
    const bool active = self.rank() % 2 == 0 && self.size() > 1;
    const auto gossip = self.shared_state([&] { return Gossip(self); });
    Gossip& mine = *gossip;
    self.publish(mine.x.w);
    if (self.size() > 1) {
      self.background_task("average", [=](Worker& background_task) {
        active ? ask(background_task, *gossip) : answer(background_task, *gossip);
      });
    }
    Buffer w = self.vector();  // the replica as it was read
    mine.x.gradient = self.make_gradient();
    while (self.running()) {
      const std::int64_t read = this->read(self, mine, w, active);
      const double lr = self.learning_rate(b);
      self.gradient(w, self.batches().next(b), mine.x.gradient);
      apply(self, mine, lr, read, active);
      self.evaluate_mean_here();
    }
    // Replicas are measured until all workers have left their loop. No worker leaves before its
    // averagings are done, so after the barrier there are no requests.
    self.comm().barrier();
    const Guard guard(*mine.monitor);
    mine.finished = true;
    mine.monitor->notify_all();
  }

 private:
  // w <- x_i, and the averaging may begin. Returns the averagings that w has seen.
  std::int64_t read(Worker& self, Gossip& mine, Buffer& w, bool active) const {
    const Guard guard(*mine.monitor);
    self.copy(mine.x.w, w);
    record_event(self, mine, "read");
    const std::int64_t seen = mine.averagings;
    if (active) {
      ++mine.requested;
      mine.monitor->notify_all();
    }
    return seen;
  }

  // x_i <- x_i - lr g, after the averaging.
  void apply(Worker& self, Gossip& mine, double lr, std::int64_t read, bool active) const {
    const Guard guard(*mine.monitor);
    if (active) {
      mine.monitor->wait([&] { return mine.averagings == mine.requested; }, "the averaging");
    }
    self.apply_alone(mine.x, lr);
    record_event(self, mine, "apply");
    self.observe("staleness", mine.averagings - read);
    ++mine.iteration;
  }

  // Active side: one averaging per request, with a peer drawn for this rank and iteration. At the
  // end each active worker tells one passive worker: P/2 messages, not one for each pair.
  static void ask(Worker& self, Gossip& mine) {
    Comm& comm = self.comm();
    const std::int64_t passive = self.size() / 2;
    for (std::int64_t k = mine.averagings;; ++k) {
      const Guard guard(*mine.monitor);
      mine.monitor->wait([&] { return mine.requested > k || mine.finished; }, "an iteration");
      if (mine.requested == k) break;
      RandomStream random(self.plan().seed, Purpose::peer_choice, static_cast<std::uint64_t>(k),
                          static_cast<std::uint32_t>(self.rank()));
      const int peer = 1 + 2 * static_cast<int>(random.below(static_cast<std::uint64_t>(passive)));
      const Header header{.iteration = k};
      comm.send(peer, kHeader, std::span(&header, 1));
      comm.send(peer, kModel, mine.x.w.span(), Traffic::parameters);
      comm.receive(peer, kMean, mine.x.w.span());
      ++mine.averagings;
      mine.monitor->notify_all();
    }
    const Header goodbye{.goodbye = true};
    if (self.rank() + 1 < self.size()) comm.send(self.rank() + 1, kHeader, std::span(&goodbye, 1));
  }

  // Passive side: averages with each worker that asks, until all have stopped asking.
  static void answer(Worker& self, Gossip& mine) {
    Comm& comm = self.comm();
    Buffer mean = self.vector();
    for (;;) {
      Header header;
      const int peer = comm.receive(kAnySource, kHeader, std::span(&header, 1)).source;
      if (header.goodbye) return;
      comm.receive(peer, kModel, mean.span());
      average(self, mine, mean, peer, header.iteration);
      comm.send(peer, kMean, mean.span(), Traffic::parameters);
    }
  }

  // mean <- x_j <- (x_i + x_j) / 2, where `mean` holds x_i at first.
  static void average(Worker& self, Gossip& mine, Buffer& mean, int peer, std::int64_t k) {
    const Guard guard(*mine.monitor);
    self.compute_vectors(4, [&] {
      self.device().axpby(mean.size(), 0.5F, mine.x.w.data(), 0.5F, mean.data());
      self.device().copy(mean.size(), mean.data(), mine.x.w.data());
    });
    ++mine.averagings;
    self.observe("iteration_gap", std::abs(k - mine.iteration));
    if (self.plan().record_steps) {
      self.record(
          {{"type", "average"}, {"active", peer}, {"passive", self.rank()}, {"iteration", k}});
    }
  }

  static void record_event(Worker& self, const Gossip& mine, const char* type) {
    if (!self.plan().record_steps) return;
    self.record({{"type", type}, {"rank", self.rank()}, {"iteration", mine.iteration}});
  }
};

const bool adpsgd_registered = register_algorithm<AdPsgd>({
    .name = "adpsgd",
    .title = "AD-PSGD",
    .idea = "While a worker computes a gradient, its replica is averaged with that of a random "
            "peer. There is no server and no barrier; replicas differ and mix like gossip.",
    .paper = "Lian et al. 2018, algorithm 1; baseline of RNA (Yang 2022, section 5.5.3)",
    .cost = "n elements to a peer and n back per iteration of an even rank",
    .result = "the mean of the replicas",
    .identities = "one worker = sgd, up to rounding",
    .synchronous = false,
});

}  // namespace
}  // namespace hetsgd
