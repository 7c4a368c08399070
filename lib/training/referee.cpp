#include "training/referee.hpp"

#include <algorithm>
#include <cmath>

#include "core/host.hpp"
#include "core/rank_index.hpp"

namespace hetsgd {
namespace {

// NaN without its sign, which differs from processor to processor and says nothing.
double unsigned_nan(double value) { return std::isnan(value) ? std::abs(value) : value; }

}  // namespace

template <class Decide>
Referee::Decision Referee::Decisions::get(std::uint64_t k, int readers, Decide&& decide) {
  HETSGD_CHECK_GE(k, first_);
  HETSGD_CHECK_LE(k, first_ + entries_.size());  // calls come one by one
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

CheckFailure unequal_calls(std::uint64_t one, std::uint64_t other, const std::string& place) {
  return CheckFailure(fmt::format(
      "a worker has called running() {} times before {}, another one {} times: all workers of a "
      "synchronous algorithm make the same calls",
      one, place, other));
}

bool Budget::used_up(Seconds now, std::uint64_t samples) const {
  const std::uint64_t most = rules_.plan.max_samples;
  return ended_ || (most > 0 && samples >= most) ||
         (rules_.max_time.count() > 0 && now >= rules_.max_time);
}

bool Budget::take_due(Seconds now, std::uint64_t samples) {
  if (!due(now, samples)) return false;
  taken_ = next_evaluation_;
  next_evaluation_ = (samples / rules_.evaluate_every + 1) * rules_.evaluate_every;
  return true;
}

std::vector<float> whole_model(std::span<const float> parameters, const RowSource* rows) {
  std::vector<float> all;
  if (rows) all = read_all(*rows);
  all.insert(all.end(), parameters.begin(), parameters.end());
  return all;
}

void Accuracies::add(std::uint64_t samples, double accuracy) {
  const bool known = !points_.empty() && points_.back().first == samples;
  if (!known && !std::isnan(accuracy)) points_.emplace_back(samples, accuracy);
}

std::optional<double> Accuracies::best(std::uint64_t from, std::uint64_t to) const {
  std::optional<double> best;
  for (const auto& [samples, accuracy] : points_) {
    if (samples < from || samples > to) continue;
    if (!best || accuracy > *best) best = accuracy;
  }
  return best;
}

void Accuracies::fields(Archive& fields) {
  std::vector<std::uint64_t> samples;
  std::vector<double> accuracies;
  for (const auto& [at, accuracy] : points_) {
    samples.push_back(at);
    accuracies.push_back(accuracy);
  }
  fields("samples", samples);
  fields("accuracies", accuracies);
  points_.clear();
  for (std::size_t i = 0; i < samples.size(); ++i) points_.emplace_back(samples[i], accuracies[i]);
}

double Accuracies::of(const CurvePoint& point) { return accuracy_of(point).value_or(std::nan("")); }

Referee::Referee(const RunRules& rules, Evaluator& evaluator, Record& record,
                 const TrainHooks& hooks)
    : rules_(rules),
      evaluator_(evaluator),
      record_(record),
      hooks_(hooks),
      targets_(record.targets.begin(), record.targets.end()),
      budget_(rules_),
      segment_ends_(rules_.segments) {
  const auto p = at(rules.plan.workers);
  record_.workers.resize(p);
  step_time_.resize(p);
  steps_.resize(p);
  loss_sums_.resize(p);
}

void Referee::request_stop(Status status, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!stop_) stop_ = {status, reason};
}

void note_interruption(const Interrupted& interruption, Record& record) {
  record.status = interruption.signal() != 0 ? Status::aborted : Status::time_limit;
  record.status_reason = interruption.what();
  record.signal = interruption.signal();
  record.finished_at = utc_now();
}

void Referee::begin_training() {
  const std::lock_guard lock(mutex_);
  record_.phases.begin_training();
}

void Referee::interrupted(const Interrupted& interruption) {
  const std::lock_guard lock(mutex_);
  note_interruption(interruption, record_);
  record_.phases.settle();
  if (hooks_.on_record) hooks_.on_record(record_);
}

std::optional<std::pair<Status, std::string>> Referee::stopped() const {
  const std::lock_guard lock(mutex_);
  return stop_;
}

LoopDecision Referee::running(Worker& worker) {
  const std::lock_guard lock(mutex_);
  // The first call of a segment returns into a round that a loss has cut: it must be completed.
  const bool may_end = worker.running_calls() > 0;
  const auto decide = [&] {
    if (!ends() && may_end && worker.now() >= until_) is_followed_ = true;
    return Decision{.yes = !ends(), .samples = samples_, .is_followed = is_followed_ && !stop_};
  };
  const Decision decision =
      rules_.synchronous ? running_.get(worker.running_calls(), readers_, decide) : decide();
  note(worker.id(), WorkerTotals::of(worker));
  return {.yes = decision.yes, .samples = decision.samples, .is_followed = decision.is_followed};
}

void Referee::end_budget() {
  const std::lock_guard lock(mutex_);
  budget_.end();
}

nlohmann::json step_event(Worker& worker, std::uint64_t iteration, const LearntBatch& batch,
                          Seconds now) {
  return {{"type", "step"},      {"time_s", now.count()},  {"start_s", batch.started.count()},
          {"rank", worker.id()}, {"iteration", iteration}, {"samples", batch.samples},
          {"loss", batch.loss}};
}

// Weights are relative, so that the sum over equal batches is that of their losses to the bit.
void LossSum::add(const LossSum& other) {
  if (other.unit == 0) return;
  if (unit == 0) unit = other.unit;
  const double scale = other.unit / unit;
  sum += scale * other.sum;
  weight += scale * other.weight;
}

void Referee::Counters::add_step(const LearntBatch& batch, Seconds now) {
  samples += batch.samples;
  ++steps;
  losses.add({batch.loss, 1, static_cast<double>(batch.losses)});
  last_loss = batch.loss;
  step_time_s += (now - batch.started).count();
  time_s = now.count();
}

void Referee::completed(Worker& worker, const LearntBatch& batch) {
  const Seconds now = worker.now();
  Counters step;
  step.add_step(batch, now);
  const std::lock_guard lock(mutex_);
  if (rules_.plan.record_steps) {
    record_.events.push_back(step_event(worker, steps_[at(worker.id())], batch, now));
  }
  count(worker.id(), step);
}

LossSum Referee::losses() const {
  LossSum all;
  for (const LossSum& each : loss_sums_) all.add(each);
  return all;
}

void Referee::discarded(std::uint64_t samples) {
  const std::lock_guard lock(mutex_);
  samples_ -= samples;
}

void Referee::count(int rank, const Counters& done) {
  samples_ += done.samples;
  step_time_[at(rank)] += Seconds(done.step_time_s);
  steps_[at(rank)] += done.steps;
  if (done.steps == 0) return;
  loss_sums_[at(rank)].add(done.losses);
  last_loss_ = done.last_loss;
  last_time_ = Seconds(done.time_s);
  if (!std::isfinite(done.losses.sum) && !stop_) {
    stop_ = {Status::diverged, fmt::format("the loss of worker {} became {} at {} samples", rank,
                                           unsigned_nan(done.losses.sum), samples_)};
  }
}

void Referee::absorb(int rank, const Counters& counters) {
  const std::lock_guard lock(mutex_);
  count(rank, counters);
  updates_ += counters.updates;
  if (counters.budget_ended) budget_.end();
  note(rank, counters.worker);
}

void Referee::absorb(const nlohmann::json& extra) {
  const std::lock_guard lock(mutex_);
  for (const auto& event : extra.value("events", nlohmann::json::array())) {
    record_.events.push_back(event);
  }
  const nlohmann::json histograms = extra.value("histograms", nlohmann::json::object());
  for (const auto& [name, counts] : histograms.items()) {
    for (const auto& [value, count] : counts.items()) {
      record_.histograms[name][std::stoll(value)] += count.get<std::uint64_t>();
    }
  }
  for (const auto& text : extra.value("warnings", nlohmann::json::array())) {
    record_.warnings.push_back(text);
  }
}

void Referee::updated() {
  const std::lock_guard lock(mutex_);
  ++updates_;
}

Referee::Point Referee::evaluation_point(Seconds now, std::optional<std::uint64_t> samples,
                                         std::optional<Call> call) {
  const std::lock_guard lock(mutex_);
  const auto decide = [&] {
    const std::uint64_t n = samples.value_or(samples_);
    const bool due = !ends() && budget_.take_due(now, n);
    if (!ends() && budget_.used_up(now, n)) stop_ = {Status::completed, ""};
    if (due) is_measured_ = false;
    if (due && !stop_) is_followed_ = segment_ends_.take_due(n);
    return Decision{.yes = due, .samples = n, .running_calls = call ? call->running_calls : 0};
  };
  const Decision decision = call ? evaluating_.get(call->number, readers_, decide) : decide();
  if (call && decision.running_calls != call->running_calls) {
    throw unequal_calls(call->running_calls, decision.running_calls,
                        fmt::format("its {}th evaluate_here()", call->number + 1));
  }
  return {.due = decision.yes, .samples = decision.samples};
}

std::uint64_t Referee::measured_samples() const {
  const std::lock_guard lock(mutex_);
  return record_.curve.empty() ? 0 : record_.curve.back().samples_count;
}

bool Referee::due(Seconds now) const {
  const std::lock_guard lock(mutex_);
  return !ends() && budget_.due(now, samples_);
}

bool Referee::due_by_budget(Seconds now, std::uint64_t samples) const {
  const std::lock_guard lock(mutex_);
  return budget_.due(now, samples);
}

void Referee::follow(Seconds now, std::uint64_t samples, double accuracy) {
  const std::lock_guard lock(mutex_);
  budget_.take_due(now, samples);
  accuracies_.add(samples, accuracy);
}

bool Referee::is_followed() const {
  const std::lock_guard lock(mutex_);
  return is_followed_ && !stop_;
}

void Referee::fields(Archive& fields) {
  const std::lock_guard lock(mutex_);
  std::vector<WorkerTotals> totals;
  for (const WorkerRecord& worker : record_.workers) totals.push_back(WorkerTotals::of(worker));
  fields("record", record_);
  fields("workers", totals);
  fields("samples", samples_);
  fields("updates", updates_);
  fields("budget", budget_);
  fields("segment_ends", segment_ends_);
  fields("loss_sums", loss_sums_);
  fields("last_loss", last_loss_);
  fields("last_time", last_time_);
  fields("prepared", prepared_);
  fields("step_time", step_time_);
  fields("steps", steps_);
  fields("model_copy", model_copy_);
  if (!fields.is_loading()) return;
  initial_off_clock_s_ = record_.phases.off_clock_s();
  share_before_ = used().share_done();
  for (std::size_t r = 0; r < totals.size(); ++r) note(static_cast<int>(r), totals[r]);
  for (const CurvePoint& point : record_.curve) {
    accuracies_.add(point.samples_count, Accuracies::of(point));
    for (HoldWatch& each : targets_) {
      if (const auto value = metric_of(point, each.target().metric)) each.add(*value);
    }
  }
}

void Referee::known(Archive& fields) {
  const std::lock_guard lock(mutex_);
  fields("budget", budget_);
  fields("accuracies", accuracies_);
}

void Referee::checkpointed(double seconds) {
  const std::lock_guard lock(mutex_);
  record_.phases.checkpoint_s += seconds;
}

Seconds Referee::until() const {
  const std::lock_guard lock(mutex_);
  return until_;
}

void Referee::end_segment() {
  const std::lock_guard lock(mutex_);
  is_followed_ = true;
}

bool Referee::goes_on_after_loss() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(is_measured_, true)) {
    budget_.put_back();
    segment_ends_.put_back();
    if (stop_ && stop_->first == Status::completed) stop_.reset();
  }
  return !stop_;
}

void Referee::lost(const FailureRecord& failure) {
  const std::lock_guard lock(mutex_);
  record_.failures.push_back(failure);
  samples_ -= std::min(samples_, failure.lost_samples + failure.redone_samples);
}

void Referee::count_all(const std::vector<std::uint64_t>& samples) {
  const std::lock_guard lock(mutex_);
  for (std::size_t w = 0; w < samples.size(); ++w) record_.workers[w].samples = samples[w];
}

void Referee::redo(std::uint64_t samples) {
  const std::lock_guard lock(mutex_);
  samples = std::min(samples, samples_);
  record_.failures.back().redone_samples += samples;
  samples_ -= samples;
}

void Referee::roll_back(std::uint64_t samples) {
  const std::lock_guard lock(mutex_);
  if (samples >= samples_) return;
  record_.failures.back().redone_samples += samples_ - samples;
  samples_ = samples;
}

void Referee::returned(const std::vector<int>& workers, Seconds time, double state_bytes) {
  const std::lock_guard lock(mutex_);
  for (FailureRecord& failure : record_.failures) {
    if (failure.returned || std::ranges::find(workers, failure.worker) == workers.end()) continue;
    failure.returned = time;
    failure.state_bytes = state_bytes;
  }
}

void Referee::begin_segment(int workers, Seconds until) {
  const std::lock_guard lock(mutex_);
  is_followed_ = false;
  readers_ = workers;
  until_ = until;
  running_ = {};
  evaluating_ = {};
}

void Referee::measure_initial(const PreparedModel& initial) {
  measure(Seconds(0), 0, initial);
  const std::lock_guard lock(mutex_);
  initial_off_clock_s_ = record_.phases.off_clock_s();
}

CurvePoint Referee::measure(Seconds time, std::uint64_t samples, const PreparedModel& model) {
  const auto start = HostClock::now();
  {
    const std::lock_guard lock(mutex_);
    measuring_since_ = start;
    // The last point may have counted samples that were discarded since.
    if (!record_.curve.empty()) samples = std::max(samples, record_.curve.back().samples_count);
  }
  std::vector<MetricValue> metrics = evaluator_.measure(model.parameters, model.rows);
  std::vector<float> copy;
  if (rules_.keep_model) copy = whole_model(model.parameters, model.rows);
  CurvePoint point{
      .time = time,
      .samples_count = samples,
      .epoch_num = static_cast<double>(samples) / static_cast<double>(rules_.plan.rows),
      .train_loss = std::nan(""),
      .metrics = std::move(metrics)};
  // The mutex is needed, because reports of other ranks come in and the watcher may write too.
  const std::lock_guard lock(mutex_);
  point.updates = updates_;
  for (const WorkerRecord& worker : record_.workers) {
    for (const std::uint64_t bytes : worker.report.breakdown.bytes_sent) point.bytes_sent += bytes;
  }
  const LossSum since_last = losses();
  point.no_batch = since_last.unit == 0;
  if (!point.no_batch) point.train_loss = since_last.mean();
  std::ranges::fill(loss_sums_, LossSum{});
  prepared_ += rules_.prepare_pass ? *rules_.prepare_pass * static_cast<double>(model.passes)
                                   : Seconds(model.host_s);
  point.prepare = prepared_;
  point.measure_begin_s = record_.phases.wall_s(start);
  point.wall_s = record_.phases.wall_s(HostClock::now());
  if (rules_.keep_model) model_copy_ = std::move(copy);
  add(point);
  record_.phases.prepare_s += model.host_s;
  record_.phases.eval_s += seconds_since(start);
  if (hooks_.on_record) {
    const auto record_start = HostClock::now();
    record_.phases.settle();
    hooks_.on_record(record_);
    record_.phases.record_s += seconds_since(record_start);
  }
  measuring_since_.reset();
  is_measured_ = true;
  return point;
}

void Referee::time_measurement(const std::function<void()>& fn) {
  const auto start = HostClock::now();
  fn();
  const std::lock_guard lock(mutex_);
  record_.phases.eval_s += seconds_since(start);
}

void Referee::add(const CurvePoint& point) {
  record_.curve.push_back(point);
  accuracies_.add(point.samples_count, Accuracies::of(point));
  record_.evaluation_device = evaluator_.device();
  record_.elapsed = point.time;
  for (HoldWatch& each : targets_) {
    if (const auto value = metric_of(point, each.target().metric)) each.add(*value);
  }
  const bool all_held = !targets_.empty() && std::ranges::all_of(targets_, &HoldWatch::held);
  if (all_held && rules_.stop_at_target && (!stop_ || stop_->first == Status::completed)) {
    stop_ = {Status::target_reached, ""};
  }
  if (const double loss = point.test_loss();
      !std::isfinite(loss) && (!stop_ || stop_->first == Status::completed)) {
    stop_ = {Status::diverged, fmt::format("the test loss became {} at {} samples",
                                           unsigned_nan(loss), point.samples_count)};
  }
  if (is_followed_ && !stop_ && segment_ends_.found()) {
    record_.segments.push_back(segment_ends_.last(point));
  }
}

void Referee::record(nlohmann::json event) {
  const std::lock_guard lock(mutex_);
  record_.events.push_back(std::move(event));
}

void Referee::observe(const std::string& histogram, std::int64_t value) {
  const std::lock_guard lock(mutex_);
  ++record_.histograms[histogram][value];
}

void Referee::warn(const std::string& text) {
  const std::lock_guard lock(mutex_);
  record_.warnings.push_back(text);
}

void Referee::sort_events() {
  const std::lock_guard lock(mutex_);
  std::stable_sort(record_.events.begin(), record_.events.end(),
                   [](const nlohmann::json& a, const nlohmann::json& b) {
                     return a["time_s"].get<double>() < b["time_s"].get<double>();
                   });
}

std::optional<double> Referee::best_accuracy(std::uint64_t from, std::uint64_t to) const {
  const std::lock_guard lock(mutex_);
  return accuracies_.best(from, to);
}

void Referee::note(Worker& worker) {
  const std::lock_guard lock(mutex_);
  note(worker.id(), WorkerTotals::of(worker));
}

WorkerTotals WorkerTotals::of(const WorkerRecord& worker) {
  return {.samples = worker.samples,
          .updates = worker.updates,
          .lookups = worker.lookups,
          .stages = worker.stages,
          .breakdown = worker.report.breakdown};
}

WorkerTotals WorkerTotals::of(Worker& worker) {
  return {.samples = worker.samples(),
          .updates = worker.updates(),
          .lookups = worker.lookup_counts(),
          .stages = worker.stage_times(),
          .breakdown = worker.endpoint().account()};
}

void Referee::note(int rank, const WorkerTotals& worker) {
  WorkerRecord& mine = record_.workers[at(rank)];
  mine.report.rank = rank;
  mine.report.breakdown = worker.breakdown;
  mine.samples = worker.samples;
  mine.updates = worker.updates;
  mine.lookups = worker.lookups;
  mine.stages = worker.stages;
}

Progress Referee::used() const {
  Progress p;
  p.time = last_time_;
  p.samples_count = samples_;
  p.max_samples = rules_.plan.max_samples;
  p.max_time = rules_.max_time;
  return p;
}

Progress Referee::progress(double host_s) const {
  const std::lock_guard lock(mutex_);
  Progress p = used();
  p.share_before = share_before_;
  p.tokens_per_sample = record_.tokens_per_sample();
  p.epoch_num = static_cast<double>(samples_) / static_cast<double>(rules_.plan.rows);
  p.updates = updates_;
  const LossSum since_last = losses();
  p.train_loss = since_last.unit > 0 ? since_last.mean() : last_loss_;
  if (!record_.curve.empty()) p.last = record_.curve.back();
  const double off_clock_s = record_.phases.off_clock_s();
  if (measuring_since_) p.measuring_s = seconds_since(*measuring_since_);
  p.host_s = std::max(0.0, host_s - (off_clock_s - initial_off_clock_s_) - p.measuring_s);
  p.measurement_s = off_clock_s / std::max<double>(1, static_cast<double>(record_.curve.size()));
  if (p.max_samples > p.samples_count) {
    p.measurements_left = std::ceil(static_cast<double>(p.max_samples - p.samples_count) /
                                    static_cast<double>(rules_.evaluate_every));
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
