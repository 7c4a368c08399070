// The samples of one iteration of all workers, for methods that need all workers in every
// iteration.
#pragma once

#include <cstdint>

#include "algorithm/plan.hpp"
#include "core/error.hpp"
#include "core/options.hpp"

namespace hetsgd {

// --per-worker-batch. By default each worker has batches of --batch-size, as with every other
// method. So methods differ in how they synchronise and not in how many samples a step learns from.
class GlobalBatch {
 public:
  void declare(OptionSet& set) {
    set.add_choice("per_worker_batch", split_, {{"full", false}, {"split", true}},
                   "Mini-batch size of each worker. full is --batch-size, as for every other "
                   "method, and split is --batch-size divided by the number of workers.");
  }

  void check(const Plan& plan) const {
    if (!split_ || plan.batch_size >= static_cast<std::uint64_t>(plan.workers)) return;
    refuse("--batch-size", fmt::format("{}", plan.batch_size),
           fmt::format("at least one sample for each of the {} workers", plan.workers),
           "--per-worker-batch full gives each worker --batch-size samples");
  }

  bool split() const { return split_; }
  std::uint64_t samples(const Plan& plan, std::uint64_t workers) const {
    return plan.batch_size * (split_ ? 1 : workers);
  }

 private:
  bool split_ = false;
};

}  // namespace hetsgd
