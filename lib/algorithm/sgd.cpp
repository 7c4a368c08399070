// sgd: mini-batch SGD on one worker. The oracle for all other algorithms.
//
// Paper:      textbook (Robbins, Monro 1951, with mini-batches).
// Implements: w <- w - lr * mean gradient of the batch.
// Symbols:    w the model, lr --learning-rate, b --batch-size.
// Cost:       no message.
// Deviations: none.

#include "algorithm/algorithm.hpp"

namespace hetsgd {
namespace {

class Sgd final : public Algorithm {
 public:
  void worker(Worker& self) const override {
    Replica& replica = self.state([&] { return self.replica(); });
    const std::uint64_t b = self.plan().batch_size;
    while (self.running()) {
      self.learn(replica, self.batches().next(b), self.learning_rate(b));
      self.evaluate_here(replica.w);
    }
  }
};

const bool sgd_registered = register_algorithm<Sgd>({
    .name = "sgd",
    .title = "SGD",
    .idea = "One worker takes one batch after the other: the baseline without synchronisation.",
    .paper = "textbook mini-batch SGD",
    .cost = "no message",
    .result = "the worker's model",
    .identities = "ssgd, elastic and adaptive with one worker follow it",
    .lockstep = true,
    .max_workers = 1,
    .works_alone = true,
});

}  // namespace
}  // namespace hetsgd
