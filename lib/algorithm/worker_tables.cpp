// Worker's calls on sharded tables, one batch after the other: the stages of table/tables.hpp. Rows
// are exchanged with all workers, or served by their owners.

#include "algorithm/worker.hpp"
#include "core/error.hpp"

namespace hetsgd {

void Worker::begin_serving() {
  if (!plan().served_tables) return;
  // What a fitted charge gives is a stage's time for the batches of all workers; a companion serves
  // one of them at a time.
  const auto charged = [&run = run_, workers = size()](Stage stage) {
    return [&run, workers, stage](const Work& tables) {
      Work work = run.stage_work(stage, {}, tables);
      work.given_s /= workers;
      return work;
    };
  };
  served_.emplace(endpoint_, *tables_,
                  ServingRules{.look_up = charged(Stage::sfp),
                               .update = charged(Stage::sbp),
                               .staleness = [&run = run_](std::uint64_t updates) {
                                 run.observe("row_staleness", static_cast<std::int64_t>(updates));
                               }});
}

void Worker::end_serving() {
  if (served_) served_->close();
}

void Worker::count_lookups(const Lookup& lookup) {
  lookup_counts_.lookups += lookup.lookups();
  lookup_counts_.entries += lookup.entries();
  lookup_counts_.asked += lookup.asked();
  lookup_counts_.on_device += tables_->on_device(lookup);
  lookup_counts_.evicted = tables_->shard().evicted();
  lookup_counts_.moved = tables_->shard().moved_in_all();
}

void Worker::look_up(const Batch& batch) {
  Tables& tables = *tables_;
  Lookup& l = *lookup_;
  const BatchShape shape = batch.shape();
  Work ids = stage_work(Stage::ids, shape, tables.request_work(batch));
  // A fitted time of this stage is that of an exchange with all others, which is not made here.
  if (served_) ids.given_s = 0;
  endpoint_.compute(ids, ComputeKind::stage, [&] { tables.request(batch, l); });
  if (served_) return served_->pull(l);
  comm().make(tables.exchange_counts(l));
  comm().make(tables.exchange_ids(l));
  endpoint_.compute(stage_work(Stage::sfp, shape, tables.look_up_work(l)), ComputeKind::stage,
                    [&] { tables.look_up(l); });
  count_lookups(l);
  comm().make(tables.exchange_rows(l));
}

Work Worker::looked_up_work(const Batch& batch) const {
  const BatchShape shape = batch.shape();
  return stage_work(Stage::fp, shape, tables_->spread_work(*lookup_)) +
         stage_work(Stage::bp, shape, tables_->sum_work(*lookup_));
}

double Worker::gradient_looked_up(const float* w, const Batch& batch, Gradient& g) {
  tables_->spread(*lookup_);
  const double loss = model().forward(*context_, batch, lookup_->embedded, w);
  model().backward(*context_, batch, lookup_->embedded, w, g, lookup_->gradient);
  tables_->sum(*lookup_);
  return loss;
}

// Fused where a replica with all tables would be, so that one worker has its bits.
double Worker::step_looked_up(Replica& replica, const Batch& batch, double lr) {
  if (!tables_->plan().optimizer.plain()) {
    return gradient_looked_up(replica.w.data(), batch, replica.gradient);
  }
  float* const w = replica.w.data();
  tables_->spread(*lookup_);
  const double loss = model().forward(*context_, batch, lookup_->embedded, w);
  model().backward_step(*context_, batch, lookup_->embedded, static_cast<float>(lr), w,
                        lookup_->gradient);
  tables_->sum(*lookup_);
  return loss;
}

void Worker::apply_dense(Replica& replica, double lr) {
  Optimizer& rule = optimizer(replica);
  const double numbers = rule.passes() * static_cast<double>(model().parameters());
  const Work vectors{.operations = numbers, .bytes = 4 * numbers, .launches = 1};
  endpoint_.compute(stage_work(Stage::opt, {}, vectors), ComputeKind::stage, [&] {
    rule.update(device(), lr, replica.gradient.flat.span(), replica.w.span());
  });
  count_shared_update();
}

void Worker::update_tables(double lr) {
  Lookup& l = *lookup_;
  if (served_) return served_->push(l, lr, lookup_counts_);
  comm().make(tables_->exchange_sums(l));
  const Work work = stage_work(Stage::sbp, l.batch().shape(), tables_->update_work(l));
  endpoint_.compute(work, ComputeKind::stage, [&] { tables_->update(l, lr); });
}

double Worker::learn_sharded(std::span<Replica> replicas, std::span<const Batch> batches,
                             double lr) {
  HETSGD_CHECK_EQ(replicas.size(), 1U);  // several replicas of a device would need several lookups
  Replica& replica = replicas.front();
  const Batch& batch = batches.front();
  const Seconds started = now();
  const bool plain = tables_->plan().optimizer.plain();
  if (!plain) make_gradient(replica);
  look_up(batch);
  double loss = 0;
  endpoint_.compute(looked_up_work(batch), ComputeKind::step,
                    [&] { loss = step_looked_up(replica, batch, lr); });
  completed(batch, loss, started);
  if (!plain) update(replica, lr);
  update_tables(lr);
  count_own_update();
  return loss;
}

double Worker::gradient_sharded(const float* w, const Batch& batch, Gradient& g) {
  const Seconds started = now();
  const double lr = learning_rate(batch.size());
  look_up(batch);
  double loss = 0;
  endpoint_.compute(looked_up_work(batch), ComputeKind::step,
                    [&] { loss = gradient_looked_up(w, batch, g); });
  completed(batch, loss, started);
  if (served_) update_tables(lr);
  return loss;
}

bool Worker::cancellable_sharded(CancellationToken& token, Replica& replica, const Batch& batch) {
  HETSGD_CHECK(served_.has_value());  // the others would wait for the update
  const Seconds started = now();
  const double lr = learning_rate(batch.size());
  look_up(batch);
  double loss = 0;
  const auto fn = [&] { loss = gradient_looked_up(replica.w.data(), batch, replica.gradient); };
  if (!endpoint_.compute_cancellable(token, looked_up_work(batch), ComputeKind::step, fn)) {
    served_->drop();
    return false;
  }
  completed(batch, loss, started);
  update_tables(lr);
  return true;
}

Seconds Worker::rehearse_sharded(Replica& replica, const Batch& batch, double lr) {
  HETSGD_CHECK(served_.has_value());
  const Seconds started = now();
  if (!tables_->plan().optimizer.plain()) make_gradient(replica);
  look_up(batch);
  endpoint_.compute(looked_up_work(batch), ComputeKind::step,
                    [&] { step_looked_up(replica, batch, lr); });
  served_->drop();
  if (!tables_->plan().optimizer.plain()) update(replica, lr);
  replica.optimizer.reset();
  return now() - started;
}

}  // namespace hetsgd
