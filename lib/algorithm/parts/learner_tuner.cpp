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
          "Share of its difference to the average model by which a replica is corrected at an "
          "averaging. auto: 1 / number of learners.")
      .symbol("alpha")
      .range(0, 1);
  set.add("tau", tau, "Number of iterations between two averagings.")
      .unit("iterations")
      .symbol("tau")
      .range(1, kLargestRound);
  set.add("overlap", overlap,
          "Average replicas while the mini-batches of the same iteration are computed.");
  set.add("learners_per_device", learners_per_device,
          "Number of learners that share a worker's device. auto: one at first, then adapted to "
          "the measured throughput.")
      .unit("learners")
      .symbol("l")
      .range(1, 1024);
  set.add_choice(
      "tuner", tuner.kind,
      {{"robust", TunerKind::robust}, {"literal", TunerKind::literal}, {"stop", TunerKind::stop}},
      "How --learners-per-device auto decides. robust takes medians of several measurements, "
      "literal single ones, and stop single ones until the first removal.");
  set.add("tuner_every", tuner_every,
          "Number of iterations over which --learners-per-device auto measures the throughput.")
      .unit("iterations")
      .range(1, kLargestRound);
  set.add_choice(
      "restart", restart,
      {{"on_plateau", Restart::on_plateau}, {"always", Restart::always}, {"never", Restart::never}},
      "When replicas restart from the average model at a step of --schedule step. on_plateau: only "
      "if the accuracy has not risen since the previous step.");
}

}  // namespace hetsgd
