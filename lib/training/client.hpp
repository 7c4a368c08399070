// How a run's workers reach its referee (implements Run): directly, where they share its memory.
// rank_client.hpp is the client of a worker that is a process of its own.
//
//   Worker ── Run ──┬─ SharedClient ───────────────────────── Referee    sim, threads
//                   └─ RankClient ── control messages ──> rank 0's RankClient ── Referee    mpi
//
// A client decides nothing about the rules of a run; those are RunRules, which every process has,
// and the Referee, which is one per run. It lives from before the first worker to after the last.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "linalg/host_view.hpp"
#include "training/referee.hpp"
#include "training/simulation/charge.hpp"

namespace hetsgd {

// What does not change in a run, for every client alike. What it refers to outlives the run. Read
// by all workers without a lock, since nobody writes it after it was made.
struct RunSetup {
  const Model& model;
  const Sampler& sampler;
  std::vector<float> initial;
  DatasetPtr test;
  const Charge* charge = nullptr;  // null: the real model's work
  // Virtual time: of the workers' devices; the last repeats.
  std::span<const DeviceRates> rates = {};
  bool traced = false;         // all endpoints are those of a Trace
  TableSet* tables = nullptr;  // null: the tables are part of the model
  bool virtual_time = false;
  // Rows of tables that a measurement reads, for the process that measures; distinct.
  std::vector<Index> measured_rows = {};
};

class Client : public Run, public CostModel {
 public:
  Client(Referee& referee, const RunSetup& setup);

  const Plan& plan() const final { return rules_.plan; }
  const Model& model() const final { return setup_.model; }
  const Sampler& sampler() const final { return setup_.sampler; }
  std::span<const float> initial_parameters() const final { return setup_.initial; }
  bool synchronous() const final { return rules_.synchronous; }
  TableSet* tables() const final { return setup_.tables; }
  const CostModel& costs() const final { return *this; }
  // Under --charge that of the full-size model for a batch of as many samples, whose nonzeros and
  // labels are scaled to the full-size data's averages. Of networks by the worker's device.
  Work gradient_work(int rank, const BatchShape& batch) const final;
  Work partial_gradient_work(int rank, const BatchShape& batch, std::size_t parts) const final;
  const Model& charged_model() const final {
    return setup_.charge && setup_.charge->model ? *setup_.charge->model : setup_.model;
  }
  BatchShape charged(const BatchShape& batch) const final;
  Work stage_work(Stage stage, const BatchShape& batch, const Work& tables) const final;
  double parameter_ratio() const final {
    return setup_.charge ? setup_.charge->parameter_ratio : 1;
  }
  void measure(Worker& worker, const std::function<void()>& fn) final;
  Batch test_batch(std::uint64_t count) const final;

 protected:
  // A step of this worker is complete: its batch stands in the trace, if there is one.
  void trace_batch(Worker& worker, std::uint64_t samples) const;
  // Makes the model that is to be measured, and takes the time of that. Only while the world is
  // stopped. Rows of sharded tables are read in place.
  PreparedModel prepare(const std::function<std::span<const float>()>& model);

  Referee& referee_;
  const RunRules& rules_;
  const RunSetup& setup_;
  std::size_t replicas_read_ = 1;  // by the model that is being made

 private:
  const FittedCharge* fitted() const {
    return setup_.charge && setup_.charge->fitted ? &*setup_.charge->fitted : nullptr;
  }
  Work work_of_network(int rank, const BatchShape& batch) const;

  const bool charges_network_;
  // Of networks by (device, samples, steps), as a plan takes the host milliseconds.
  mutable std::mutex network_works_mutex_;
  mutable std::map<std::tuple<std::size_t, double, double>, Work> network_works_;
};

// A replica that its worker has published, where it lies on a device. Until then it is the initial
// model: a measurement does not wait for a worker that starts late.
struct Published {
  Device* device = nullptr;  // null: the replica is in host memory
  std::span<const float> replica;
  HostScratch copy;  // where the host does not reach the replica

  // Only while the world is stopped: a device takes one call at a time, and the replica must be
  // whole. Good until the next call for this replica.
  std::span<const float> on_host() { return HostView(device, replica, copy).floats(); }
};

// The mean of the replicas, added in rank order, in double: the same bits whatever the order of
// arrival, and on every cluster. At least one replica; all of mean.size() numbers, in host memory.
void mean_of(std::span<const std::span<const float>> replicas, std::span<float> mean);

// One for all workers of a process. Thread-safe: the referee locks for itself, the pool's cursor is
// atomic, and what is published is guarded by the client's own mutex, under which nothing is asked
// of the referee.
class SharedClient final : public Client {
 public:
  SharedClient(Referee& referee, const RunSetup& setup);

  LoopDecision running(Worker& worker) override { return referee_.running(worker); }
  void end_budget() override { referee_.end_budget(); }
  // First come first served: in sim by virtual time, so that a run repeats.
  std::uint64_t draw(std::uint64_t count) override { return cursor_.fetch_add(count); }
  void completed(Worker& worker, std::uint64_t samples, double loss, Seconds started) override {
    trace_batch(worker, samples);
    referee_.completed(worker, samples, loss, started);
  }
  void discarded(Worker&, std::uint64_t samples) override { referee_.discarded(samples); }
  void updated(Worker& worker, bool counts_for_run) override;
  // Synchronous: the first worker to make its k-th call decides for all, and rank 0 measures with
  // all others waiting. In virtual time, where they do not wait, that is right for rank 0's replica;
  // sharded tables are measured by the last worker to come. Asynchronous: the worker that finds an
  // evaluation due stops the world for it. Two may find two of them due before either has stopped
  // it; the pauses follow each other, and a point's samples never fall behind those of the point
  // before.
  void evaluate_here(Worker& worker, std::optional<std::uint64_t> samples,
                     const std::function<std::span<const float>()>& model) override;
  bool evaluation_due(Worker& worker) const override { return referee_.due(worker.now()); }
  std::optional<double> best_accuracy(std::uint64_t from, std::uint64_t to) const override {
    return referee_.best_accuracy(from, to);
  }
  void publish(int rank, Device& device, std::span<const float> replica) override;
  std::span<const float> mean_of_published() override;
  void record(Seconds time, nlohmann::json event) override;
  void observe(const std::string& histogram, std::int64_t value) override {
    referee_.observe(histogram, value);
  }
  void warn(const std::string& text) override { referee_.warn(text); }

 private:
  // At the k-th call of evaluate_here() where a measurement is due, once for each worker.
  bool comes_last(std::uint64_t call);
  // As prepare(). Of tables with rows on GPUs those that the measurement reads are copied.
  PreparedModel prepare_here(const std::function<std::span<const float>()>& model);

  std::atomic<std::uint64_t> cursor_{0};  // of the shared pool
  std::mutex mutex_;                      // guards all below
  std::vector<Published> published_;      // by rank
  std::vector<float> mean_;
  std::map<std::uint64_t, int> arrived_;  // by call: workers that have come to it
  std::optional<GatheredRows> rows_;      // while the world is stopped
};

}  // namespace hetsgd
