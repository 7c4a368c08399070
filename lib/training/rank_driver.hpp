// The driver of one rank of a cluster whose ranks do not share memory (mpi): decides what the rank
// can decide for itself, and leaves the record to rank 0's Driver.
//
// Synchronous algorithms. Whether an evaluation is due follows from the number of samples, which
// all ranks know at evaluate_here(), so nobody has to ask: between two evaluations not a byte is
// exchanged for the driver. At an evaluation the ranks meet off the clock anyway, and leave with
// rank 0's decision whether to go on. So what else ends a run (a target, divergence) ends it at the
// next evaluation; signals and time limits abort it at once.
//
// Asynchronous algorithms. Every step is reported to rank 0 in one message, for which nobody waits.
// When rank 0 finds an evaluation due it tells all; the first that comes to its evaluate_here()
// stops the world and sends its model. The shared pool of samples is a service.
//
// Reports, models and decisions are control messages: on no ledger.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/control.hpp"
#include "training/driver.hpp"

namespace hetsgd {

class RankDriver final : public Run {
 public:
  // `driver`: on rank 0 the one that keeps the record; elsewhere one whose record nobody reads. All
  // ranks make their drivers in the same order: the n-th of one talks to the n-th of the others.
  // What goes wrong on a thread of its own ends the cluster's run. initial_accuracy: rank 0's, of the
  // initial model; NaN: there is none.
  RankDriver(Control& control, Driver& driver, const DriverOptions& options, Cluster& cluster,
             Seconds peer_timeout, double initial_accuracy);
  ~RankDriver() override;

  // Called by the rank's worker before its algorithm begins, and after it has ended.
  void begin(Worker& worker);
  void end(Worker& worker);
  // After the run: on rank 0 returns when everybody's last report is in the record, with the events
  // in the order of their times. Error(runtime) if one does not come for the peer timeout.
  void await_reports();

  const Plan& plan() const override { return driver_.plan(); }
  const Model& model() const override { return driver_.model(); }
  const Sampler& sampler() const override { return driver_.sampler(); }
  std::span<const float> initial_parameters() const override {
    return driver_.initial_parameters();
  }
  bool synchronous() const override { return options_.synchronous; }
  Work gradient_work(const BatchShape& batch) const override {
    return driver_.gradient_work(batch);
  }
  GoOn running(Worker& worker) override;
  void end_budget() override { budget_ended_ = true; }
  std::uint64_t draw(std::uint64_t count) override;
  void completed(Worker& worker, std::uint64_t samples, double loss, Seconds started) override;
  void updated(Worker& worker, bool counts_for_run) override;
  void evaluate_here(Worker& worker, std::optional<std::uint64_t> samples,
                     const std::function<std::span<const float>()>& model) override;
  std::optional<double> best_accuracy(std::uint64_t from, std::uint64_t to) const override;
  void publish(int rank, Device& device, std::span<const float> replica) override;
  std::span<const float> mean_of_published() override;
  void record(Seconds time, nlohmann::json event) override;
  void observe(const std::string& histogram, std::int64_t value) override;
  void warn(const std::string& text) override;

 private:
  // What rank 0 has decided, and the last point of the curve.
  struct State {
    std::int32_t stop = 0;
    std::int32_t due = 0;       // number of the evaluation that is due; 0: none
    std::uint64_t samples = 0;  // learnt from by all, as far as rank 0 knows
    double accuracy = 0;        // of the point at `measured`; NaN: there is none
    std::uint64_t measured = 0;
  };

  class Doorkeeper;
  template <class Handle>
  void on(int message, Handle handle);
  int kind(int message) const { return first_kind_ + message; }
  void report(Worker& worker, bool last);
  void absorb(int from, std::span<const std::byte> bytes);
  void announce();
  void take(const State& state);
  void evaluate_together(Worker& worker, std::uint64_t samples, bool used_up,
                         const std::function<std::span<const float>()>& model);
  void evaluate_alone(Worker& worker, const std::function<std::span<const float>()>& model);
  void measure(Seconds time, std::uint64_t samples, bool used_up, std::span<const float> model);
  void measure_alone(Seconds time, std::span<const float> model);
  void on_model(int from, std::span<const std::byte> bytes);
  void send_replica(int to);
  // Mutex held. Error(runtime), naming `what`, when the run fails, or `limit` has passed.
  void await(std::unique_lock<std::mutex>& lock, const char* what, Seconds limit,
             const std::function<bool()>& ready);

  Control& control_;
  Driver& driver_;
  const DriverOptions options_;
  Cluster& cluster_;
  const Seconds peer_timeout_;
  const int rank_, size_;  // size: the workers
  const int first_kind_;   // of this driver's control messages
  const std::shared_ptr<Doorkeeper> doorkeeper_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  Driver::Counters pending_;  // not reported yet
  nlohmann::json events_ = nlohmann::json::array();
  std::map<std::string, std::map<std::int64_t, std::uint64_t>> histograms_;
  std::vector<std::string> warnings_;
  State state_;
  std::uint64_t own_samples_ = 0, own_steps_ = 0;
  std::uint64_t own_samples_at_state_ = 0;
  std::vector<std::pair<std::uint64_t, double>> accuracies_;  // the curve: samples, accuracy
  std::uint64_t next_evaluation_;
  std::uint64_t stated_samples_ = 0;
  std::uint64_t reports_sent_ = 0;
  std::vector<std::uint64_t> reports_;  // rank 0: received, by rank
  int ended_ = 0;                       // rank 0: ranks whose last report is here
  int evaluations_ = 0;                 // rank 0: that were due so far
  bool measured_ = false;               // the answer to a model sent to rank 0
  Published replica_;
  std::vector<std::vector<float>> gathered_;
  int gathered_count_ = 0;
  std::vector<float> mean_;

  std::atomic<bool> budget_ended_ = false;
  std::jthread evaluation_;  // rank 0: measures what another rank has sent
  class Pool;
  std::optional<ServiceClient<std::uint64_t, std::uint64_t>> pool_;
};

}  // namespace hetsgd
