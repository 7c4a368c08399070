// asgd: asynchronous SGD with a parameter server. A worker pushes its gradient, the server applies
// it at once, and the worker continues with the parameters as they are then. No worker waits for
// another.
//
// Paper:      Dean et al. 2012 (Downpour SGD with one step per push), the baseline of
//             ESync (section 5).
// Implements: server: w <- w - lr g, or the update of --optimizer; worker: w_m <- w.
// Symbols:    lr --learning-rate, b --batch-size (every worker's), m the worker.
// Cost:       per iteration n elements to the server and n back, over the server's one link, and
//             the server's time for one update.
// Records:    histogram "staleness": updates by others between a worker's pull and the application
//             of its gradient; event "push" (parameter_server.hpp) under --record-steps.
// Deviations: the pull is the answer to the push. One server holds all parameters, where the source
//             spreads them over several. --optimizer has one state, the server's, for the gradients
//             of all workers. The source has Adagrad there; ESync names no optimizer, so the
//             default is plain SGD.

#include "algorithm/algorithm.hpp"
#include "algorithm/parts/parameter_server.hpp"

namespace hetsgd {
namespace {

class Asgd final : public Algorithm {
 public:
  void worker(Worker& self) const override {
    const std::uint64_t b = self.plan().batch_size;
    auto server = ParameterClient::open<ParameterServer>(self);
    Replica replica = server.replica();
    while (self.running()) {
      const double lr = self.learning_rate(b);
      self.gradient(replica, self.batches().next(b));
      server.push_and_pull(lr, replica);
      self.evaluate_here(replica.w);
    }
  }
};

const bool asgd_registered = register_algorithm<Asgd>({
    .name = "asgd",
    .title = "Asynchronous SGD",
    .idea = "A parameter server applies each worker's gradient as it comes and sends the "
            "parameters back. No worker waits, but gradients are computed at parameters that "
            "others have moved since.",
    .paper = "Dean et al. 2012; baseline of ESync (section 5)",
    .cost = "n elements to the server and n back per iteration",
    .result = "the server's model, as the measuring worker has just received it",
    .identities = "one worker = sgd, up to rounding",
    .synchronous = false,
    .rate_over_workers = true,
});

}  // namespace
}  // namespace hetsgd
