// Worker's calls on sharded tables, one batch after the other: the stages of table/tables.hpp.

#include "algorithm/worker.hpp"
#include "core/error.hpp"

namespace hetsgd {

void Worker::communicate(const CollectiveRequest& request) { call_now(comm(), request); }

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
  endpoint_.compute(stage_work(Stage::ids, shape, tables.request_work(batch)), ComputeKind::stage,
                    [&] { tables.request(batch, l); });
  communicate(tables.exchange_counts(l));
  communicate(tables.exchange_ids(l));
  endpoint_.compute(stage_work(Stage::sfp, shape, tables.look_up_work(l)), ComputeKind::stage,
                    [&] { tables.look_up(l); });
  count_lookups(l);
  communicate(tables.exchange_rows(l));
}

double Worker::learn_looked_up(Replica& replica, const Batch& batch,
                               std::optional<double> step_rate) {
  Tables& tables = *tables_;
  Lookup& l = *lookup_;
  double loss = 0;
  const BatchShape shape = batch.shape();
  const Work work = stage_work(Stage::fp, shape, tables.spread_work(l)) +
                    stage_work(Stage::bp, shape, tables.sum_work(l));
  endpoint_.compute(work, ComputeKind::step, [&] {
    float* const w = replica.w.data();
    tables.spread(l);
    loss = model().forward(*context_, batch, l.embedded, w);
    if (step_rate) {
      model().backward_step(*context_, batch, l.embedded, static_cast<float>(*step_rate), w,
                            l.gradient);
    } else {
      model().backward(*context_, batch, l.embedded, w, replica.gradient, l.gradient);
    }
    tables.sum(l);
  });
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
  communicate(tables_->exchange_sums(l));
  const Work work = stage_work(Stage::sbp, l.batch().shape(), tables_->update_work(l));
  endpoint_.compute(work, ComputeKind::stage, [&] { tables_->update(l, lr); });
}

double Worker::learn_sharded(std::span<Replica> replicas, std::span<const Batch> batches,
                             double lr) {
  HETSGD_CHECK_EQ(replicas.size(), 1U);  // several replicas of a device would need several lookups
  Replica& replica = replicas.front();
  const Batch& batch = batches.front();
  const Seconds started = now();
  // Fused where a replica with all tables would be, so that one worker has its bits.
  const bool plain = tables_->plan().optimizer.plain();
  if (!plain) make_gradient(replica);
  look_up(batch);
  const double loss = learn_looked_up(replica, batch, plain ? std::optional(lr) : std::nullopt);
  completed(batch, loss, started);
  if (!plain) update(replica, lr);
  update_tables(lr);
  count_own_update();
  return loss;
}

}  // namespace hetsgd
