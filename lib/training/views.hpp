// Views: the workers that take part in each segment of a run, if workers are lost and return
// (cluster/segment.hpp). They follow from the straggler scenario alone, so every process knows
// them.
#pragma once

#include <vector>

#include "cluster/straggler.hpp"
#include "core/units.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

class Views {
 public:
  // Begins with the workers that live at the start. If there are none, or the run restarts after a
  // loss, it begins with all, and the first segment notices the losses. The scenario outlives it.
  Views(const Scenario& scenario, int workers, const TrainOptions& options);

  // The workers of the next segment, ascending.
  const std::vector<int>& view() const { return view_; }
  // When another worker returns, so that the segment ends; infinite: none does.
  Seconds next_return() const;
  // The view of a run that is resumed at `time`.
  void resume(std::vector<int> view, Seconds time);
  // The view from `time` on: all workers that live then, and those of the view before that are not
  // known to be lost, which the next segment will notice. Returns those that join, among them lost
  // ones of the view before that are back already.
  std::vector<int> update(Seconds time, const std::vector<int>& lost = {});
  // The view of a run that begins anew at `time`: all workers that live then.
  void restart(Seconds time) { resume(alive(time), time); }
  // After a loss: when the next segment begins, not before `time`. It begins at once, or with
  // --on-loss restart when all lost workers are back. If no worker lives it begins at the first
  // return. Throws Error(runtime) if a worker that is needed never returns.
  Seconds goes_on_at(Seconds time) const;
  // True: the segment that begins at `time`, after the loss of these workers of the view, begins
  // with the state of the last cut, not with that of the workers that are left.
  bool restarts(const std::vector<int>& lost, Seconds time) const;

 private:
  std::vector<int> alive(Seconds time) const;
  Seconds return_of(int worker, Seconds time) const;

  const Scenario& scenario_;
  const int workers_;
  const OnLoss on_loss_;
  const Seconds restart_time_;
  std::vector<int> view_;
  Seconds time_{0};  // since when it is the view
};

// Throws Error(usage) unless the run can go on without a worker.
void check_losses(const Scenario& scenario, const TrainOptions& options);

}  // namespace hetsgd
