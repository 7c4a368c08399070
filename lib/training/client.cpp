#include "training/client.hpp"

#include <algorithm>

#include "core/host.hpp"
#include "core/rank_index.hpp"

namespace hetsgd {

Client::Client(Referee& referee, const RunSetup& setup)
    : Run(setup.from, setup.is_saved, setup.view),
      referee_(referee),
      rules_(referee.rules()),
      setup_(setup),
      charges_network_(setup.virtual_time && charged_model().is_planned()) {}

void Client::begin(Worker& worker) { state().load(worker.id(), "worker", worker); }

void Client::end(Worker& worker) { referee_.note(worker); }

// Nothing of it can fail but for want of memory, which would end the run anyway.
void Client::leave(Worker& worker) noexcept {
  state().save(worker.id(), "worker", worker);
  const std::lock_guard lock(unsettled_mutex_);
  unsettled_[worker.id()] = {.samples = worker.unsettled_samples(),
                             .unapplied = worker.unapplied_samples(),
                             .computed = worker.computed_samples(),
                             .round_points = worker.round_points()};
}

BatchShape Client::charged(const BatchShape& batch) const {
  return setup_.charge ? charged_shape(*setup_.charge, batch) : batch;
}

Work Client::gradient_work(int worker, const BatchShape& batch) const {
  if (setup_.charge) {
    if (const auto given = given_step(*setup_.charge, setup_.model, batch)) return *given;
  }
  const BatchShape shape = charged(batch);
  return charges_network_ ? work_of_network(worker, shape) : charged_model().gradient_work(shape);
}

Work Client::work_of_network(int worker, const BatchShape& batch) const {
  const std::size_t device = std::min(at(worker), setup_.rates.size() - 1);
  const std::lock_guard lock(network_works_mutex_);
  const double steps = charged_model().counted_steps(batch);
  const auto [found, is_new] = network_works_.try_emplace({device, batch.samples, steps});
  if (is_new) found->second = charged_model().work_on(setup_.rates[device], batch);
  return found->second;
}

// A full-size model has the kind and the options of the real one, so it has as many parts. If a
// network is charged for another model, its backward pass is taken as two thirds of the work. All
// parts are assumed to take equal shares of it.
Work Client::partial_gradient_work(int worker, const BatchShape& batch, std::size_t parts) const {
  if (!charges_network_) return charged_model().partial_gradient_work(charged(batch), parts);
  const double all = static_cast<double>(model().gradient_parts());
  const double share = (1 + 2 * static_cast<double>(parts) / all) / 3;
  const Work whole = gradient_work(worker, batch);
  return {.operations = share * whole.operations,
          .bytes = share * whole.bytes,
          .launches = share * whole.launches,
          .given_s = share * whole.given_s};
}

// Rows of tables grow with the lookups of a sample.
Work Client::stage_work(Stage stage, const BatchShape& batch, const Work& tables) const {
  if (fitted()) return {.given_s = fitted()->stages[stage].count()};
  if (stage == Stage::opt) return tables.scaled(parameter_ratio());
  const Work rows = tables.scaled(setup_.charge ? setup_.charge->lookups_per_real : 1);
  if (stage != Stage::fp && stage != Stage::bp) return rows;
  const Work forward = charged_model().forward_work(charged(batch));
  if (stage == Stage::fp) return rows + forward;
  return rows + (charged_model().gradient_work(charged(batch)) - forward);
}

void Client::measure(Worker& worker, const std::function<void()>& fn) {
  worker.endpoint().while_paused([&] { referee_.time_measurement(fn); });
}

Batch Client::test_batch(std::uint64_t count) const {
  const std::uint64_t rows = setup_.test->rows(), used = std::min(count, rows);
  std::vector<Index> some;
  for (std::uint64_t i = 0; i < used; ++i) some.push_back(static_cast<Index>(i * rows / used));
  return {*setup_.test, std::move(some)};
}

PreparedModel Client::prepare(const std::function<std::span<const float>()>& model) {
  const auto start = HostClock::now();
  replicas_read_ = 1;
  const std::span<const float> parameters = model();
  return {.parameters = parameters,
          .rows = setup_.tables,
          .host_s = seconds_since(start),
          .passes = replicas_read_};
}

void mean_of(std::span<const std::span<const float>> replicas, std::span<float> mean) {
  for (std::size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    for (const auto& replica : replicas) sum += static_cast<double>(replica[i]);
    mean[i] = static_cast<float>(sum / static_cast<double>(replicas.size()));
  }
}

SharedClient::SharedClient(Referee& referee, const RunSetup& setup)
    : Client(referee, setup), published_(setup.view.size()) {
  for (Published& each : published_) each.replica = setup.initial;
  load();
}

void SharedClient::fields(Archive& fields) {
  std::uint64_t cursor = cursor_;
  fields("cursor", cursor);
  cursor_ = cursor;
}

void SharedClient::begin(Worker& worker) {
  Client::begin(worker);
  if (!setup_.pool_is_service || synchronous()) return;
  pools_.emplace(worker.rank(), worker.serve<SamplePool>("samples"));
}

std::uint64_t SharedClient::draw(int rank, std::uint64_t count) {
  if (const auto pool = pools_.find(rank); pool != pools_.end()) {
    return pool->second.call(count, {}, {}, Traffic::control);
  }
  return cursor_.fetch_add(count);
}

void SharedClient::evaluate_here(Worker& worker, std::optional<std::uint64_t> samples,
                                 const std::function<std::span<const float>()>& model) {
  const Referee::Call call{worker.count_evaluate_call(), worker.running_calls()};
  const Referee::Point point = referee_.evaluation_point(
      worker.now(), samples, synchronous() ? std::optional(call) : std::nullopt);
  if (!point.due) return;
  if (setup_.tables) worker.device().synchronize();  // the measuring worker reads its rows
  if (synchronous() && setup_.tables && setup_.virtual_time) {
    // In virtual time the others go on beside rank 0, so the worker that arrives last measures. It
    // has made the last row update that belongs to this point. No worker has made a later one,
    // since that would need a message that this worker has not sent yet.
    if (!comes_last(call.number)) return;
    worker.endpoint().while_paused(
        [&] { referee_.measure(worker.now(), point.samples, prepare_here(model)); });
  } else if (synchronous()) {
    worker.endpoint().while_paused_together(
        [&] { referee_.measure(worker.now(), point.samples, prepare_here(model)); });
  } else {
    worker.endpoint().while_paused([&] {
      // A worker with a later evaluation may have entered the pause first. The model then contains
      // its samples, too.
      const std::uint64_t learnt = std::max(point.samples, referee_.measured_samples());
      referee_.measure(worker.now(), learnt, prepare_here(model));
    });
  }
}

PreparedModel SharedClient::prepare_here(const std::function<std::span<const float>()>& model) {
  const auto start = HostClock::now();
  PreparedModel prepared = prepare(model);
  if (!setup_.tables || setup_.tables->on_host()) return prepared;
  if (!rows_) rows_.emplace(setup_.tables->plan(), setup_.measured_rows);
  for (int rank = 0; rank < plan().workers; ++rank) {
    rows_->take(rank, setup_.tables->shard(rank).read(rows_->places(rank)));
  }
  prepared.rows = &*rows_;
  prepared.host_s = seconds_since(start);
  return prepared;
}

bool SharedClient::comes_last(std::uint64_t call) {
  const std::lock_guard lock(mutex_);
  if (++arrived_[call] < static_cast<int>(setup_.view.size())) return false;
  arrived_.erase(call);
  return true;
}

void SharedClient::publish(int rank, Device& device, std::span<const float> replica) {
  const std::lock_guard lock(mutex_);
  published_[at(rank)] = {.device = &device, .replica = replica, .copy = {}};
}

std::span<const float> SharedClient::mean_of_published() {
  const std::lock_guard lock(mutex_);
  mean_.resize(model().parameters());
  std::vector<std::span<const float>> replicas;
  for (Published& each : published_) replicas.push_back(each.on_host());
  replicas_read_ = replicas.size();
  mean_of(replicas, mean_);
  return mean_;
}

void SharedClient::record(Seconds time, nlohmann::json event) {
  event["time_s"] = time.count();
  referee_.record(std::move(event));
}

}  // namespace hetsgd
