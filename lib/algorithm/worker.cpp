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
      batches_(run, endpoint.rank(), endpoint.size()),
      context_(run.model().make_context(endpoint.device())) {
  if (TableSet* const set = run.tables()) {
    tables_.emplace(set->plan(), set->shard(endpoint.rank()), endpoint.device());
    lookup_ = tables_->lookup();
  }
  if (!endpoint.device().stages_copies()) return;
  context_->upcoming = [this] { return batches_.upcoming(); };
}

// Computing, sending and waiting all add to the breakdown; where nothing was added since the last
// call the loop's body has done nothing that could ever end the run.
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

bool Worker::running() {
  count_idle_call();
  decision_ = run_.running(*this);
  samples_at_decision_ = samples_;
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
  return replica;
}

Optimizer& Worker::optimizer(Replica& replica) {
  if (!replica.optimizer) replica.optimizer = make_optimizer(plan().optimizer);
  return *replica.optimizer;
}

void Worker::make_gradient(Replica& replica) {
  if (replica.gradient.flat.size() == 0) replica.gradient = make_gradient();
}

// As the model wants it: outside their touched rows the row-sparse blocks are zero.
void Worker::clear_foreign_rows(Replica& replica, Device& device) {
  if (!std::exchange(replica.gradient_is_dense, false)) return;
  clear_rows(model(), device, replica.gradient);
}

// Made anew for another number: with it changes what each stream has of the device.
void Worker::make_streams(std::size_t replicas) {
  if (started_.size() == replicas) return;
  stream_contexts_.clear();
  streams_ = device().streams(replicas);
  for (std::size_t s = 0; s < streams_->count(); ++s) {
    stream_contexts_.push_back(model().make_context(streams_->device(s)));
    // Streams that copy batches are as many as the replicas.
    if (!streams_->device(s).stages_copies()) continue;
    stream_contexts_[s]->upcoming = [this, s] { return batches_.upcoming(s); };
  }
  started_.assign(replicas, 0.0);
}

DeferredSum Worker::start(ModelContext& context, Replica& replica, const Batch& batch, double lr) {
  if (plan().optimizer.plain()) {
    return model().start_step(context, batch, static_cast<float>(lr), replica.w.data());
  }
  clear_foreign_rows(replica, context.device());
  return model().start_gradient(context, batch, replica.w.data(), replica.gradient);
}

double Worker::learn(std::span<Replica> replicas, std::span<const Batch> batches, double lr) {
  if (sharded()) return learn_sharded(replicas, batches, lr);
  const Seconds started = now();
  compute_losses(replicas, batches, lr);
  for (std::size_t j = 0; j < replicas.size(); ++j) completed(batches[j], losses_[j], started);
  update(replicas, lr);
  for (std::size_t j = 0; j < replicas.size(); ++j) count_own_update();
  return std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(losses_.size());
}

Seconds Worker::rehearse(Replica& replica, const Batch& batch, double lr) {
  if (sharded()) return rehearse_sharded(replica, batch, lr);
  const Seconds started = now();
  compute_losses({&replica, 1}, {&batch, 1}, lr);
  update({&replica, 1}, lr);
  replica.optimizer.reset();
  return now() - started;
}

void Worker::compute_losses(std::span<Replica> replicas, std::span<const Batch> batches,
                            double lr) {
  HETSGD_CHECK_EQ(batches.size(), replicas.size());
  const std::size_t m = replicas.size();
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
  Work work = run_.gradient_work(rank(), mean);
  work.learners = static_cast<int>(m);
  losses_.resize(m);
  if (!plan().optimizer.plain()) {
    std::ranges::for_each(replicas, [&](Replica& r) { make_gradient(r); });
  }
  if (m == 1) {
    return endpoint_.compute(work, ComputeKind::step, [&] {
      const DeferredSum loss = start(*context_, replicas[0], batches[0], lr);
      losses_[0] = model().finish(*context_, batches[0], loss);
    });
  }
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

// What compute_losses() left to do.
void Worker::update(std::span<Replica> replicas, double lr) {
  if (plan().optimizer.plain()) return;
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
  run_.completed(*this, batch.size(), loss, started);
}

void Worker::discard(const Batch& batch) {
  HETSGD_CHECK(!sharded());
  HETSGD_CHECK_LE(batch.size(), samples_ - samples_at_decision_);
  samples_ -= batch.size();
  run_.discarded(*this, batch.size());
}

template <class Fn>
double Worker::compute_step(const Batch& batch, Fn&& fn) {
  double loss = 0;
  const Seconds started = now();
  const Work work = run_.gradient_work(rank(), batch.shape());
  endpoint_.compute(work, ComputeKind::step, [&] { loss = fn(); });
  completed(batch, loss, started);
  return loss;
}

double Worker::gradient(Replica& replica, const Batch& batch) {
  make_gradient(replica);
  if (sharded()) return gradient_sharded(replica.w.data(), batch, replica.gradient);
  return compute_step(batch, [&] {
    clear_foreign_rows(replica, device());
    return model().gradient(*context_, batch, replica.w.data(), replica.gradient);
  });
}

double Worker::gradient(const Buffer& w, const Batch& batch, Gradient& g) {
  if (sharded()) return gradient_sharded(w.data(), batch, g);
  return compute_step(batch, [&] { return model().gradient(*context_, batch, w.data(), g); });
}

double Worker::gradient_in_pieces(Replica& replica, const Batch& batch,
                                  std::span<const Extent> pieces,
                                  const std::function<void(std::size_t)>& complete) {
  HETSGD_CHECK(!pieces.empty());
  HETSGD_CHECK(!sharded());
  make_gradient(replica);
  const Seconds started = now();
  double loss = 0;
  Work before;  // of the pieces that are complete
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Work until = run_.partial_gradient_work(rank(), batch.shape(), pieces[i].end);
    const auto kind = i == 0 ? ComputeKind::step : ComputeKind::part;
    endpoint_.compute(i == 0 ? until : until - before, kind, [&] {
      if (i == 0) clear_foreign_rows(replica, device());
      loss +=
          model().partial_gradient(*context_, batch, replica.w.data(), replica.gradient, pieces[i]);
    });
    before = until;
    if (i + 1 == pieces.size()) completed(batch, loss, started);
    complete(i);
  }
  return loss;
}

bool Worker::gradient_cancellable(CancellationToken& token, Replica& replica, const Batch& batch) {
  make_gradient(replica);
  if (sharded()) return cancellable_sharded(token, replica, batch);
  double loss = 0;
  const Seconds started = now();
  const auto fn = [&] {
    clear_foreign_rows(replica, device());
    loss = model().gradient(*context_, batch, replica.w.data(), replica.gradient);
  };
  const Work work = run_.gradient_work(rank(), batch.shape());
  if (!endpoint_.compute_cancellable(token, work, ComputeKind::step, fn)) return false;
  completed(batch, loss, started);
  return true;
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
  if (!plan().optimizer.plain()) {
    return compute_vectors(optimizer(replica).passes(), [&] {
      optimizer(replica).update_touched(device(), lr, g, replica.gradient.rows, replica.w.span());
    });
  }
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
  if (exchanges_tables()) update_tables(lr);
  count_shared_update();
}

void Worker::apply(Replica& replica, std::span<const float> g, double lr) {
  update(replica, g, lr);
  if (exchanges_tables()) update_tables(lr);
  count_shared_update();
}

void Worker::apply_alone(Replica& replica, double lr) {
  HETSGD_CHECK(!exchanges_tables());
  update(replica, lr);
  count_own_update();
}

void Worker::count_shared_update() {
  ++*updates_;
  run_.updated(*this, rank() == 0);
}

void Worker::count_own_update() {
  ++*updates_;
  run_.updated(*this, true);
}

Buffer Worker::vector() {
  Buffer buffer(device(), model().parameters());
  device().fill(buffer.size(), 0.0F, buffer.data());
  return buffer;
}

Buffer Worker::initial_parameters() {
  const auto host = run_.initial_parameters();
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

void Worker::evaluate_here(const Buffer& model, std::optional<std::uint64_t> samples) {
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
