// Changed durations for a replay: `hetsgd replay --without ...`, --speed, --network.
//
// The ideal run has no stragglers. A computation takes the mean seconds per unit of work, over all
// workers and iterations, times its work. The unit is the time of the work on an undisturbed device
// (training/replay/work_times.hpp). Another call takes the median of its kind, bytes and number of
// members. Source of the idea: Lin et al. 2025, "Understanding Stragglers in Large Model Training
// Using What-if Analysis".
#pragma once

#include <string>
#include <vector>

#include "experiment/replay/retiming.hpp"
#include "training/replay/work_times.hpp"

namespace hetsgd {

// The kind of a call, by which time is attributed: the name of a computation ("step", "vector",
// ...), "communicate" or "service"; "" for a call that has no ideal time: a wait for a monitor, an
// evaluation, a sleep.
std::string kind_of_call(const TraceRange& range);

class WhatIf {
 public:
  // Refers to `retiming`.
  explicit WhatIf(const Retiming& retiming);

  // The kinds of the calls in the record, in the order in which they first come.
  const std::vector<std::string>& kinds() const { return kinds_; }
  const PerCall& recorded() const { return retiming_.own(); }
  const PerCall& ideal() const { return ideal_; }
  // The times of `some` for the calls of one worker, or of one kind, and those of `others` for the
  // rest.
  PerCall of_worker(int rank, const PerCall& some, const PerCall& others) const;
  PerCall of_kind(const std::string& kind, const PerCall& some, const PerCall& others) const;

  // Applies one --without to `times`. Errors: usage.
  void leave_out(const std::string& what, PerCall& times) const;
  // Divides the computations of each worker by its speed, relative to the record; the last one
  // repeats. Delays stay.
  void change_speed(const std::vector<double>& speed, PerCall& times) const;
  // Scales each collective and message by its cost on the network over that on the recorded one.
  // Errors: usage, if the record has no network because its time is real.
  void change_network(const std::string& name_or_path, PerCall& times) const;

 private:
  template <class Takes>
  PerCall mixed(const PerCall& some, const PerCall& others, Takes takes) const;
  template <class Fn>
  void each_call(Fn fn) const;
  void make_ideal_computations();
  void make_ideal_calls();

  const Retiming& retiming_;
  const Timeline& timeline_;
  std::vector<std::string> kinds_;
  PerCall ideal_;
};

// Where the time of a run went, compared with the run without stragglers.
struct Attribution {
  struct Part {
    int rank = -1;     // of a worker; -1: a kind
    std::string name;  // "worker 2", "step"
    // T_ideal with this part as recorded, over T_ideal: how much this part alone slows the ideal
    // run down.
    double slowdown = 1;
    // (T - T with only this part made ideal) / (T - T_ideal): how much of the lost time its mending
    // gives back. 0 if no time is lost.
    double share = 0;
  };
  Seconds total{0}, ideal{0};
  double slowdown() const { return ideal > Seconds(0) ? total / ideal : 1; }
  double gap_share = 0;
  std::uint64_t negative_gaps = 0;
  // The algorithm decides by measured times or by the order of arrival, and a replay keeps the
  // recorded decisions.
  bool decisions_frozen = false;
  std::vector<Part> workers = {}, kinds = {};  // the largest slowdown first
};

// Above this gap_share the gaps between calls may hide the cause of a slowdown.
inline constexpr double kLargeGapShare = 0.05;

Attribution attribute(const Retiming& retiming, const WhatIf& what_if);
// Whether a run of this algorithm makes the same calls whatever the times.
bool keeps_decisions(const std::string& algorithm);

}  // namespace hetsgd
