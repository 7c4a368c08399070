// SharedModel: one model in host memory that several workers of a process read and write at the
// same time, without a lock (Hogwild). Also how a step on it is made.
//
//                  threads                               sim
//   step begins    -                                     read:  what the step reads -> own, seen
//   computing      the fused step on w itself (racy)     fn:    the fused step on own
//   step ends      -                                     write: w <- own, or w + (own - seen)
//
// Threads read and write w in place with the kernels that sgd has, by plain loads and stores. In
// C++ this is a data race, made on purpose. It happens only below racy::step() and racy::average(),
// which have a file of their own (shared_model_racy.cpp, named in tests/tsan.supp). No value that
// is read from w becomes an index or a length there.
//
// A device with a memory of its own, a GPU, pulls a replica of the model, steps there, and adds its
// move to the model (PulledReplica, below).
//
// `sim` models lock-free interleaving as bounded delay with consistent reads: an update is computed
// at the w of its start, and lands whole at its end. An element that no other worker has moved
// meanwhile gets the bits of sgd. Torn reads, lost additions and the coherence of caches are not
// modelled.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "algorithm/worker.hpp"

namespace hetsgd {

// Checks that workers can learn side by side in one model and read and write its rows as a batch
// touches them. Throws Error(usage) for a model with hash tables, because other workers would move
// its weights meanwhile.
void check_shareable(const Model& model);

class SharedModel {
 public:
  // n parameters without values yet, for `workers` workers, which must all join. `monitor` is any
  // worker's.
  SharedModel(std::size_t n, int workers, std::unique_ptr<Monitor> monitor);

  // Each worker calls this once. Writes slice `part` of `parts` equal ones of the initial
  // parameters, whose memory then lies where this worker runs, and returns when all have joined.
  // part == parts: only waits. Without initial parameters the model was loaded. Returns true for
  // the last worker. Takes no time on the clock in sim.
  bool join(std::size_t part, std::size_t parts, std::span<const float> initial);

  std::span<float> w() { return {w_.get(), n_}; }
  // Updates so far.
  std::uint64_t writes() const { return writes_.load(std::memory_order_relaxed); }
  // Counts one more update; returns the number before it.
  std::uint64_t count_write() { return writes_.fetch_add(1, std::memory_order_relaxed); }
  // While no worker steps.
  void fields(Archive& fields);

 private:
  struct Release {
    void operator()(float* memory) const noexcept;
  };
  const std::size_t n_;
  const int workers_;
  std::unique_ptr<float[], Release> w_;
  std::atomic<std::uint64_t> writes_{0};
  std::unique_ptr<Monitor> monitor_;
  int joined_ = 0;  // guarded by monitor_
};

// The elements of a shared model that a step reads, and their new values: a worker's own memory.
class SharedSnapshot {
 public:
  // Both arguments outlive the snapshot. Memory of 2 n elements; a step uses only the touched rows
  // and the dense blocks.
  SharedSnapshot(const Model& model, Device& device);

  // own, seen <- w, where a step of this batch reads or writes.
  void read(ModelContext& context, const Batch& batch, std::span<const float> w);
  // The fused step on own; returns the mean loss before it.
  double step(ModelContext& context, const Batch& batch, float learning_rate);
  // w <- own if w is what was read, else w + (own - seen), element by element.
  void write(std::span<float> w) const;

 private:
  // Calls fn(begin, count) for the runs of elements that the last batch reads or writes.
  template <class Fn>
  void for_each_run(const Fn& fn) const;

  const Model& model_;
  Buffer own_, seen_;
  std::vector<std::vector<Index>> rows_;  // touched, of each row-sparse block
};

// A shared model's copy on a device with a memory of its own, between a pull and the return of its
// move:
//
//   shared w ---- pull ----> pulled ---- over the link ----> replica.w
//      ^                        |                                | steps
//      '---- + (moved - pulled) '---- moved <--- over the link --'
//
// In sim a pull reads w at its start, and a move lands whole at its end.
struct PulledReplica {
  Replica replica;
  std::vector<float> pulled;  // [n], host memory
  HostScratch moved;          // replica.w in host memory, if the host cannot read it in place
  std::uint64_t writes = 0;   // writes to the shared model before the pull
};

// w <- moved if w is what was pulled, else w + (moved - pulled), element by element. Elements that
// have not moved are not written, unless they share a cache line with one that has.
void land_move(std::span<const float> moved, std::span<const float> pulled, std::span<float> w);

// Writes the mean of several shared models, added in rank order, to each of them.
class SharedAverage {
 public:
  explicit SharedAverage(std::vector<std::span<float>> models) : models_(std::move(models)) {}
  void read();
  void compute();
  void write() const;

 private:
  std::vector<std::span<float>> models_;
  std::vector<std::vector<float>> seen_;
  std::vector<float> mean_;
};

// mean <- the mean of the models, added in their order. All of one length.
void mean_in_order(std::span<const std::span<float>> models, std::span<float> mean);

// A worker's calls on shared models, besides those of Worker: one object for each worker, which
// outlives it. For algorithms of one process (AlgorithmInfo::one_process_only).
class SharedWorker {
 public:
  explicit SharedWorker(Worker& self)
      : self_(self), context_(self.model().make_context(self.device())) {}

  // A model at the initial parameters. This worker writes slice `part` of `parts`, so that the
  // memory of the slice lies near a worker that uses it (part == parts: none). All workers of the
  // run must call it; it returns when all have. Not charged: set-up.
  std::shared_ptr<SharedModel> join(const std::string& name, std::size_t part, std::size_t parts);
  // The only model of all workers.
  std::shared_ptr<SharedModel> join() {
    return join("model", static_cast<std::size_t>(self_.rank()),
                static_cast<std::size_t>(self_.size()));
  }

  // One iteration on a model that other workers read and write meanwhile: learn() on w itself, by
  // plain SGD, on a CPU. Histogram "staleness" counts the updates of w by others between its
  // reading and its writing. Returns the batch's mean loss.
  double step(const Batch& batch, double learning_rate, SharedModel& shared);

  // The same for a device with a memory of its own: pull(), Worker::learn() on the replica, then
  // one of the two calls that bring its move back. Each of the three is charged, as communication,
  // with a copy of n elements over the device's link to the host. After the last two, histogram
  // "staleness" counts the updates of w by others since the pull.
  PulledReplica pulled_replica();  // not charged: set-up
  void pull(SharedModel& shared, PulledReplica& mine);
  void add_move(PulledReplica& mine, SharedModel& shared);  // w <- w + (replica.w - pulled)
  // w <- replica.w: writes by others since the pull are lost.
  void overwrite(PulledReplica& mine, SharedModel& shared);

  // Writes the mean of the models, added in the order given, to each of them, while others step on
  // them. Charged as reading and writing all of them.
  void average(std::span<const std::shared_ptr<SharedModel>> models);

 private:
  double charged_bytes() const;  // of a copy of the model over the device's link
  void transfer(const InPlaceComputation& how);
  // Copies replica.w to the host, where land(moved, pulled, w) merges it into the model.
  using LandMove = void (*)(std::span<const float>, std::span<const float>, std::span<float>);
  void bring_back(PulledReplica& mine, SharedModel& shared, LandMove land);

  Worker& self_;
  std::unique_ptr<ModelContext> context_;   // scratch of step()
  std::optional<SharedSnapshot> snapshot_;  // if step() needs one
};

// Functions on memory that others read and write meanwhile, all in shared_model_racy.cpp.
namespace racy {
double step(const Model& model, ModelContext& context, const Batch& batch, float learning_rate,
            std::span<float> w);
void average(std::span<const std::span<float>> models);
void pull(std::span<const float> w, std::span<float> pulled);
void add(std::span<const float> moved, std::span<const float> pulled, std::span<float> w);
void overwrite(std::span<const float> moved, std::span<float> w);
}  // namespace racy

}  // namespace hetsgd
