#include "algorithm/parts/learner_tuner.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "core/limits.hpp"

namespace hetsgd {

namespace {

constexpr double kRounding = 1e-9;  // of a clock: equal iterations take equal times

bool below(double throughput, double other) { return throughput < other * (1 - kRounding); }

double median_of(std::vector<double>& values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

int LearnerTuner::decide(double throughput, int learners) {
  HETSGD_CHECK_LT(0, learners);
  if (options_.kind != TunerKind::robust) return decide_literally(throughput, learners);
  if (std::exchange(skip_, false)) return learners;
  window_.push_back(throughput);
  if (window_.size() < static_cast<std::size_t>(options_.window)) return learners;
  const double median = median_of(window_);
  window_.clear();
  return decide_by_window(median, learners);
}

int LearnerTuner::decide_literally(double throughput, int learners) {
  if (ended_) return learners;
  const double before = std::exchange(before_, throughput);                    // t'_g; line 8
  if (throughput - before > options_.threshold * before) return learners + 1;  // line 6
  if (!below(throughput, before)) return learners;
  ended_ = options_.kind == TunerKind::stop;
  return std::max(1, learners - 1);  // line 7
}

int LearnerTuner::decide_by_window(double throughput, int learners) {
  if (climbing_ && throughput - before_ > options_.threshold * before_) {
    return change_to(learners + 1, throughput, 0, true);
  }
  if (std::exchange(climbing_, false)) here_ = throughput;
  const Verdict verdict = verdict_on(throughput);
  if (std::abs(throughput - here_) <= options_.threshold * here_) {
    here_ += (throughput - here_) / ++windows_;
  }
  agreed_ = verdict == verdict_ ? agreed_ + 1 : 1;
  verdict_ = verdict;
  if (verdict == Verdict::none || agreed_ < options_.agree) return learners;
  const int fewer = std::max(1, learners - 1);
  if (verdict == Verdict::too_many) return change_to(fewer, 0, before_, false);
  return change_to(fewer, 0, 0, true);
}

LearnerTuner::Verdict LearnerTuner::verdict_on(double throughput) const {
  if (throughput < (1 - options_.threshold) * here_) return Verdict::slower;
  if (throughput > (1 + options_.threshold) * here_) return Verdict::faster;
  return below(throughput, before_) ? Verdict::too_many : Verdict::none;
}

int LearnerTuner::change_to(int learners, double before, double here, bool climbing) {
  before_ = before;
  here_ = here;
  windows_ = climbing ? 0 : 1;
  climbing_ = climbing;
  verdict_ = Verdict::none;
  agreed_ = 0;
  skip_ = true;
  return learners;
}

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
