// The state of a run between two segments, and how workers keep it.
//
// An algorithm keeps what it must know from one iteration to the next in an object with fields()
// (core/archive.hpp), which Worker::state() makes. At the end of a segment, when all processes have
// returned, the fields of all objects are saved. A later segment makes the objects anew and loads
// them, whether this process has saved them or another one that was killed. So a run that is
// interrupted makes the same steps as one that is not.
//
//   segment k      state(make) ── kept ── the workers train ── all have returned ── save() ─┐
//   segment k + 1  state(make) ── loaded <───────────────────────────── SavedRun <──────────┘
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/segment.hpp"
#include "core/archive.hpp"

namespace hetsgd {

// The state that the next segment of a run starts from, as far as it belongs to this process.
struct SavedRun {
  SavedFields common;                  // equal on all workers
  std::map<int, SavedFields> workers;  // by number in the run; of this process, and any others
  SavedFields shared;                  // objects that workers share
  SavedFields run;                     // the driver's: record, budget, measurements
  SavedFields cluster;                 // services and simulated links
  std::vector<WorkerStart> start;      // by number in the run
  std::vector<int> view;               // of the segment that has ended, with lost workers
  std::vector<int> with_state;         // the workers of these that have a state, in any process;
                                       // ascending
  std::uint64_t samples = 0;           // that the model has learnt from
};

// The objects whose fields are the state of one segment. Thread-safe.
class RunState {
 public:
  // from: what the segment goes on from, which outlives this object; null: the state is that of the
  // start of a run. is_saved: whether the run may be saved, so that workers must keep their state.
  // view: the workers of the segment, ascending.
  RunState(const SavedRun* from, bool is_saved, std::vector<int> view);

  bool goes_on() const { return from_ != nullptr; }
  // Workers are named by their number in the run. Keeps an object of a worker until save(), under a
  // name of its own. A later segment loads it here.
  template <class T>
  void keep(int worker, const std::string& name, std::shared_ptr<T> object) {
    T* const state = object.get();
    add({worker, name, std::move(object), [state](Archive& fields) { state->fields(fields); }});
  }
  // The same for an object that workers share.
  template <class T>
  void keep_shared(const std::string& name, std::shared_ptr<T> object) {
    keep(kShared, name, std::move(object));
  }
  // The same at once, for an object of a worker that does not outlive the segment: load() when it
  // begins, save() when it ends.
  template <class T>
  void load(int worker, const std::string& name, T& object) {
    if (goes_on()) load({worker, name, nullptr, [&](Archive& fields) { object.fields(fields); }});
  }
  template <class T>
  void save(int worker, const std::string& name, T& object) {
    add_saved({worker, name, nullptr, [&](Archive& fields) { object.fields(fields); }});
  }
  // Whether the worker has kept a state, and whether it may begin: it has, or the run is never
  // saved.
  bool has_kept(int worker) const;
  bool may_begin(int worker) const { return !is_saved_ || has_kept(worker); }

  // Saves the fields of all objects and lets the objects go. To be called when all processes have
  // returned. The state of lost workers is left out; the common fields are then those of the first
  // worker that was not lost. SavedRun::with_state is that of the workers of this process. Throws
  // CheckFailure if a common field differs between workers.
  void save(SavedRun& to, const std::vector<int>& lost = {});
  // Whether the worker has lost the algorithm's state: only counts of its own are kept.
  bool joins(int worker) const;
  // The workers of the segment, by rank.
  const std::vector<int>& view() const { return view_; }
  // How the workers of this segment differ from those that the state was saved with; null: not.
  const OtherWorkers* other_workers() const { return other_ ? &*other_ : nullptr; }

 private:
  static constexpr int kShared = -1;
  struct Kept {
    int worker;
    std::string name;
    std::shared_ptr<void> object;
    std::function<void(Archive&)> fields;
  };
  struct Named;
  void add(Kept kept);
  void add_saved(Kept kept);
  void load(Kept kept);

  const SavedRun* const from_;
  const bool is_saved_;
  const std::vector<int> view_;
  std::optional<OtherWorkers> other_;
  mutable std::mutex mutex_;
  std::vector<Kept> kept_;
  std::map<int, SavedFields> saved_;  // by save() of one object
};

}  // namespace hetsgd
