#include "optimizer/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.hpp"

namespace hetsgd {

void Schedule::declare(OptionSet& set) {
  set.add_choice("schedule", kind,
                 {{"constant", ScheduleKind::constant},
                  {"linear", ScheduleKind::linear},
                  {"cosine", ScheduleKind::cosine},
                  {"step", ScheduleKind::step},
                  {"inverse_time", ScheduleKind::inverse_time},
                  {"polynomial", ScheduleKind::polynomial},
                  {"inverse_sqrt", ScheduleKind::inverse_sqrt}},
                 "How the learning rate changes over the epochs.");
  set.add("warmup_epochs", warmup_epochs,
          "Length of the linear warm-up of the learning rate. It begins at 0, so that the first "
          "step moves no parameter.")
      .unit("epochs")
      .at_least(0)
      .excludes("warmup_share");
  set.add("warmup_share", warmup_share,
          "Length of the linear warm-up as a share of --decay-epochs, or of the run for schedules "
          "without an end.")
      .range(0, 1)
      .excludes("warmup_epochs");
  set.add("decay_epochs", decay_epochs,
          "Epoch at which the learning rate reaches its end, 0 or --lr-floor. auto: the end of the "
          "run, as --epochs or --max-samples states it.")
      .unit("epochs")
      .at_least(0)
      .or_zero()
      .needs("schedule", {"linear", "cosine", "polynomial"});
  set.add("lr_floor", lr_floor, "Share of the learning rate that is left at the end of the cosine.")
      .range(0, 1)
      .needs("schedule", {"cosine"});
  set.add("decay_power", decay_power, "Exponent of the polynomial decay. 1 is the linear schedule.")
      .range(0, 100)
      .above(0)
      .needs("schedule", {"polynomial"});
  set.add_choice("decay_from", decay_from,
                 {{"warmup", DecayFrom::warmup}, {"start", DecayFrom::start}},
                 "Epoch from which the polynomial decay counts. With start the learning rate drops "
                 "at the end of the warm-up to what it would be without one.")
      .needs("schedule", {"polynomial"});
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
  if (warmup_share > 0 && warmup_epochs > 0) {
    refuse("--warmup-share",
           fmt::format("{} beside --warmup-epochs {}", warmup_share, warmup_epochs),
           "one of the two");
  }
  if (decays() && decay_epochs) of_run(*decay_epochs);
  if (kind == ScheduleKind::step && step_epochs.empty()) {
    refuse("--step-epochs", "none", "some for --schedule step, such as --step-epochs 10,15");
  }
  if (kind == ScheduleKind::inverse_sqrt && warmup_epochs == 0 && warmup_share == 0) {
    refuse("--warmup-epochs", "0", "more for --schedule inverse_sqrt, whose decay it sets",
           "use --warmup-epochs 1, or --warmup-share 0.1");
  }
}

Schedule Schedule::of_run(double epochs) const {
  Schedule result = *this;
  if (!decays()) {
    result.decay_epochs.reset();
  } else if (!decay_epochs) {
    result.decay_epochs = epochs;
  }
  const double end = result.decay_epochs.value_or(epochs);
  if (end == 0 && (decays() || warmup_share > 0)) {
    refuse(decays() ? "--decay-epochs" : "--warmup-share",
           "a run whose length is given as --max-time alone", "--epochs or --max-samples",
           "give --decay-epochs and --warmup-epochs as numbers");
  }
  if (warmup_share > 0) result.warmup_epochs = warmup_share * end;
  result.warmup_share = 0;
  if (decays() && end <= result.warmup_epochs) {
    throw usage_error(
        "--decay-epochs: found {}, expected more than the warm-up of {} epochs for --schedule {}",
        end, result.warmup_epochs,
        kind == ScheduleKind::linear   ? "linear"
        : kind == ScheduleKind::cosine ? "cosine"
                                       : "polynomial");
  }
  return result;
}

double Schedule::factor(double epoch) const {
  const double warmup = epoch < warmup_epochs ? epoch / warmup_epochs : 1.0;
  switch (kind) {
    case ScheduleKind::constant:
      return warmup;
    case ScheduleKind::linear: {
      const double end = decay_epochs.value();
      return std::min(warmup, std::clamp((end - epoch) / (end - warmup_epochs), 0.0, 1.0));
    }
    case ScheduleKind::cosine: {
      if (epoch < warmup_epochs) return warmup;
      const double end = decay_epochs.value();
      const double done = std::min(1.0, (epoch - warmup_epochs) / (end - warmup_epochs));
      return lr_floor + (1 - lr_floor) * (1 + std::cos(std::numbers::pi * done)) / 2;
    }
    case ScheduleKind::polynomial: {
      if (epoch < warmup_epochs) return warmup;
      const double from = decay_from == DecayFrom::start ? 0 : warmup_epochs;
      const double end = decay_epochs.value();
      return std::pow(std::clamp((end - epoch) / (end - from), 0.0, 1.0), decay_power);
    }
    case ScheduleKind::inverse_sqrt:
      return epoch < warmup_epochs ? warmup : std::sqrt(warmup_epochs / epoch);
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
