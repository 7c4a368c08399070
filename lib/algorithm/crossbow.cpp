#include "algorithm/crossbow.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace hetsgd {

Crossbow::Crossbow(Worker& self, const CrossbowOptions& options)
    : self_(self),
      o_(options),
      z_(self.initial_parameters()),
      sum_(self, options.overlap),
      tuner_(options.tuner, options.tuner_threshold) {
  if (o_.mu != 0) z_prev_ = self.initial_parameters();  // z_prev = z: no momentum at first
  const int m = o_.first_learners();
  for (int j = 0; j < m; ++j) {
    learners_.push_back(self.make_learner());
    d_.push_back(self.vector());
  }
  set_share({.mine = m, .before = m * self.rank(), .all = m * self.size()});
  if (self.rank() == 0) record_learners(std::vector(static_cast<std::size_t>(self.size()), m), {});
  measured_since_ = self.now();
}

void Crossbow::train() {
  while (self_.running()) {
    restart_if_due(epoch());
    samples_before_ = samples_;
    for (std::uint64_t left = iterations_until_average(); left > 0; --left) {
      iteration(epoch(), left == 1);
    }
    tune();
    self_.evaluate_here(z_, samples_);
  }
  sum_.close();
}

// tau, or less where the budget ends.
std::uint64_t Crossbow::iterations_until_average() const {
  const std::uint64_t budget = self_.plan().max_samples;
  if (budget <= samples_) return o_.tau;
  const std::uint64_t global_batch =
      static_cast<std::uint64_t>(share_.all) * self_.plan().batch_size;
  return std::min(o_.tau, (budget - samples_ + global_batch - 1) / global_batch);
}

double Crossbow::epoch() const {
  return static_cast<double>(samples_) / static_cast<double>(self_.plan().rows);
}

// Algorithm 1, lines 4 to 13.
void Crossbow::iteration(double epoch, bool synchronise) {
  const std::uint64_t b = self_.plan().batch_size;
  const std::span<const Batch> batches = self_.next_batches(b, share_);  // lines 6, 7
  if (synchronise) {
    differences();  // line 9
    sum_.start();
  }
  self_.step(batches, self_.learning_rate(b, epoch), learners_);  // lines 8, 10
  if (synchronise) {
    correct();  // line 10
    sum_.finish(self_);
    update_average();  // lines 12, 13
    if (self_.rank() == 0) self_.observe("contributors", share_.all);
  }
  samples_ += static_cast<std::uint64_t>(share_.all) * b;
  ++measured_;
}

// What learner j is averaged with: z, or the device's reference model, learner 0's replica.
const Buffer& Crossbow::partner(std::size_t j) const {
  return hierarchical() && j > 0 ? learners_.front().w : z_;
}

// d_j <- w_j - partner, and this device's part of sum_j c_j, of those that are averaged with z.
void Crossbow::differences() {
  Device& device = self_.device();
  const std::size_t n = z_.size(), m = learners_.size();
  self_.compute_vectors(
      5,
      [&] {
        for (std::size_t j = 0; j < m; ++j) {
          device.copy(n, learners_[j].w.data(), d_[j].data());
          device.axpby(n, -1.0F, partner(j).data(), 1.0F, d_[j].data());
        }
      },
      static_cast<int>(m));
  const std::size_t averaged = hierarchical() ? 1 : m;
  self_.compute_vectors(3 * static_cast<double>(averaged) - 1, [&] {
    for (std::size_t j = 0; j < averaged; ++j) {
      device.axpby(n, static_cast<float>(alpha_), d_[j].data(), j == 0 ? 0.0F : 1.0F,
                   sum_.x().data());
    }
  });
}

// w_j <- w_j - c_j; a reference model takes in the corrections of its further learners.
void Crossbow::correct() {
  Device& device = self_.device();
  const std::size_t n = z_.size(), m = learners_.size();
  self_.compute_vectors(
      3,
      [&] {
        for (std::size_t j = 0; j < m; ++j) {
          device.axpby(n, -static_cast<float>(rate(j)), d_[j].data(), 1.0F, learners_[j].w.data());
        }
      },
      static_cast<int>(m));
  if (!hierarchical() || m == 1) return;
  self_.compute_vectors(3 * static_cast<double>(m - 1), [&] {
    for (std::size_t j = 1; j < m; ++j) {
      device.axpby(n, static_cast<float>(local_alpha_), d_[j].data(), 1.0F,
                   learners_.front().w.data());
    }
  });
}

// z' = z + sum_j c_j + mu (z - z_prev);  z_prev <- z;  z <- z'.
void Crossbow::update_average() {
  if (o_.mu == 0) return self_.axpby(1, sum_.x(), 1, z_);
  self_.axpby(1, z_, 1, sum_.x());
  self_.momentum_merge(sum_.x(), o_.mu, z_, z_prev_);
}

// Section 3.2, last paragraph: algorithm 1 again with z as the initial model.
void Crossbow::restart_if_due(double epoch) {
  const Schedule& schedule = self_.plan().schedule;
  if (o_.restart == Restart::never || schedule.kind != ScheduleKind::step) return;
  const auto steps = static_cast<std::size_t>(
      std::ranges::count_if(schedule.step_epochs, [&](double at) { return epoch >= at; }));
  if (steps == rate_steps_) return;
  const auto before = self_.best_accuracy(0, rate_step_at_);
  const auto since = self_.best_accuracy(rate_step_at_ + 1, samples_before_);
  rate_steps_ = steps;
  rate_step_at_ = samples_;
  const bool plateau = before && since && *since <= *before;
  if (o_.restart == Restart::on_plateau && !plateau) return;
  if (self_.rank() == 0) {
    self_.record({{"type", "restart"},
                  {"samples", samples_},
                  {"accuracy_before", before ? nlohmann::json(*before) : nullptr},
                  {"accuracy_since", since ? nlohmann::json(*since) : nullptr}});
  }
  for (Learner& learner : learners_) {
    self_.copy(z_, learner.w);
    if (learner.optimizer) learner.optimizer = self_.make_optimizer(self_.device());
  }
  if (o_.mu != 0) self_.copy(z_, z_prev_);
}

// Algorithm 2, lines 4 to 8; every device decides for itself and tells the others.
void Crossbow::tune() {
  if (!o_.tunes() || measured_ < o_.tuner_every) return;
  struct Decision {
    int learners;
    double throughput;  // batches per second
  };
  const double batches = static_cast<double>(measured_) * share_.mine;
  const double throughput = batches / (self_.now() - measured_since_).count();
  struct Decisions {
    std::vector<int> learners, before{0};  // before: on devices of lower ranks, and on all
    std::vector<double> throughput;
  };
  const auto decided =
      self_.comm().agree(Decision{tuner_.decide(throughput, share_.mine), throughput},
                         [](std::span<const Decision> decisions) {
                           Decisions all;
                           for (const Decision& decision : decisions) {
                             all.learners.push_back(decision.learners);
                             all.before.push_back(all.before.back() + decision.learners);
                             all.throughput.push_back(decision.throughput);
                           }
                           return all;
                         });
  const auto r = static_cast<std::size_t>(self_.rank());
  set_share(
      {.mine = decided->learners[r], .before = decided->before[r], .all = decided->before.back()});
  resize(share_.mine);
  if (self_.rank() == 0) record_learners(decided->learners, decided->throughput);
  measured_since_ = self_.now();
  measured_ = 0;
}

// A new learner starts at z; one that goes leaves what it has learnt in z.
void Crossbow::resize(int learners) {
  const auto m = static_cast<std::size_t>(learners);
  while (learners_.size() > m) {
    learners_.pop_back();
    d_.pop_back();
  }
  while (learners_.size() < m) {
    learners_.push_back(self_.make_learner());
    d_.push_back(self_.vector());
    self_.copy(z_, learners_.back().w);
  }
}

void Crossbow::set_share(const LearnerShare& share) {
  share_ = share;
  const std::optional<double> fixed = o_.fixed_alpha();
  alpha_ = fixed.value_or(1.0 / std::max(2, hierarchical() ? self_.size() : share_.all));
  local_alpha_ = fixed.value_or(1.0 / (share_.mine + 1));
  warn_if_unstable();
}

// An average and k replicas without gradients swing with growing amplitude unless
// alpha < 2 (1 + mu) / (1 + k + mu).
void Crossbow::warn_if_unstable() {
  if (self_.rank() != 0) return;
  const auto check = [&](double alpha, int k, double mu) {
    const double bound = 2 * (1 + mu) / (1 + k + mu);
    if (alpha < bound || warned_) return;
    warned_ = true;
    self_.warn(
        fmt::format("alpha {:.6g} with {} replicas to average: stable is below {:.6g}, see "
                    "--alpha",
                    alpha, k, bound));
  };
  check(alpha_, hierarchical() ? self_.size() : share_.all, o_.mu);
  if (hierarchical() && share_.mine > 1) check(local_alpha_, share_.mine - 1, 0);
}

// Rank 0 records for all.
void Crossbow::record_learners(const std::vector<int>& learners,
                               const std::vector<double>& throughput) {
  std::vector<double> bytes;
  for (const int m : learners) {
    bytes.push_back(o_.vectors(m) * static_cast<double>(z_.size() * sizeof(float)));
  }
  nlohmann::json event = {{"type", "learners"},
                          {"learners", learners},
                          {"alpha", alpha_},
                          {"vector_bytes", bytes},
                          {"throughput_per_s", throughput}};
  self_.record(std::move(event));
}

}  // namespace hetsgd
