// Dynamic scheduling of adaptive: who is idle gets the next batch (Adaptive SGD, section 3).
//
//   an idle worker asks     samples of the mega-batch are left    --> Grant of b_i samples
//                           none are                              --> it waits
//   the last worker asks    all the others wait                   --> empty Grants for all: merge
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "algorithm/worker.hpp"

namespace hetsgd {

struct AskBatch {
  std::uint64_t batch_size;  // b_i
  std::uint64_t mega_batch;  // samples until the merge
};
struct Grant {
  SampleRange range;  // empty: the mega-batch is over, merge now
};

// Batches go to the first idle worker while dispatched < mega_batch; the merge begins when all
// workers have come back.
class BatchScheduler final : public Service<AskBatch, Grant> {
 public:
  explicit BatchScheduler(int workers) : workers_(static_cast<std::size_t>(workers)) {}

  void handle(int, const AskBatch& ask, std::span<const float>, Responder<Grant> reply) override {
    if (dispatched_ < ask.mega_batch) {
      reply({.range = {position_, ask.batch_size}});
      position_ += ask.batch_size;
      dispatched_ += ask.batch_size;
      return;
    }
    idle_.push_back(std::move(reply));
    if (idle_.size() < workers_) return;
    for (auto& answer : idle_) answer({});
    idle_.clear();
    dispatched_ = 0;
  }
  void fields(Archive& fields) override {
    fields("position", position_);
    fields("dispatched", dispatched_);
  }

 private:
  std::size_t workers_;
  std::uint64_t position_ = 0;    // in the pool of samples
  std::uint64_t dispatched_ = 0;  // in this mega-batch
  std::vector<Responder<Grant>> idle_;
};

}  // namespace hetsgd
