#include "algorithm/worker_tables.hpp"

#include "core/error.hpp"

namespace hetsgd {

WorkerTables::WorkerTables(Endpoint& endpoint, Run& run, TableSet& set)
    : endpoint_(endpoint),
      run_(run),
      stages_(set.plan(), set.shard(endpoint.rank()), endpoint.device()),
      lookup_(stages_.make_lookup()) {}

void WorkerTables::begin_serving() {
  if (!run_.plan().served_tables) return;
  // A fitted charge is a stage's time for the batches of all workers. A companion serves one
  // worker's batch at a time, so it is charged a share of that time.
  const auto charged = [&run = run_, workers = endpoint_.size()](Stage stage) {
    return [&run, workers, stage](const Work& tables) {
      Work work = run.costs().stage_work(stage, {}, tables);
      work.given_s /= workers;
      return work;
    };
  };
  served_.emplace(endpoint_, stages_,
                  ServingRules{.gather = charged(Stage::sfp),
                               .update = charged(Stage::sbp),
                               .staleness = [&run = run_](std::uint64_t updates) {
                                 run.observe("row_staleness", static_cast<std::int64_t>(updates));
                               }});
}

void WorkerTables::end_serving() {
  if (served_) served_->close();
}

void WorkerTables::count(const Lookup& lookup) {
  counts_.lookups += lookup.lookups();
  counts_.entries += lookup.entries();
  counts_.asked += lookup.asked();
  counts_.on_device += stages_.on_device(lookup);
  counts_.evicted = stages_.shard().evicted();
  counts_.moved = stages_.shard().moved();
}

void WorkerTables::look_up(const Batch& batch) {
  Lookup& l = *lookup_;
  Comm& comm = endpoint_.comm();
  const BatchShape shape = batch.shape();
  Work ids = run_.costs().stage_work(Stage::ids, shape, stages_.request_work(batch));
  // A fitted charge includes an exchange with all workers. Served tables make no such exchange.
  if (served_) ids.given_s = 0;
  endpoint_.compute(ids, ComputeKind::stage, [&] { stages_.request(batch, l); });
  if (served_) return served_->pull(l);
  comm.make(stages_.exchange_counts(l));
  comm.make(stages_.exchange_ids(l));
  endpoint_.compute(run_.costs().stage_work(Stage::sfp, shape, stages_.gather_work(l)),
                    ComputeKind::stage, [&] { stages_.gather(l); });
  count(l);
  comm.make(stages_.exchange_rows(l));
}

Work WorkerTables::step_work() const {
  const BatchShape shape = lookup_->batch().shape();
  return run_.costs().stage_work(Stage::fp, shape, stages_.spread_work(*lookup_)) +
         run_.costs().stage_work(Stage::bp, shape, stages_.sum_work(*lookup_));
}

double WorkerTables::pass(ModelContext& context, const float* w, FunctionRef backward) {
  stages_.spread(*lookup_);
  const double loss = run_.model().forward(context, lookup_->batch(), lookup_->embedded, w);
  backward();
  stages_.sum(*lookup_);
  return loss;
}

double WorkerTables::gradient(ModelContext& context, const float* w, Gradient& g) {
  Lookup& l = *lookup_;
  return pass(context, w,
              [&] { run_.model().backward(context, l.batch(), l.embedded, w, g, l.gradient); });
}

double WorkerTables::step(ModelContext& context, double learning_rate, float* w) {
  Lookup& l = *lookup_;
  const auto lr = static_cast<float>(learning_rate);
  return pass(context, w, [&] {
    run_.model().backward_step(context, l.batch(), l.embedded, lr, w, l.gradient);
  });
}

void WorkerTables::update(double learning_rate) {
  Lookup& l = *lookup_;
  if (served_) return served_->push(l, learning_rate, counts_);
  endpoint_.comm().make(stages_.exchange_sums(l));
  endpoint_.compute(run_.costs().stage_work(Stage::sbp, l.batch().shape(), stages_.update_work(l)),
                    ComputeKind::stage, [&] { stages_.update(l, learning_rate); });
}

void WorkerTables::drop() {
  HETSGD_CHECK(served_.has_value());
  served_->drop();
}

}  // namespace hetsgd
