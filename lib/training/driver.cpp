#include "training/driver.hpp"

#include <cmath>

#include "core/error.hpp"

namespace hetsgd {

namespace {

double host_seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

template <class Decide>
Driver::Decision Driver::Decisions::get(std::uint64_t k, int readers, Decide&& decide) {
  HETSGD_CHECK_GE(k, first_);
  HETSGD_CHECK_LE(k, first_ + entries_.size());  // nobody is more than one call ahead of the first
  if (k == first_ + entries_.size()) entries_.push_back(decide());
  Decision& entry = entries_[k - first_];
  ++entry.seen;
  const Decision answer = entry;
  while (!entries_.empty() && entries_.front().seen == readers) {
    entries_.pop_front();
    ++first_;
  }
  return answer;
}

Driver::Driver(const DriverOptions& options, const Model& model, const Sampler& sampler,
               std::vector<float> initial, Evaluator& evaluator, Record& record,
               const TrainHooks& hooks)
    : options_(options),
      model_(model),
      sampler_(sampler),
      initial_(std::move(initial)),
      evaluator_(evaluator),
      record_(record),
      hooks_(hooks),
      next_evaluation_(options.evaluate_every) {
  const auto p = static_cast<std::size_t>(options.plan.workers);
  record_.workers.resize(p);
  for (std::size_t r = 0; r < p; ++r) {
    record_.workers[r].shard_rows = sampler.shard_size(static_cast<int>(r));
  }
  published_.resize(p);
  step_time_.resize(p);
  steps_.resize(p);
}

Work Driver::gradient_work(const BatchShape& batch) const {
  if (!options_.charged_shape) return model_.shape().gradient_work(batch);
  return options_.charged_shape->gradient_work(
      {.samples = batch.samples,
       .nonzeros = batch.nonzeros * options_.charged_nonzeros,
       .labels = batch.labels * options_.charged_labels});
}

void Driver::request_stop(Status status, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!stop_) stop_ = {status, reason};
}

std::optional<std::pair<Status, std::string>> Driver::stopped() const {
  const std::lock_guard lock(mutex_);
  return stop_;
}

bool Driver::budget_used_up(Seconds now, std::uint64_t samples) const {
  const std::uint64_t budget = options_.plan.max_samples;
  return budget_ended_ || (budget > 0 && samples >= budget) ||
         (options_.max_time.count() > 0 && now >= options_.max_time);
}

GoOn Driver::running(Worker& worker) {
  const std::lock_guard lock(mutex_);
  const auto decide = [&] { return Decision{.yes = !stop_, .samples = samples_}; };
  const Decision decision =
      options_.synchronous ? running_.get(worker.running_calls(), options_.plan.workers, decide)
                           : decide();
  note(worker);
  return {.yes = decision.yes, .samples = decision.samples};
}

void Driver::end_budget() {
  const std::lock_guard lock(mutex_);
  budget_ended_ = true;
}

void Driver::completed(Worker& worker, std::uint64_t samples, double loss, Seconds started) {
  const Seconds now = worker.now();
  const auto rank = static_cast<std::size_t>(worker.rank());
  const std::lock_guard lock(mutex_);
  samples_ += samples;
  loss_sum_ += loss;
  ++loss_count_;
  last_loss_ = loss;
  last_time_ = now;
  step_time_[rank] += now - started;
  const std::uint64_t iteration = steps_[rank]++;
  if (options_.plan.record_steps) {
    record_.events.push_back({{"type", "step"},
                              {"time_s", now.count()},
                              {"start_s", started.count()},
                              {"rank", worker.rank()},
                              {"iteration", iteration},
                              {"samples", samples},
                              {"loss", loss}});
  }
  if (!std::isfinite(loss) && !stop_) {
    stop_ = {Status::diverged, fmt::format("the loss of worker {} became {} at {} samples",
                                           worker.rank(), loss, samples_)};
  }
}

void Driver::updated(Worker&, bool counts_for_run) {
  if (!counts_for_run) return;
  const std::lock_guard lock(mutex_);
  ++updates_;
}

void Driver::evaluate_here(Worker& worker, std::optional<std::uint64_t> samples,
                           const std::function<std::span<const float>()>& model) {
  const Seconds now = worker.now();
  const std::uint64_t call = worker.count_evaluate_call();
  Decision decision;
  {
    const std::lock_guard lock(mutex_);
    const auto decide = [&] {
      const std::uint64_t n = samples.value_or(samples_);
      const bool used_up = budget_used_up(now, n);
      const bool due = !stop_ && (used_up || n >= next_evaluation_);
      if (due) next_evaluation_ = (n / options_.evaluate_every + 1) * options_.evaluate_every;
      if (used_up && !stop_) stop_ = {Status::completed, ""};
      return Decision{.yes = due, .samples = n};
    };
    decision =
        options_.synchronous ? evaluating_.get(call, options_.plan.workers, decide) : decide();
  }
  if (!decision.yes) return;
  const auto run_measure = [&] { measure(worker.now(), decision.samples, model()); };
  if (options_.synchronous) {
    worker.node().fence_together(run_measure);
  } else {
    worker.node().fence(run_measure);
  }
}

void Driver::measure_initial() { measure(Seconds(0), 0, initial_); }

void Driver::measure(Seconds time, std::uint64_t samples, std::span<const float> model) {
  const auto start = std::chrono::steady_clock::now();
  const Metrics metrics = evaluator_.measure(model);
  CurvePoint point{
      .time = time,
      .samples_count = samples,
      .epoch_num = static_cast<double>(samples) / static_cast<double>(options_.plan.rows),
      .train_loss = std::nan(""),
      .test_loss = metrics.loss,
      .p1 = metrics.p1,
      .p3 = metrics.p3,
      .p5 = metrics.p5,
      .accuracy = metrics.accuracy,
      .auc = metrics.auc};
  {
    const std::lock_guard lock(mutex_);
    point.updates = updates_;
    if (loss_count_ > 0) point.train_loss = loss_sum_ / static_cast<double>(loss_count_);
    loss_sum_ = 0;
    loss_count_ = 0;
    record_.curve.push_back(point);
    record_.elapsed = time;
    if (options_.keep_model) model_copy_.assign(model.begin(), model.end());
    bool all_reached = !record_.targets.empty();
    for (const Target& target : record_.targets) {
      const auto value = metric_of(point, target.metric);
      all_reached = all_reached && value && reached(target, *value);
    }
    if (all_reached && options_.stop_at_target && (!stop_ || stop_->first == Status::completed)) {
      stop_ = {Status::target_reached, ""};
    }
    if (!std::isfinite(metrics.loss) && (!stop_ || stop_->first == Status::completed)) {
      stop_ = {Status::diverged,
               fmt::format("the test loss became {} at {} samples", metrics.loss, samples)};
    }
  }
  record_.phases.eval_s += host_seconds_since(start);
  if (!hooks_.on_record) return;
  const auto record_start = std::chrono::steady_clock::now();
  hooks_.on_record(record_);
  record_.phases.record_s += host_seconds_since(record_start);
}

void Driver::record(Seconds time, nlohmann::json event) {
  event["time_s"] = time.count();
  const std::lock_guard lock(mutex_);
  record_.events.push_back(std::move(event));
}

void Driver::observe(const std::string& histogram, std::int64_t value) {
  const std::lock_guard lock(mutex_);
  ++record_.histograms[histogram][value];
}

void Driver::warn(const std::string& text) {
  const std::lock_guard lock(mutex_);
  record_.warnings.push_back(text);
}

std::optional<double> Driver::best_accuracy(std::uint64_t from, std::uint64_t to) const {
  const std::lock_guard lock(mutex_);
  std::optional<double> best;
  for (const CurvePoint& point : record_.curve) {
    if (point.samples_count < from || point.samples_count > to) continue;
    const std::optional<double> accuracy = point.p1 ? point.p1 : point.accuracy;
    if (accuracy && (!best || *accuracy > *best)) best = accuracy;
  }
  return best;
}

std::span<const float> Driver::Published::on_host() {
  if (device->host_accessible(replica.data())) return replica;
  copy.resize(replica.size());
  device->download(copy.data(), replica.data(), replica.size_bytes());
  return copy;
}

void Driver::publish(int rank, Device& device, std::span<const float> replica) {
  const std::lock_guard lock(mutex_);
  published_[static_cast<std::size_t>(rank)] = {.device = &device, .replica = replica, .copy = {}};
}

// Added in rank order, in double: the same bits whatever the order of arrival.
std::span<const float> Driver::mean_of_published() {
  const std::lock_guard lock(mutex_);
  mean_.resize(model_.parameters());
  std::vector<std::span<const float>> replicas;
  for (Published& published : published_) replicas.push_back(published.on_host());
  for (std::size_t i = 0; i < mean_.size(); ++i) {
    double sum = 0;
    for (const auto& replica : replicas) sum += static_cast<double>(replica[i]);
    mean_[i] = static_cast<float>(sum / static_cast<double>(replicas.size()));
  }
  return mean_;
}

void Driver::note(Worker& worker) {
  WorkerRecord& mine = record_.workers[static_cast<std::size_t>(worker.rank())];
  mine.report.rank = worker.rank();
  mine.report.ledger = worker.node().ledger();
  mine.samples = worker.samples();
  mine.updates = worker.updates();
}

void Driver::finished(Worker& worker) {
  const std::lock_guard lock(mutex_);
  note(worker);
}

Progress Driver::progress() const {
  const std::lock_guard lock(mutex_);
  Progress p;
  p.time = last_time_;
  p.samples_count = samples_;
  p.max_samples = options_.plan.max_samples;
  p.max_time = options_.max_time;
  p.epoch_num = static_cast<double>(samples_) / static_cast<double>(options_.plan.rows);
  p.updates = updates_;
  p.train_loss = loss_count_ > 0 ? loss_sum_ / static_cast<double>(loss_count_) : last_loss_;
  if (!record_.curve.empty()) p.last = record_.curve.back();
  bool first = true;
  for (std::size_t r = 0; r < steps_.size(); ++r) {
    if (steps_[r] == 0) continue;
    const double mean = step_time_[r].count() / static_cast<double>(steps_[r]);
    if (first || mean > p.slowest_step_s)
      p.slowest_step_s = mean, p.slowest_rank = static_cast<int>(r);
    if (first || mean < p.fastest_step_s)
      p.fastest_step_s = mean, p.fastest_rank = static_cast<int>(r);
    first = false;
  }
  return p;
}

}  // namespace hetsgd
