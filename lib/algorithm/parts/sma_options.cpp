#include "algorithm/parts/sma_options.hpp"

#include "core/limits.hpp"

namespace hetsgd {

void SmaOptions::declare(OptionSet& set) {
  set.add("alpha", alpha,
          "share of a replica's difference to the average that is corrected per averaging; auto: "
          "1/k, k the number of learners")
      .symbol("alpha")
      .range(0, 1);
  set.add("tau", tau, "iterations from one averaging to the next")
      .unit("iterations")
      .symbol("tau")
      .range(1, kLargestRound);
  set.add("overlap", overlap, "average while the batches of the same iteration are computed");
  set.add("learners_per_device", learners_per_device,
          "learners that share a worker's device, or auto: one at first, then by its throughput")
      .unit("learners")
      .symbol("l")
      .range(1, 1024);
  set.add_choice(
      "tuner", tuner.kind,
      {{"robust", TunerKind::robust}, {"literal", TunerKind::literal}, {"stop", TunerKind::stop}},
      "learners-per-device auto: decide by medians of several measurements, by single "
      "ones, or by single ones until the first removal");
  set.add("tuner_every", tuner_every, "iterations over which the tuner measures the throughput")
      .unit("iterations")
      .range(1, kLargestRound);
  set.add_choice(
      "restart", restart,
      {{"on_plateau", Restart::on_plateau}, {"always", Restart::always}, {"never", Restart::never}},
      "begin anew at the average model at a step of the learning rate (--schedule step): if the "
      "measured accuracy has not risen since the step before, or in any case");
}

}  // namespace hetsgd
