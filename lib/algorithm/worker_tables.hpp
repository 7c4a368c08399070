// A worker's calls on sharded tables, one batch after the other: the stages of table/tables.hpp. Rows
// are exchanged with all workers, or served by their owners.
//
//   look_up() ──> step() or gradient(), inside a computation of step_work() ──> update(), or drop()
#pragma once

#include <memory>
#include <optional>

#include "algorithm/run.hpp"
#include "cluster/endpoint.hpp"
#include "core/non_copyable.hpp"
#include "table/served.hpp"

namespace hetsgd {

// Belongs to one process of a worker. Endpoint and run outlive it.
class WorkerTables : NonCopyable {
 public:
  WorkerTables(Endpoint& endpoint, Run& run, TableSet& set);

  Tables& tables() { return tables_; }
  bool served() const { return served_.has_value(); }
  // Where the plan says that rows are served: starts and closes this worker's companion.
  void begin_serving();
  void end_serving();

  // Whether a step fuses gradient and update: where that of a replica with all tables would, so that
  // one worker has its bits.
  bool fused() const { return tables_.plan().optimizer.plain(); }
  // The rows of the batch come here. Charged.
  void look_up(const Batch& batch);
  // Of the forward and backward pass of the batch that was looked up.
  Work step_work() const;
  // As those of a model: the gradient of the dense part, or its fused step; and the sums of the rows'
  // gradients. Return the mean loss.
  double gradient(ModelContext& context, const float* w, Gradient& g);
  double step(ModelContext& context, double learning_rate, float* w);
  // The rows that were looked up move. Charged.
  void update(double learning_rate);
  // In place of update(): nothing was learnt. Of served rows (checked): others would wait.
  void drop();

  // What this worker has looked up so far; and adds a batch to it, whose ids have been exchanged.
  const LookupCounts& counts() const { return counts_; }
  void count(const Lookup& lookup);

 private:
  double pass(ModelContext& context, const float* w, FunctionRef backward);

  Endpoint& endpoint_;
  Run& run_;
  Tables tables_;
  std::unique_ptr<Lookup> lookup_;      // of the batch at hand, from look_up to update
  std::optional<ServedTables> served_;  // empty: rows are exchanged
  LookupCounts counts_;
};

}  // namespace hetsgd
