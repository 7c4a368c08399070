#include "algorithm/worker.hpp"

#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace hetsgd {

namespace {

// Vector operations stream whole vectors: bytes = passes * 4 * n, one launch.
Work vector_work(double passes, std::size_t n) {
  const double numbers = passes * static_cast<double>(n);
  return {.operations = numbers, .bytes = 4.0 * numbers, .launches = 1};
}

}  // namespace

Worker::Worker(Node& node, Run& run)
    : node_(node), run_(run), context_(run.model().make_context(node.device())) {}

bool Worker::running() {
  const bool go_on = run_.running(*this);
  ++running_calls_;
  return go_on;
}

const Batch& Worker::next_batch(std::uint64_t size) {
  const int rank = node_.rank();
  if (plan().partition != Partition::shared) {
    run_.sampler().fill(rank, {cursor_, size}, batch_);
    cursor_ += size;
  } else if (run_.synchronous()) {
    const std::uint64_t begin = cursor_ + static_cast<std::uint64_t>(rank) * size;
    cursor_ += static_cast<std::uint64_t>(node_.size()) * size;
    run_.sampler().fill(rank, {begin, size}, batch_);
  } else {
    run_.sampler().fill(rank, {run_.draw(size), size}, batch_);
  }
  return batch_;
}

const Batch& Worker::batch_at(SampleRange range) {
  run_.sampler().fill(node_.rank(), range, batch_);
  return batch_;
}

template <class Fn>
double Worker::compute_step(const Batch& batch, Fn&& fn) {
  double loss = 0;
  const Seconds started = now();
  node_.compute(run_.gradient_work(batch.shape()), ComputeKind::step, [&] {
    loss = fn(*context_);
  });
  samples_ += batch.size();
  run_.completed(*this, batch.size(), loss, started);
  return loss;
}

double Worker::gradient(const Batch& batch, const Buffer& w, Gradient& g) {
  return compute_step(batch, [&](ModelContext& context) {
    if (gradient_is_dense_) {
      const LayerView& sparse = run_.model().layout().layers.front();
      node_.device().fill(sparse.size(), 0.0F, g.flat.data() + sparse.offset);
      g.rows.clear();
      gradient_is_dense_ = false;
    }
    return run_.model().gradient(context, batch, w.data(), g);
  });
}

double Worker::step(const Batch& batch, double learning_rate, Buffer& w) {
  const double loss = compute_step(batch, [&](ModelContext& context) {
    return run_.model().step(context, batch, static_cast<float>(learning_rate), w.data());
  });
  ++updates_;
  run_.updated(*this, true);
  return loss;
}

void Worker::apply(const Gradient& g, double learning_rate, Buffer& w) {
  if (gradient_is_dense_) {
    axpby(-learning_rate, g.flat, 1.0, w);
  } else {
    compute_vectors(3, [&] {
      apply_gradient(run_.model(), node_.device(), g, static_cast<float>(learning_rate), w.data());
    });
  }
  took_update();
}

void Worker::apply(const Gradient& g, double learning_rate, Buffer& w, Optimizer& optimizer) {
  compute_vectors(optimizer.passes(), [&] {
    optimizer.update(node_.device(), learning_rate, g.flat.span(), w.span());
  });
  took_update();
}

void Worker::took_update() {
  ++updates_;
  run_.updated(*this, rank() == 0);
}

double Worker::learning_rate(std::uint64_t b) const {
  return plan().learning_rate * static_cast<double>(b) / static_cast<double>(plan().batch_size);
}

void Worker::compute_vectors(double passes, FunctionRef fn) {
  node_.compute(vector_work(passes, run_.model().parameters()), ComputeKind::vector, fn);
}

void Worker::copy(const Buffer& x, Buffer& y) {
  compute_vectors(2, [&] { node_.device().copy(x.size(), x.data(), y.data()); });
}

void Worker::scale(double a, Buffer& x) {
  compute_vectors(2, [&] {
    // b = 0 makes axpby a scaling copy; in place it reads each number before it writes it.
    node_.device().axpby(x.size(), static_cast<float>(a), x.data(), 0.0F, x.data());
  });
}

void Worker::axpby(double a, const Buffer& x, double b, Buffer& y) {
  compute_vectors(3, [&] {
    node_.device().axpby(x.size(), static_cast<float>(a), x.data(), static_cast<float>(b),
                         y.data());
  });
}

double Worker::squared_norm(const Buffer& x) {
  double sum = 0;
  compute_vectors(1, [&] { sum = node_.device().squared_norm(x.size(), x.data()); });
  return sum;
}

void Worker::momentum_merge(const Buffer& merged, double gamma, Buffer& w, Buffer& previous) {
  compute_vectors(5, [&] {
    node_.device().momentum_merge(w.size(), merged.data(), static_cast<float>(gamma), w.data(),
                                  previous.data());
  });
}

Buffer Worker::vector() {
  Buffer buffer(node_.device(), run_.model().parameters());
  node_.device().fill(buffer.size(), 0.0F, buffer.data());
  return buffer;
}

Buffer Worker::initial_parameters() {
  const auto host = run_.initial_parameters();
  Buffer buffer(node_.device(), host.size());
  node_.device().upload(buffer.data(), host.data(), host.size_bytes());
  return buffer;
}

Gradient Worker::make_gradient() { return hetsgd::make_gradient(run_.model(), node_.device()); }

std::unique_ptr<Optimizer> Worker::make_optimizer(double momentum, double weight_decay) {
  return make_sgd_optimizer(node_.device(), run_.model().parameters(), momentum, weight_decay);
}

void Worker::all_reduce(Gradient& g) {
  comm().all_reduce(g.flat.span(), ReduceOp::sum, Traffic::gradients);
  gradient_is_dense_ = true;
}

void Worker::record(nlohmann::json event) { run_.record(now(), std::move(event)); }

}  // namespace hetsgd
