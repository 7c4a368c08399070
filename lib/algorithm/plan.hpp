// The hyperparameters that all algorithms share, as training/ has resolved them from the options:
// no "auto" is left. Built once, then const and the same on every worker and in every process, so
// an algorithm may base decisions on it without communication.
//
// A plan is filled in two steps. Algorithm::check() sees it before any data are read: `rows`,
// `max_samples` and `equal_losses` have no meaning there yet.
#pragma once

#include <cstdint>

#include "data/sampler.hpp"
#include "optimizer/optimizer.hpp"
#include "optimizer/schedule.hpp"

namespace hetsgd {

// The settings that the options of a run give as they are (training/train_options.hpp).
struct MethodSettings {
  std::uint64_t batch_size = 256;  // b_max: the largest batch of one worker
  double learning_rate = 1.0;      // given for b_max
  std::uint64_t mega_batch = 100;  // in batches of b_max
  Partition partition = Partition::shared;
  OptimizerOptions optimizer;  // of each replica
  std::uint64_t seed = 1;
  bool record_steps = false;  // every gradient and step becomes an event
};

struct Plan : MethodSettings {
  int workers = 1;
  std::uint64_t max_samples = 0;  // the run's budget; 0: no limit
  std::uint64_t rows = 1;         // of the training data: one epoch
  // Batches of equally many rows have equally many losses, so their means have equal weights
  // (Model::losses). False if rows of tokens differ in length.
  bool equal_losses = true;
  bool share_orphans = false;  // rows of lost workers' shards are dealt to the live ones
  bool loses_workers = false;  // some may be lost while the others go on, so that size() falls
  Schedule schedule;           // factor on the learning rate
  // The embedding tables are sharded over the workers (table/stages.hpp). Then vectors of the model
  // have the dense part alone, and `optimizer` is that of the dense part.
  bool sharded_tables = false;
  // With sharded tables: owners are asked one by one (table/served.hpp), not by all workers
  // together.
  bool served_tables = false;

  // Samples of all workers between two merges, and by default between evaluations.
  std::uint64_t mega_batch_samples() const { return mega_batch * batch_size; }
};

}  // namespace hetsgd
