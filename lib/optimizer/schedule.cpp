#include "optimizer/schedule.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace hetsgd {

void Schedule::declare(OptionSet& set) {
  set.add_choice("schedule", kind,
                 {{"constant", ScheduleKind::constant},
                  {"linear", ScheduleKind::linear},
                  {"step", ScheduleKind::step},
                  {"inverse_time", ScheduleKind::inverse_time}},
                 "How the learning rate changes over the epochs.");
  set.add("warmup_epochs", warmup_epochs,
          "Length of the linear warm-up of the learning rate from 0.")
      .unit("epochs")
      .at_least(0);
  set.add("decay_epochs", decay_epochs, "Epoch at which the learning rate reaches 0.")
      .unit("epochs")
      .at_least(0)
      .needs("schedule", {"linear"});
  set.add("step_epochs", step_epochs,
          "Epochs at which the learning rate is multiplied by --step-factor, for example 10,15.")
      .unit("epochs")
      .needs("schedule", {"step"});
  set.add("step_factor", step_factor, "Factor on the learning rate at each of --step-epochs.")
      .range(0, 1)
      .needs("schedule", {"step"});
  set.add("inverse_rate", inverse_rate,
          "Decay d per epoch. The learning rate is divided by 1 + d * epoch.")
      .symbol("d")
      .at_least(0)
      .needs("schedule", {"inverse_time"});
}

void Schedule::validate() const {
  if (kind == ScheduleKind::linear && decay_epochs <= warmup_epochs) {
    throw usage_error(
        "--decay-epochs: found {}, expected more than --warmup-epochs {} for --schedule linear",
        decay_epochs, warmup_epochs);
  }
  if (kind == ScheduleKind::step && step_epochs.empty()) {
    refuse("--step-epochs", "none", "some for --schedule step, such as --step-epochs 10,15");
  }
}

double Schedule::factor(double epoch) const {
  const double warmup = epoch < warmup_epochs ? epoch / warmup_epochs : 1.0;
  switch (kind) {
    case ScheduleKind::constant:
      return warmup;
    case ScheduleKind::linear:
      return std::min(
          warmup, std::clamp((decay_epochs - epoch) / (decay_epochs - warmup_epochs), 0.0, 1.0));
    case ScheduleKind::step: {
      double factor = warmup;
      for (const double at : step_epochs) factor *= epoch >= at ? step_factor : 1.0;
      return factor;
    }
    case ScheduleKind::inverse_time:
      return warmup / (1.0 + inverse_rate * epoch);
  }
  return warmup;
}

}  // namespace hetsgd
