// A worker's calls on sharded tables, one batch after the other: the stages of table/stages.hpp.
// All workers exchange rows, or their owners serve them.
//
//   look_up() --> step() or gradient(), in a computation of step_work() --> update(), or drop()
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

  TableStages& stages() { return stages_; }
  bool served() const { return served_.has_value(); }
  // If the plan says that rows are served: starts and closes this worker's companion.
  void begin_serving();
  void end_serving();

  // Whether a step fuses gradient and update: if the step of a replica with all tables would, so
  // that one worker has the same bits.
  bool fused() const { return stages_.plan().optimizer.plain(); }
  // Fetches the rows of the batch. Charged.
  void look_up(const Batch& batch);
  // Work of the forward and backward pass of the batch that was looked up.
  Work step_work() const;
  // As the calls of a model: the gradient of the dense part, or its fused step; and the sums of the
  // rows' gradients. Both return the mean loss.
  double gradient(ModelContext& context, const float* w, Gradient& g);
  double step(ModelContext& context, double learning_rate, float* w);
  // Moves the rows that were looked up. Charged.
  void update(double learning_rate);
  // Replaces update() if nothing was learnt. Only for served rows (checked): otherwise other
  // workers would wait.
  void drop();

  // Counts of this worker's lookups so far; count() adds a batch whose ids have been exchanged.
  const LookupCounts& counts() const { return counts_; }
  void fields(Archive& fields) { fields("counts", counts_); }
  void count(const Lookup& lookup);

 private:
  double pass(ModelContext& context, const float* w, FunctionRef backward);

  Endpoint& endpoint_;
  Run& run_;
  TableStages stages_;
  std::unique_ptr<Lookup> lookup_;      // the current batch, from look_up to update
  std::optional<ServedTables> served_;  // empty: rows are exchanged
  LookupCounts counts_;
};

}  // namespace hetsgd
