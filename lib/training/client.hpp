// Clients connect a run's workers to its referee and implement Run. Workers that share the
// referee's memory call it directly. rank_client.hpp serves a worker that is a process of its own.
//
//   Worker ── Run ──┬─ SharedClient ──────────────────────────────── Referee    sim, threads
//                   └─ RankClient ── calls off the clock ── rank 0's Referee    mpi
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
#include "training/sample_pool.hpp"
#include "training/simulation/charge.hpp"

namespace hetsgd {

// The constant part of a run, the same for every client. It refers to objects that outlive the run.
// All workers read it without a lock, because nobody writes it after construction.
struct RunSetup {
  const Model& model;
  const Sampler& sampler;
  std::vector<float> initial;
  DatasetPtr test;
  const Charge* charge = nullptr;  // null: the real model's work
  // Rates of the workers' devices in virtual time, by rank; further workers have the last ones.
  std::span<const DeviceRates> rates;
  TableSet* tables = nullptr;  // null: the tables are part of the model
  bool virtual_time = false;
  // The workers of this process ask a service for samples of the shared pool, as under mpi.
  bool pool_is_service = false;
  // The distinct table rows that a measurement reads. Only the process that measures has them.
  std::vector<Index> measured_rows = {};
  const SavedRun* from = nullptr;  // what this segment goes on from; null: the start of a run
  bool is_saved = false;           // the run may be saved at the end of a segment
  std::vector<int> view = {};      // the workers of this segment
  bool clock_goes_on = false;      // an earlier segment came before
  bool may_lose = false;           // workers of the run are lost, in this segment or in another
  std::uint64_t samples = 0;       // that the model has learnt from, if workers may be lost
  bool resumes = false;            // `from` is from another process, not the segment before
};

class Client : public Run, public CostModel {
 public:
  Client(Referee& referee, const RunSetup& setup);
  // The state of the client between two segments.
  virtual void fields(Archive& fields) = 0;
  // Called by a worker before its algorithm begins, and after it has ended.
  virtual void begin(Worker& worker);
  virtual void end(Worker& worker);
  // Called for every worker in place of end() or after it, also where it is unwound.
  virtual void leave(Worker& worker) noexcept;
  // When all workers have left, by number in the run: samples since the last running(), those that
  // a survivor learns from again, and all of this segment; Worker::round_points() in it.
  struct Unsettled {
    std::uint64_t samples = 0, unapplied = 0, computed = 0, round_points = 0;
  };
  const std::map<int, Unsettled>& unsettled() const { return unsettled_; }
  // Workers are known to be lost: asynchronous ones that come to running() leave. Any thread.
  virtual void losing() { referee_.end_segment(); }
  // Called by every process when all workers have ended, or some were lost. Returns whether the run
  // goes on in another segment, the same on all processes.
  virtual bool await_end(const std::map<int, Seconds>& lost) {
    return lost.empty() ? referee_.is_followed() : referee_.goes_on_after_loss();
  }
  // --- after it, if workers are processes; nothing otherwise
  // Adds to the saved run what other processes know of it.
  virtual void complete(SavedRun&) const {}
  // Collective, between two segments: the first worker that has a state sends it to the workers
  // `to`, which have its common fields then, and its own beside theirs.
  virtual void share_state(SavedRun&, const std::vector<int>& to) { static_cast<void>(to); }
  // By every process after the run; then rank 0's trace has the lines of all workers.
  virtual void gather(Trace&) {}

  const Plan& plan() const final { return rules_.plan; }
  const Model& model() const final { return setup_.model; }
  const Sampler& sampler() const final { return setup_.sampler; }
  std::span<const float> initial_parameters() const final { return setup_.initial; }
  bool synchronous() const final { return rules_.synchronous; }
  std::optional<double> best_accuracy(std::uint64_t from, std::uint64_t to) const final {
    return referee_.best_accuracy(from, to);
  }
  bool clock_goes_on() const final { return setup_.clock_goes_on; }
  TableSet* tables() const final { return setup_.tables; }
  const CostModel& costs() const final { return *this; }
  // Under --charge this is the work of the full-size model on a batch of as many samples. Nonzeros
  // and labels are then scaled to the averages of the full-size data. The work of a network depends
  // on the worker's device.
  Work gradient_work(int worker, const BatchShape& batch) const final;
  Work partial_gradient_work(int worker, const BatchShape& batch, std::size_t parts) const final;
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
  // In a later segment: what the client of the segment before has known.
  void load() {
    if (!setup_.from) return;
    Archive fields = Archive::loading(setup_.from->run, setup_.from->run, "the saved run");
    fields("client", *this);
  }
  // Makes the model that is to be measured, and takes the time of that. To be called only while the
  // world is stopped. Rows of sharded tables are read in place.
  PreparedModel prepare(const std::function<std::span<const float>()>& model);

  Referee& referee_;
  const RunRules& rules_;
  const RunSetup& setup_;
  std::size_t replicas_read_ = 1;  // by the model that is being made
  std::map<int, Unsettled> unsettled_;

 private:
  const FittedCharge* fitted() const {
    return setup_.charge && setup_.charge->fitted ? &*setup_.charge->fitted : nullptr;
  }
  Work work_of_network(int worker, const BatchShape& batch) const;

  std::mutex unsettled_mutex_;  // while workers leave
  const bool charges_network_;
  // Work of networks by (device, samples, steps). It is kept because a plan takes milliseconds of
  // wall-clock time.
  mutable std::mutex network_works_mutex_;
  mutable std::map<std::tuple<std::size_t, double, double>, Work> network_works_;
};

// A replica that its worker has published, in the memory of its device. Until then the initial
// model stands for it, so a measurement does not wait for a worker that starts late.
struct Published {
  Device* device = nullptr;  // null: the replica is in host memory
  std::span<const float> replica;
  HostScratch copy;  // used if the host cannot read the replica

  // The replica in host memory. To be called only while the world is stopped, because a device
  // takes one call at a time and the replica must be whole. The span is valid until the next call
  // for this replica.
  std::span<const float> on_host() { return HostView(device, replica, copy).floats(); }
};

// The mean of the replicas. They are added in rank order and in double, so the bits depend neither
// on the order of arrival nor on the cluster. Needs at least one replica; each has mean.size()
// elements in host memory.
void mean_of(std::span<const std::span<const float>> replicas, std::span<float> mean);

// One client for all workers of a process. Thread-safe: the referee locks for itself, the pool's
// cursor is atomic, and the client's own mutex guards published replicas. The referee is never
// called with that mutex held.
class SharedClient final : public Client {
 public:
  SharedClient(Referee& referee, const RunSetup& setup);
  void fields(Archive& fields) override;
  void begin(Worker& worker) override;

  LoopDecision running(Worker& worker) override { return referee_.running(worker); }
  void end_budget() override { referee_.end_budget(); }
  // First come, first served. In sim the order is that of virtual time, so a run repeats.
  std::uint64_t draw(int rank, std::uint64_t count) override;
  void completed(Worker& worker, const LearntBatch& batch) override {
    worker.endpoint().note_batch(batch.samples);
    referee_.completed(worker, batch);
  }
  void discarded(Worker&, std::uint64_t samples) override { referee_.discarded(samples); }
  void updated() override { referee_.updated(); }
  // Synchronous: the first worker that makes its k-th call decides for all, and rank 0 measures
  // while all others wait. In virtual time the others do not wait. This is still right for rank 0's
  // replica; sharded tables are measured by the last worker that arrives. Asynchronous: the worker
  // that finds an evaluation due stops the world for it. Two workers may each find one due before
  // either has stopped the world. Their pauses then follow each other, and the samples of a point
  // are never fewer than those of the point before.
  void evaluate_here(Worker& worker, std::optional<std::uint64_t> samples,
                     const std::function<std::span<const float>()>& model) override;
  bool evaluation_due(Worker& worker) const override { return referee_.due(worker.now()); }
  void publish(int rank, Device& device, std::span<const float> replica) override;
  std::span<const float> mean_of_published() override;
  void record(Seconds time, nlohmann::json event) override;
  void observe(const std::string& histogram, std::int64_t value) override {
    referee_.observe(histogram, value);
  }
  void warn(const std::string& text) override { referee_.warn(text); }

 private:
  // Whether this worker is the last one to make the k-th call of evaluate_here(). Each worker asks
  // once per call, if a measurement is due there.
  bool comes_last(std::uint64_t call);
  // Does the same as prepare(). If tables have rows on GPUs, it copies the rows that the
  // measurement reads.
  PreparedModel prepare_here(const std::function<std::span<const float>()>& model);

  std::atomic<std::uint64_t> cursor_{0};  // next sample of the shared pool
  // By rank in the view, where the pool is a service (RunSetup).
  std::map<int, SamplePoolClient> pools_;
  std::mutex mutex_;                  // guards all below
  std::vector<Published> published_;  // by rank in the view
  std::vector<float> mean_;
  std::map<std::uint64_t, int> arrived_;  // by call: number of workers that have made it
  std::optional<GatheredRows> rows_;      // set while the world is stopped
};

}  // namespace hetsgd
