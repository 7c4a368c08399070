#include "training/driver.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/host_clock.hpp"

namespace hetsgd {

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

void note_interruption(const Interrupted& interruption, Record& record) {
  record.status = interruption.signal() != 0 ? Status::aborted : Status::time_limit;
  record.status_reason = interruption.what();
  record.signal = interruption.signal();
  record.finished_at = utc_now();
}

void Driver::interrupted(const Interrupted& interruption) {
  const std::lock_guard lock(mutex_);
  note_interruption(interruption, record_);
  if (hooks_.on_record) hooks_.on_record(record_);
}

std::optional<std::pair<Status, std::string>> Driver::stopped() const {
  const std::lock_guard lock(mutex_);
  return stop_;
}

bool Driver::budget_used_up(Seconds now, std::uint64_t samples, bool ended) const {
  const std::uint64_t budget = options_.plan.max_samples;
  return ended || (budget > 0 && samples >= budget) ||
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

nlohmann::json step_event(Worker& worker, std::uint64_t iteration, std::uint64_t samples,
                          double loss, Seconds now, Seconds started) {
  return {{"type", "step"},        {"time_s", now.count()},  {"start_s", started.count()},
          {"rank", worker.rank()}, {"iteration", iteration}, {"samples", samples},
          {"loss", loss}};
}

void Driver::Counters::add_step(std::uint64_t step_samples, double loss, Seconds now,
                                Seconds started) {
  samples += step_samples;
  ++steps;
  loss_sum += loss;
  last_loss = loss;
  step_time_s += (now - started).count();
  time_s = now.count();
}

void Driver::completed(Worker& worker, std::uint64_t samples, double loss, Seconds started) {
  const Seconds now = worker.now();
  Counters step;
  step.add_step(samples, loss, now, started);
  const std::lock_guard lock(mutex_);
  if (options_.plan.record_steps) {
    const std::uint64_t iteration = steps_[static_cast<std::size_t>(worker.rank())];
    record_.events.push_back(step_event(worker, iteration, samples, loss, now, started));
  }
  completed(worker.rank(), step);
}

void Driver::completed(int rank, const Counters& done) {
  samples_ += done.samples;
  step_time_[static_cast<std::size_t>(rank)] += Seconds(done.step_time_s);
  steps_[static_cast<std::size_t>(rank)] += done.steps;
  if (done.steps == 0) return;
  loss_sum_ += done.loss_sum;
  loss_count_ += done.steps;
  last_loss_ = done.last_loss;
  last_time_ = Seconds(done.time_s);
  if (!std::isfinite(done.loss_sum) && !stop_) {
    stop_ = {Status::diverged, fmt::format("the loss of worker {} became {} at {} samples", rank,
                                           done.loss_sum, samples_)};
  }
}

void Driver::absorb(int rank, const Counters& counters) {
  const std::lock_guard lock(mutex_);
  completed(rank, counters);
  updates_ += counters.updates;
  WorkerRecord& worker = record_.workers[static_cast<std::size_t>(rank)];
  worker.samples = counters.worker_samples;
  worker.updates = counters.worker_updates;
  worker.report.ledger = counters.ledger;
}

void Driver::absorb(const nlohmann::json& extra) {
  const std::lock_guard lock(mutex_);
  for (const auto& event : extra.value("events", nlohmann::json::array())) {
    record_.events.push_back(event);
  }
  if (extra.contains("histograms")) {
    for (const auto& [name, counts] :
         extra["histograms"].get<std::map<std::string, std::map<std::int64_t, std::uint64_t>>>()) {
      for (const auto& [value, count] : counts) record_.histograms[name][value] += count;
    }
  }
  for (const auto& text : extra.value("warnings", nlohmann::json::array())) {
    record_.warnings.push_back(text);
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
      const bool used_up = budget_used_up(now, n, budget_ended_);
      const bool due = !stop_ && (used_up || n >= next_evaluation_);
      if (due) schedule_next(n);
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
    worker.node().fence([&] {
      // Who was due later may have come to the fence first: the model has those samples too.
      decision.samples = std::max(decision.samples, measured_samples());
      run_measure();
    });
  }
}

std::uint64_t Driver::measured_samples() const {
  const std::lock_guard lock(mutex_);
  return record_.curve.empty() ? 0 : record_.curve.back().samples_count;
}

void Driver::schedule_next(std::uint64_t samples) {
  next_evaluation_ = (samples / options_.evaluate_every + 1) * options_.evaluate_every;
}

bool Driver::due(Seconds now) const {
  const std::lock_guard lock(mutex_);
  return stop_ || samples_ >= next_evaluation_ || budget_used_up(now, samples_, false);
}

CurvePoint Driver::evaluate(Seconds now, std::uint64_t samples, bool used_up,
                            std::span<const float> model) {
  {
    const std::lock_guard lock(mutex_);
    schedule_next(samples);
    if (used_up && !stop_) stop_ = {Status::completed, ""};
  }
  return measure(now, samples, model);
}

void Driver::measure_initial() {
  measure(Seconds(0), 0, initial_);
  const std::lock_guard lock(mutex_);
  initial_off_clock_s_ = record_.phases.eval_s + record_.phases.record_s;
}

CurvePoint Driver::measure(Seconds time, std::uint64_t samples, std::span<const float> model) {
  const auto start = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    measuring_since_ = start;
  }
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
  // Under the mutex: reports of other ranks come in, and the watcher may write too.
  const std::lock_guard lock(mutex_);
  point.updates = updates_;
  if (loss_count_ > 0) point.train_loss = loss_sum_ / static_cast<double>(loss_count_);
  loss_sum_ = 0;
  loss_count_ = 0;
  add(point, model);
  record_.phases.eval_s += seconds_since(start);
  if (hooks_.on_record) {
    const auto record_start = std::chrono::steady_clock::now();
    hooks_.on_record(record_);
    record_.phases.record_s += seconds_since(record_start);
  }
  measuring_since_.reset();
  return point;
}

void Driver::add(const CurvePoint& point, std::span<const float> model) {
  record_.curve.push_back(point);
  record_.evaluation_device = evaluator_.device();
  record_.elapsed = point.time;
  if (options_.keep_model) model_copy_.assign(model.begin(), model.end());
  bool all_reached = !record_.targets.empty();
  for (const Target& target : record_.targets) {
    const auto value = metric_of(point, target.metric);
    all_reached = all_reached && value && reached(target, *value);
  }
  if (all_reached && options_.stop_at_target && (!stop_ || stop_->first == Status::completed)) {
    stop_ = {Status::target_reached, ""};
  }
  if (!std::isfinite(point.test_loss) && (!stop_ || stop_->first == Status::completed)) {
    stop_ = {Status::diverged, fmt::format("the test loss became {} at {} samples", point.test_loss,
                                           point.samples_count)};
  }
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

void Driver::sort_events() {
  const std::lock_guard lock(mutex_);
  std::stable_sort(record_.events.begin(), record_.events.end(),
                   [](const nlohmann::json& a, const nlohmann::json& b) {
                     return a["time_s"].get<double>() < b["time_s"].get<double>();
                   });
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

std::span<const float> Published::on_host() {
  if (device->host_accessible(replica.data())) return replica;
  copy.resize(replica.size());
  device->download(copy.data(), replica.data(), replica.size_bytes());
  return copy;
}

void Driver::publish(int rank, Device& device, std::span<const float> replica) {
  const std::lock_guard lock(mutex_);
  published_[static_cast<std::size_t>(rank)] = {.device = &device, .replica = replica, .copy = {}};
}

void mean_of(std::span<const std::span<const float>> replicas, std::span<float> mean) {
  for (std::size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    for (const auto& replica : replicas) sum += static_cast<double>(replica[i]);
    mean[i] = static_cast<float>(sum / static_cast<double>(replicas.size()));
  }
}

std::span<const float> Driver::mean_of_published() {
  const std::lock_guard lock(mutex_);
  mean_.resize(model_.parameters());
  std::vector<std::span<const float>> replicas;
  for (Published& each : published_) replicas.push_back(each.on_host());
  mean_of(replicas, mean_);
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

Progress Driver::progress(double host_s) const {
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
  const double off_clock_s = record_.phases.eval_s + record_.phases.record_s;
  if (measuring_since_) p.measuring_s = seconds_since(*measuring_since_);
  p.host_s = std::max(0.0, host_s - (off_clock_s - initial_off_clock_s_) - p.measuring_s);
  p.measurement_s = off_clock_s / std::max<double>(1, static_cast<double>(record_.curve.size()));
  if (p.max_samples > p.samples_count) {
    p.measurements_left = std::ceil(static_cast<double>(p.max_samples - p.samples_count) /
                                    static_cast<double>(options_.evaluate_every));
  }
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
