#include "algorithm/worker.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "core/error.hpp"

namespace hetsgd {

Worker::Worker(Endpoint& endpoint, Run& run)
    : endpoint_(endpoint),
      run_(run),
      batches_(run, endpoint),
      context_(run.model().make_context(endpoint.device())) {
  if (TableSet* const set = run.tables()) {
    tables_ = std::make_unique<WorkerTables>(endpoint, run, *set);
  }
  if (!endpoint.device().stages_copies()) return;
  context_->upcoming = [this] { return batches_.upcoming(); };
}

// Computing, sending and waiting all add to the breakdown. If nothing was added since the last
// call, the loop's body has done nothing that could ever end the run.
void Worker::count_idle_call() {
  constexpr int kLimit = 1'000'000;
  const TimeBreakdown& spent = endpoint_.time_breakdown();
  const std::pair done(samples_, spent.compute + spent.communicate + spent.wait);
  if (done != std::exchange(done_at_last_call_, done)) idle_calls_ = 0;
  if (++idle_calls_ < kLimit) return;
  throw CheckFailure(
      fmt::format("worker {} calls running() for the {}th time without doing anything in its loop: "
                  "learn from a batch, or wait for others",
                  rank(), kLimit));
}

void Worker::fields(Archive& fields) {
  std::uint64_t updates = *updates_;
  fields("samples", samples_);
  fields("updates", updates);
  fields("batches", batches_);
  fields("stage_times", stage_times_);
  fields("context", *context_);
  std::uint64_t streams = started_.size();
  fields("streams", streams);
  if (streams > 0) make_streams(streams);
  for (std::size_t s = 0; s < stream_contexts_.size(); ++s) {
    fields(fmt::format("context{}", s), *stream_contexts_[s]);
  }
  if (tables_) fields("tables", *tables_);
  *updates_ = updates;
  // Steps of a round that goes on in the next segment, without those that are made anew. At a cut
  // there are none.
  std::uint64_t carried = unsettled_samples() - std::min(unsettled_samples(), unapplied_samples());
  fields("carried", carried);
  if (!fields.is_loading()) return;
  samples_at_start_ = samples_at_decision_ = samples_at_round_ = samples_;
  carried_samples_ = run_.synchronous() && !run_.state().joins(id()) ? carried : 0;
}

bool Worker::running() {
  if (running_calls_ == 0) {
    if (!run_.state().may_begin(id())) {
      refuse("--checkpoint", "an algorithm without a state that can be saved",
             "one that keeps it by Worker::state()");
    }
    if (run_.clock_goes_on()) endpoint_.go_on();
  }
  count_idle_call();
  decision_ = run_.running(*this);
  samples_at_decision_ = samples_at_round_ = samples_;
  if (running_calls_ > 0) carried_samples_ = 0;
  ++running_calls_;
  return decision_.yes;
}

std::uint64_t Worker::mega_batch_samples() const {
  const std::uint64_t whole = plan().mega_batch_samples(), budget = plan().max_samples;
  if (budget == 0) return whole;
  return std::min(whole, std::max<std::uint64_t>(1, budget - std::min(decision_.samples, budget)));
}

double Worker::epoch() const {
  const std::uint64_t since =
      (samples_ - samples_at_decision_) * static_cast<std::uint64_t>(size());
  return static_cast<double>(decision_.samples + since) / static_cast<double>(plan().rows);
}

double Worker::learning_rate(std::uint64_t b, double epoch) const {
  return plan().learning_rate * static_cast<double>(b) / static_cast<double>(plan().batch_size) *
         plan().schedule.factor(epoch);
}

Replica Worker::replica() {
  Replica replica;
  replica.w = initial_parameters();
  replica.make_optimizer = [this] { return make_optimizer(plan().optimizer); };
  return replica;
}

Optimizer& Worker::optimizer(Replica& replica) {
  if (!replica.optimizer) replica.optimizer = make_optimizer(plan().optimizer);
  return *replica.optimizer;
}

void Worker::ensure_gradient(Replica& replica) {
  if (replica.gradient.flat.size() == 0) replica.gradient = make_gradient();
}

// Zeroes the row-sparse blocks outside their touched rows, as the model requires.
void Worker::clear_foreign_rows(Replica& replica, Device& device) {
  if (!std::exchange(replica.gradient_is_dense, false)) return;
  clear_rows(model(), device, replica.gradient);
}

// Another number of replicas needs new streams, because it changes each stream's share of the
// device.
void Worker::make_streams(std::size_t replicas) {
  if (started_.size() == replicas) return;
  stream_contexts_.clear();
  streams_ = device().streams(replicas);
  for (std::size_t s = 0; s < streams_->count(); ++s) {
    stream_contexts_.push_back(model().make_context(streams_->device(s)));
    // If streams copy batches, there is one for each replica, so stream s serves learner s.
    if (!streams_->device(s).stages_copies()) continue;
    stream_contexts_[s]->upcoming = [this, s] { return batches_.upcoming(s); };
  }
  started_.assign(replicas, 0.0);
}

DeferredSum Worker::start(ModelContext& context, Replica& replica, const Batch& batch, double lr) {
  if (fused()) {
    return model().start_step(context, batch, static_cast<float>(lr), replica.w.data());
  }
  clear_foreign_rows(replica, context.device());
  return model().start_gradient(context, batch, replica.w.data(), replica.gradient);
}

double Worker::gradient_here(const float* w, const Batch& batch, Gradient& g) {
  if (sharded()) return tables_->gradient(*context_, w, g);
  return model().gradient(*context_, batch, w, g);
}

double Worker::gradient_here(Replica& replica, const Batch& batch) {
  clear_foreign_rows(replica, device());
  return gradient_here(replica.w.data(), batch, replica.gradient);
}

double Worker::step_here(Replica& replica, const Batch& batch, double lr) {
  if (!fused()) return gradient_here(replica, batch);
  if (sharded()) return tables_->step(*context_, lr, replica.w.data());
  return model().step(*context_, batch, static_cast<float>(lr), replica.w.data());
}

std::optional<double> Worker::compute_step(const Batch& batch, const std::function<double()>& fn,
                                           CancellationToken* token) {
  if (sharded()) tables_->look_up(batch);
  const Work work = sharded() ? tables_->step_work() : costs().gradient_work(id(), batch.shape());
  double loss = 0;
  const auto compute = [&] { loss = fn(); };
  if (!token) {
    endpoint_.compute(work, ComputeKind::step, compute);
  } else if (!endpoint_.compute_cancellable(*token, work, ComputeKind::step, compute)) {
    return std::nullopt;
  }
  return loss;
}

double Worker::learn(std::span<Replica> replicas, std::span<const Batch> batches, double lr) {
  const Seconds started = now();
  compute_losses(replicas, batches, lr);
  for (std::size_t j = 0; j < replicas.size(); ++j) completed(batches[j], losses_[j], started);
  update(replicas, lr);
  if (sharded()) tables_->update(lr);
  for (std::size_t j = 0; j < replicas.size(); ++j) count_own_update();
  return std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(losses_.size());
}

Seconds Worker::rehearse(Replica& replica, const Batch& batch, double lr) {
  const Seconds started = now();
  compute_losses({&replica, 1}, {&batch, 1}, lr);
  if (sharded()) tables_->drop();
  update({&replica, 1}, lr);
  replica.optimizer.reset();
  return now() - started;
}

void Worker::compute_losses(std::span<Replica> replicas, std::span<const Batch> batches,
                            double lr) {
  HETSGD_CHECK_EQ(batches.size(), replicas.size());
  const std::size_t m = replicas.size();
  losses_.resize(m);
  if (!fused()) std::ranges::for_each(replicas, [&](Replica& r) { ensure_gradient(r); });
  if (m == 1) {
    const auto loss =
        compute_step(batches[0], [&] { return step_here(replicas[0], batches[0], lr); });
    losses_[0] = loss.value();
    return;
  }
  HETSGD_CHECK(!sharded());  // several replicas of a device would need several lookups
  BatchShape mean;
  for (const Batch& batch : batches) {
    const BatchShape shape = batch.shape();
    mean.samples += shape.samples / static_cast<double>(m);
    mean.nonzeros += shape.nonzeros / static_cast<double>(m);
    mean.labels += shape.labels / static_cast<double>(m);
    mean.lookups += shape.lookups / static_cast<double>(m);
    mean.steps += shape.steps / static_cast<double>(m);
    mean.frames += shape.frames / static_cast<double>(m);
  }
  Work work = costs().gradient_work(id(), mean);
  work.learners = static_cast<int>(m);
  make_streams(m);
  const auto context_of = [&](std::size_t j) -> ModelContext& {
    return *stream_contexts_[j % stream_contexts_.size()];
  };
  const auto begin = [&](std::size_t j) {
    started_[j] = start(context_of(j), replicas[j], batches[j], lr);
  };
  const auto end = [&](std::size_t j) {
    ModelContext& context = context_of(j);
    losses_[j] = model().finish(context, batches[j], started_[j]);
    if (!context.device().stages_copies()) batches_.upcoming(j);
  };
  endpoint_.compute(work, ComputeKind::step, [&] { streams_->run(m, begin, end); });
}

// Makes the updates that compute_losses() has left.
void Worker::update(std::span<Replica> replicas, double lr) {
  if (fused()) return;
  double passes = 0;
  for (Replica& r : replicas) passes = optimizer(r).passes();
  const auto fn = [&] {
    for (Replica& r : replicas) {
      r.optimizer->update_touched(device(), lr, r.gradient.flat.span(), r.gradient.rows,
                                  r.w.span());
    }
  };
  compute_vectors(passes, fn, static_cast<int>(replicas.size()));
}

void Worker::completed(const Batch& batch, double loss, Seconds started) {
  samples_ += batch.size();
  if (batch.data().sequences.numbers > 0) {
    observe("steps", static_cast<std::int64_t>(batch.shape().steps));
  }
  run_.completed(*this, {batch.size(), model().losses(batch), loss, started});
}

void Worker::discard(const Batch& batch) {
  HETSGD_CHECK(!sharded());
  HETSGD_CHECK_LE(batch.size(), samples_ - samples_at_decision_);
  samples_ -= batch.size();
  run_.discarded(*this, batch.size());
}

std::optional<double> Worker::gradient_by(const Batch& batch, const std::function<double()>& fn,
                                          CancellationToken* token) {
  const Seconds started = now();
  const double lr = learning_rate(batch.size());  // of served rows, which move with the gradient
  const auto loss = compute_step(batch, fn, token);
  if (loss) completed(batch, *loss, started);
  if (loss) unapplied_samples_ += batch.size();
  if (sharded() && !loss) tables_->drop();
  if (sharded() && loss && tables_->served()) tables_->update(lr);
  return loss;
}

double Worker::gradient(Replica& replica, const Batch& batch) {
  ensure_gradient(replica);
  return *gradient_by(batch, [&] { return gradient_here(replica, batch); });
}

double Worker::gradient(const Buffer& w, const Batch& batch, Gradient& g) {
  return *gradient_by(batch, [&] { return gradient_here(w.data(), batch, g); });
}

bool Worker::gradient_cancellable(CancellationToken& token, Replica& replica, const Batch& batch) {
  HETSGD_CHECK(!exchanges_tables());  // the others would wait for the update
  ensure_gradient(replica);
  return gradient_by(
             batch, [&] { return gradient_here(replica, batch); }, &token)
      .has_value();
}

double Worker::gradient_in_pieces(Replica& replica, const Batch& batch,
                                  std::span<const Extent> pieces,
                                  const std::function<void(std::size_t)>& complete) {
  HETSGD_CHECK(!pieces.empty());
  HETSGD_CHECK(!sharded());
  ensure_gradient(replica);
  const Seconds started = now();
  double loss = 0;
  Work before;  // of the pieces that are complete
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Work until = costs().partial_gradient_work(id(), batch.shape(), pieces[i].end);
    const auto kind = i == 0 ? ComputeKind::step : ComputeKind::part;
    endpoint_.compute(i == 0 ? until : until - before, kind, [&] {
      if (i == 0) clear_foreign_rows(replica, device());
      loss +=
          model().partial_gradient(*context_, batch, replica.w.data(), replica.gradient, pieces[i]);
    });
    before = until;
    if (i + 1 == pieces.size()) completed(batch, loss, started);
    if (i + 1 == pieces.size()) unapplied_samples_ += batch.size();
    complete(i);
  }
  return loss;
}

std::vector<Tensor> tensors_of(const Layout& layout) {
  std::vector<Tensor> list;
  for (const ParameterBlock& block : layout.blocks)
    list.push_back({block.offset, block.size(), block.kind == BlockKind::table ? block.cols : 0,
                    block.decays});
  return list;
}

std::vector<Tensor> Worker::tensors() const { return tensors_of(model().layout()); }

std::unique_ptr<Optimizer> Worker::make_optimizer(const OptimizerOptions& options) {
  return hetsgd::make_optimizer(options, device(), model().parameters(), tensors());
}

void Worker::update(Replica& replica, double lr) {
  const std::span<const float> g = replica.gradient.flat.span();
  if (replica.gradient_is_dense) return update(replica, g, lr);
  if (!plan().optimizer.plain()) return update({&replica, 1}, lr);
  compute_vectors(3, [&] {
    apply_gradient(model(), device(), replica.gradient, static_cast<float>(lr), replica.w.data());
  });
}

void Worker::update(Replica& replica, std::span<const float> g, double lr) {
  compute_vectors(optimizer(replica).passes(),
                  [&] { optimizer(replica).update(device(), lr, g, replica.w.span()); });
}

void Worker::apply(Replica& replica, double lr) {
  update(replica, lr);
  if (exchanges_tables()) tables_->update(lr);
  count_shared_update();
}

void Worker::apply(Replica& replica, std::span<const float> g, double lr) {
  update(replica, g, lr);
  if (exchanges_tables()) tables_->update(lr);
  count_shared_update();
}

void Worker::apply_alone(Replica& replica, double lr) {
  HETSGD_CHECK(!exchanges_tables());
  update(replica, lr);
  count_own_update();
}

void Worker::count_shared_update() {
  unapplied_samples_ = 0;
  ++*updates_;
  if (rank() == 0) run_.updated();
}

void Worker::count_own_update() {
  unapplied_samples_ = 0;
  ++*updates_;
  run_.updated();
}

// Vector operations stream whole vectors: bytes = passes * 4 * n, one launch.
Work Worker::vector_work(double passes, int learners) const {
  const double numbers = passes * static_cast<double>(model().parameters());
  return {.operations = numbers, .bytes = 4.0 * numbers, .launches = 1, .learners = learners};
}

void Worker::apply_dense(Replica& replica, double lr) {
  Optimizer& rule = optimizer(replica);
  const Work work = costs().stage_work(Stage::opt, {}, vector_work(rule.passes()));
  endpoint_.compute(work, ComputeKind::stage, [&] {
    rule.update(device(), lr, replica.gradient.flat.span(), replica.w.span());
  });
  count_shared_update();
}

void Worker::compute_vectors(double passes, FunctionRef fn, int learners) {
  endpoint_.compute(vector_work(passes, learners), ComputeKind::vector, fn);
}

void Worker::charge_host_copy() {
  const double bytes = 4.0 * static_cast<double>(model().parameters());
  endpoint_.compute({.host_link_bytes = bytes}, ComputeKind::vector, [] {});
}

void Worker::copy(const Buffer& x, Buffer& y) {
  HETSGD_CHECK_EQ(x.size(), y.size());
  compute_vectors(2, [&] { device().copy(x.size(), x.data(), y.data()); });
}

void Worker::scale(double a, std::span<float> x) {
  const double passes =
      2 * static_cast<double>(x.size()) / static_cast<double>(model().parameters());
  compute_vectors(
      passes, [&] { device().axpby(x.size(), static_cast<float>(a), x.data(), 0.0F, x.data()); });
}

void Worker::axpby(double a, const Buffer& x, double b, Buffer& y) {
  HETSGD_CHECK_EQ(x.size(), y.size());
  compute_vectors(3, [&] {
    device().axpby(x.size(), static_cast<float>(a), x.data(), static_cast<float>(b), y.data());
  });
}

double Worker::squared_norm(const Buffer& x) {
  double sum = 0;
  compute_vectors(1, [&] { sum = device().squared_norm(x.size(), x.data()); });
  return sum;
}

void Worker::momentum_merge(const Buffer& merged, double gamma, Buffer& w, Buffer& previous) {
  compute_vectors(5, [&] {
    device().apply(w.size(), rule::MomentumMerge<float>{static_cast<float>(gamma)}, merged.data(),
                   w.data(), previous.data());
  });
}

Buffer Worker::vector() {
  Buffer buffer(device(), model().parameters());
  device().fill(buffer.size(), 0.0F, buffer.data());
  return buffer;
}

Buffer Worker::initial_parameters() {
  const auto host = initial_on_host();
  Buffer buffer(device(), host.size());
  device().upload(buffer.data(), host.data(), host.size_bytes());
  return buffer;
}

std::span<const float> Worker::on_host(const Buffer& x) {
  return HostView(&device(), x.span(), host_copy_).floats();
}

void Worker::all_reduce_gradient(Replica& replica) {
  all_reduce(replica.gradient.flat, Traffic::gradients);
  replica.gradient_is_dense = true;
}

void Worker::background_task(const std::string& name, std::function<void(Worker&)> fn) {
  endpoint_.background_task(
      name, [&run = run_, updates = updates_, fn = std::move(fn)](Endpoint& endpoint) {
        Worker second(endpoint, run);
        second.updates_ = updates;
        fn(second);
      });
}

// A worker may be lost while it waits for the measurement: the model has its samples.
void Worker::end_round() {
  if (!run_.synchronous()) return;
  samples_at_round_ = samples_;
  carried_samples_ = 0;
  ++rounds_ended_;
}

void Worker::evaluate_here(const Buffer& model, std::optional<std::uint64_t> samples) {
  end_round();
  run_.evaluate_here(*this, samples, [&] { return on_host(model); });
}

void Worker::publish(const Buffer& replica) { run_.publish(rank(), device(), replica.span()); }

void Worker::evaluate_mean_here() {
  run_.evaluate_here(*this, std::nullopt, [&] { return run_.mean_of_published(); });
}

void Worker::record(nlohmann::json event) { record(std::move(event), now()); }

void Worker::record(nlohmann::json event, Seconds at) {
  HETSGD_CHECK(event.is_object());
  run_.record(at, std::move(event));
}

}  // namespace hetsgd
