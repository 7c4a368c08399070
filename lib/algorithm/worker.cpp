#include "algorithm/worker.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace hetsgd {

namespace {

// Vector operations stream whole vectors: bytes = passes * 4 * n, one launch.
Work vector_work(double passes, std::size_t n, int learners) {
  const double numbers = passes * static_cast<double>(n);
  return {.operations = numbers, .bytes = 4.0 * numbers, .launches = 1, .learners = learners};
}

}  // namespace

Worker::Worker(Node& node, Run& run)
    : node_(node), run_(run), context_(run.model().make_context(node.device())) {
  if (node.device().stages_copies()) context_->upcoming = [this] { return batch_ahead(); };
}

bool Worker::running() {
  go_on_ = run_.running(*this);
  samples_at_go_on_ = samples_;
  ++running_calls_;
  return go_on_.yes;
}

std::uint64_t Worker::mega_batch_samples() const {
  const std::uint64_t whole = plan().mega_batch_samples(), budget = plan().max_samples;
  if (budget == 0) return whole;
  return std::min(whole, std::max<std::uint64_t>(1, budget - std::min(go_on_.samples, budget)));
}

double Worker::epoch() const {
  const std::uint64_t since = (samples_ - samples_at_go_on_) * static_cast<std::uint64_t>(size());
  return static_cast<double>(go_on_.samples + since) / static_cast<double>(plan().rows);
}

double Worker::learning_rate(std::uint64_t b, double epoch) const {
  return plan().learning_rate * static_cast<double>(b) / static_cast<double>(plan().batch_size) *
         plan().schedule.factor(epoch);
}

// A GPU step's kernels are launched long before they are through. In that time the worker gathers
// the next batch and sends it off (Model's context asks batch_ahead()), so that the next step finds
// its batch on the GPU. It happens inside of compute(), which still returns when the step is done:
// the blocking vocabulary and the clock keep their meaning, and what gathering takes longer than
// the step shows as time of that step. Foretold is what next_batch() would give next, where that
// depends on this worker alone; who draws from a pool first come first served, or is sent its
// batches, gathers them at the step's beginning.
std::optional<SampleRange> Worker::own_range(std::uint64_t size) const {
  if (plan().partition != Partition::shared) return SampleRange{cursor_, size};
  if (!run_.synchronous()) return std::nullopt;
  return SampleRange{cursor_ + static_cast<std::uint64_t>(node_.rank()) * size, size};
}

const Batch* Worker::batch_ahead() {
  if (learning_next_) return learning_next_;
  if (!foretold_) return nullptr;
  run_.sampler().fill(node_.rank(), *foretold_, ahead_);
  ahead_range_ = foretold_;
  return &ahead_;
}

const Batch& Worker::next_batch(std::uint64_t size) {
  std::optional<SampleRange> range = own_range(size);
  if (range) {
    const bool shared = plan().partition == Partition::shared;
    cursor_ += (shared ? static_cast<std::uint64_t>(node_.size()) : 1) * size;
    foretold_ = own_range(size);
  } else {
    range = SampleRange{run_.draw(size), size};
    foretold_.reset();
  }
  if (ahead_range_ && ahead_range_->begin == range->begin && ahead_range_->count == size) {
    std::swap(batch_, ahead_);
    ahead_range_.reset();
  } else {
    run_.sampler().fill(node_.rank(), *range, batch_);
  }
  return batch_;
}

std::span<const Batch> Worker::next_batches(std::uint64_t size, const LearnerShare& share) {
  HETSGD_CHECK(run_.synchronous());
  const bool shared = plan().partition == Partition::shared;
  batches_.resize(static_cast<std::size_t>(share.mine));
  const auto first = [&] {
    return cursor_ + (shared ? static_cast<std::uint64_t>(share.before) * size : 0);
  };
  std::uint64_t begin = first();
  for (Batch& batch : batches_) {
    run_.sampler().fill(node_.rank(), {begin, size}, batch);
    begin += size;
  }
  cursor_ += static_cast<std::uint64_t>(shared ? share.all : share.mine) * size;
  foretold_ = SampleRange{first(), size};
  return batches_;
}

const Batch& Worker::batch_at(SampleRange range) {
  foretold_.reset();
  run_.sampler().fill(node_.rank(), range, batch_);
  return batch_;
}

template <class Fn>
double Worker::compute_step(const Batch& batch, Fn&& fn) {
  double loss = 0;
  const Seconds started = now();
  node_.compute(run_.gradient_work(batch.shape()), ComputeKind::step, [&] { loss = fn(); });
  completed(batch, loss, started);
  return loss;
}

void Worker::completed(const Batch& batch, double loss, Seconds started) {
  samples_ += batch.size();
  run_.completed(*this, batch.size(), loss, started);
}

void Worker::clear_foreign_rows(Gradient& g) {
  if (!gradient_is_dense_) return;
  const LayerView& sparse = model().layout().layers.front();
  device().fill(sparse.size(), 0.0F, g.flat.data() + sparse.offset);
  g.rows.clear();
  gradient_is_dense_ = false;
}

double Worker::gradient(const Batch& batch, const Buffer& w, Gradient& g) {
  return compute_step(batch, [&] {
    clear_foreign_rows(g);
    return model().gradient(*context_, batch, w.data(), g);
  });
}

std::vector<Tensor> Worker::tensors() const {
  std::vector<Tensor> list;
  for (const LayerView& layer : model().layout().layers) {
    list.push_back({layer.offset, layer.size()});
  }
  return list;
}

std::unique_ptr<Optimizer> Worker::make_optimizer(Device& device,
                                                  const OptimizerOptions& options) const {
  return hetsgd::make_optimizer(options, device, model().parameters(), tensors());
}

Optimizer& Worker::optimizer() {
  if (!optimizer_) optimizer_ = make_optimizer(device());
  return *optimizer_;
}

Gradient& Worker::own_gradient() {
  if (own_gradient_.flat.size() == 0) own_gradient_ = make_gradient();
  return own_gradient_;
}

double Worker::step(const Batch& batch, double learning_rate, Buffer& w) {
  double loss = 0;
  if (plan().optimizer.plain()) {
    loss = compute_step(batch, [&] {
      return model().step(*context_, batch, static_cast<float>(learning_rate), w.data());
    });
  } else {
    loss = gradient(batch, w, own_gradient());
    compute_vectors(optimizer().passes(), [&] {
      optimizer().update(device(), learning_rate, own_gradient_.flat.span(), w.span());
    });
  }
  made_update();
  return loss;
}

void Worker::step(std::span<const Batch> batches, double learning_rate,
                  std::span<Learner> learners) {
  HETSGD_CHECK_EQ(batches.size(), learners.size());
  const std::size_t m = learners.size();
  BatchShape mean;
  for (const Batch& batch : batches) {
    const BatchShape shape = batch.shape();
    mean.samples += shape.samples / static_cast<double>(m);
    mean.nonzeros += shape.nonzeros / static_cast<double>(m);
    mean.labels += shape.labels / static_cast<double>(m);
  }
  Work work = run_.gradient_work(mean);
  work.learners = static_cast<int>(m);
  const bool plain = plan().optimizer.plain();
  std::vector<double> loss(m);
  const Seconds started = now();
  node_.compute(work, ComputeKind::step, [&] {
    for (std::size_t j = 0; j < m; ++j) {
      Learner& learner = learners[j];
      learning_next_ = j + 1 < m ? &batches[j + 1] : nullptr;
      loss[j] = plain ? model().step(*context_, batches[j], static_cast<float>(learning_rate),
                                     learner.w.data())
                      : model().gradient(*context_, batches[j], learner.w.data(), learner.g);
    }
  });
  for (std::size_t j = 0; j < m; ++j) completed(batches[j], loss[j], started);
  if (!plain) {
    const auto update = [&] {
      for (Learner& learner : learners) {
        learner.optimizer->update(device(), learning_rate, learner.g.flat.span(), learner.w.span());
      }
    };
    compute_vectors(learners.front().optimizer->passes(), update, work.learners);
  }
  for (std::size_t j = 0; j < m; ++j) made_update();
}

std::optional<double> Worker::step_unless(Interrupt& interrupt, const Batch& batch,
                                          double learning_rate, Buffer& w) {
  Gradient& g = own_gradient();
  double loss = 0;
  const Seconds started = now();
  const auto fn = [&] { loss = model().gradient(*context_, batch, w.data(), g); };
  const Work work = run_.gradient_work(batch.shape());
  if (!node_.compute_unless(interrupt, work, ComputeKind::step, fn)) return std::nullopt;
  completed(batch, loss, started);
  apply_alone(g, learning_rate, w);
  return loss;
}

Seconds Worker::try_step(const Batch& batch, double learning_rate, Buffer& w) {
  const Work work = run_.gradient_work(batch.shape());
  const Seconds started = now();
  if (plan().optimizer.plain()) {
    node_.compute(work, ComputeKind::step, [&] {
      model().step(*context_, batch, static_cast<float>(learning_rate), w.data());
    });
  } else {
    Gradient& g = own_gradient();
    const auto trial = make_optimizer(device());
    node_.compute(work, ComputeKind::step,
                  [&] { model().gradient(*context_, batch, w.data(), g); });
    compute_vectors(trial->passes(),
                    [&] { trial->update(device(), learning_rate, g.flat.span(), w.span()); });
  }
  return now() - started;
}

void Worker::update(Gradient& g, double learning_rate, Buffer& w) {
  if (plan().optimizer.plain() && !gradient_is_dense_) {
    compute_vectors(3, [&] {
      apply_gradient(model(), device(), g, static_cast<float>(learning_rate), w.data());
    });
  } else {
    compute_vectors(optimizer().passes(),
                    [&] { optimizer().update(device(), learning_rate, g.flat.span(), w.span()); });
  }
}

void Worker::apply(Gradient& g, double learning_rate, Buffer& w) {
  update(g, learning_rate, w);
  took_update();
}

void Worker::apply(std::span<float> g, double learning_rate, Buffer& w) {
  compute_vectors(optimizer().passes(),
                  [&] { optimizer().update(device(), learning_rate, g, w.span()); });
  took_update();
}

void Worker::apply_alone(Gradient& g, double learning_rate, Buffer& w) {
  update(g, learning_rate, w);
  made_update();
}

void Worker::took_update() {
  ++*updates_;
  run_.updated(*this, rank() == 0);
}

void Worker::made_update() {
  ++*updates_;
  run_.updated(*this, true);
}

void Worker::compute_vectors(double passes, FunctionRef fn, int learners) {
  node_.compute(vector_work(passes, model().parameters(), learners), ComputeKind::vector, fn);
}

void Worker::copy(const Buffer& x, Buffer& y) {
  compute_vectors(2, [&] { device().copy(x.size(), x.data(), y.data()); });
}

void Worker::scale(double a, Buffer& x) {
  compute_vectors(
      2, [&] { device().axpby(x.size(), static_cast<float>(a), x.data(), 0.0F, x.data()); });
}

void Worker::axpby(double a, const Buffer& x, double b, Buffer& y) {
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
    device().momentum_merge(w.size(), merged.data(), static_cast<float>(gamma), w.data(),
                            previous.data());
  });
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
  if (device().host_accessible(x.data())) return x.span();
  host_copy_.resize(x.size());
  device().download(host_copy_.data(), x.data(), x.size() * sizeof(float));
  return host_copy_;
}

Gradient Worker::make_gradient() { return hetsgd::make_gradient(model(), device()); }

Learner Worker::make_learner() {
  Learner learner;
  learner.w = initial_parameters();
  if (!plan().optimizer.plain()) {
    learner.optimizer = make_optimizer(device());
    learner.g = make_gradient();
  }
  return learner;
}

void Worker::all_reduce(Gradient& g) {
  comm().all_reduce(g.flat.span(), ReduceOp::sum, Traffic::gradients);
  gradient_is_dense_ = true;
}

void Worker::companion(const std::string& name, std::function<void(Worker&)> fn) {
  node_.companion(name, [&run = run_, updates = updates_, fn = std::move(fn)](Node& node) {
    Worker second(node, run);
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

void Worker::record(nlohmann::json event) { run_.record(now(), std::move(event)); }

}  // namespace hetsgd
