#include "algorithm/parts/learner_tuner.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "core/error.hpp"
#include "core/median.hpp"
#include "core/options.hpp"

namespace hetsgd {

namespace {

constexpr double kRounding = 1e-9;  // of a clock: equal iterations take equal times

bool below(double throughput, double other) { return throughput < other * (1 - kRounding); }

}  // namespace

int LearnerTuner::decide(double throughput, int learners) {
  HETSGD_CHECK_LT(0, learners);
  if (options_.kind != TunerKind::robust) return decide_literally(throughput, learners);
  if (std::exchange(skip_, false)) return learners;
  window_.push_back(throughput);
  if (window_.size() < static_cast<std::size_t>(options_.window)) return learners;
  const double throughput_here = median(window_);
  window_.clear();
  return decide_by_window(throughput_here, learners);
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

LearnerCounts::LearnerCounts(Worker& self, const SmaOptions& options)
    : self_(self), o_(options), tuner_(options.tuner) {
  const int m = o_.first_learners();
  const auto size = static_cast<std::size_t>(self.size());
  set_share({.mine = m, .before = m * self.rank(), .all = m * self.size()});
  if (!self.goes_on()) decided_ = std::make_shared<Decisions>(Decisions{std::vector(size, m), {}});
}

void LearnerCounts::fields(Archive& fields) {
  fields("share", share_);
  fields("tuner", tuner_);
  fields.or_first("measured_since", measured_since_);
  fields.common("measured", measured_);  // all must tune in the same iteration
  if (fields.is_loading()) set_share(share_);
}

void LearnerCounts::count() {
  set_share(*self_.comm().agree(
      share_.mine, [](std::span<const int> all) { return std::vector(all.begin(), all.end()); }));
}

void LearnerCounts::begin(std::size_t n) {
  if (const auto decided = std::exchange(decided_, nullptr); decided && self_.rank() == 0) {
    std::vector<double> bytes;
    for (const int m : decided->learners) {
      bytes.push_back(o_.vectors(m) * static_cast<double>(n * sizeof(float)));
    }
    self_.record({{"type", "learners"},
                  {"learners", decided->learners},
                  {"alpha", alpha_},
                  {"vector_bytes", bytes},
                  {"throughput_per_s", decided->throughput}});
  }
  measured_since_ = self_.now();
  measured_ = 0;
}

bool LearnerCounts::decide() {
  if (!o_.tunes() || measured_ < o_.tuner_every) return false;
  const double batches = static_cast<double>(measured_) * share_.mine;
  const double throughput = batches / (self_.now() - measured_since_).count();
  decided_ = self_.comm().agree(Decision{tuner_.decide(throughput, share_.mine), throughput},
                                [](std::span<const Decision> decisions) {
                                  Decisions all;
                                  for (const Decision& decision : decisions) {
                                    all.learners.push_back(decision.learners);
                                    all.throughput.push_back(decision.throughput);
                                  }
                                  return all;
                                });
  set_share(decided_->learners);
  return true;
}

std::uint64_t LearnerCounts::global_batch() const {
  return static_cast<std::uint64_t>(share_.all) * self_.plan().batch_size;
}

void LearnerCounts::set_share(const std::vector<int>& learners) {
  const auto mine = learners.begin() + self_.rank();
  set_share({.mine = *mine,
             .before = std::accumulate(learners.begin(), mine, 0),
             .all = std::accumulate(learners.begin(), learners.end(), 0)});
}

void LearnerCounts::set_share(const LearnerShare& share) {
  share_ = share;
  const int averaged = o_.hierarchical() ? self_.size() : share_.all;
  const std::optional<double> fixed = o_.alpha;
  alpha_ = fixed.value_or(1.0 / std::max(2, averaged));
  local_alpha_ = fixed.value_or(1.0 / (share_.mine + 1));
  warn_if_unstable(alpha_, averaged, o_.mu);
  if (o_.hierarchical() && share_.mine > 1) warn_if_unstable(local_alpha_, share_.mine - 1, 0);
}

// An average and k replicas without gradients swing with growing amplitude unless
// alpha < 2 (1 + mu) / (1 + k + mu).
void LearnerCounts::warn_if_unstable(double alpha, int k, double mu) {
  const double bound = 2 * (1 + mu) / (1 + k + mu);
  if (self_.rank() != 0 || warned_ || alpha < bound) return;
  warned_ = true;
  self_.warn(fmt::format("--alpha: {:.6g} is unstable for {} replicas; choose a value below {:.6g}",
                         alpha, k, bound));
}

}  // namespace hetsgd
