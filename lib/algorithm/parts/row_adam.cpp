#include "algorithm/parts/row_adam.hpp"

#include <algorithm>
#include <cmath>

#include "optimizer/families.hpp"

namespace hetsgd {

namespace {

// Batches after which nothing is left of a first moment: beta1 / sqrt(beta2) to this power is below
// a float's rounding for the usual betas.
constexpr std::uint32_t kHorizon = 160;

double corrected(double beta, double steps) { return 1 - std::pow(beta, steps); }

}  // namespace

AdamClock::AdamClock(const OptimizerOptions& options, Lazy lazy)
    : options_(options), lazy_(lazy), owed_(1) {}

void AdamClock::begin(double learning_rate) {
  learning_rate_ = learning_rate;
  ++batch_;
  step_ = {moments(options_, batch_, 1), static_cast<float>(learning_rate)};
}

void AdamClock::end() {
  complete_ = batch_;
  if (!is_adam() || lazy_ != Lazy::catch_up) return;
  const double b1 = options_.beta1, b2 = options_.beta2, u = batch_;
  owed_.push_back(0);  // of s = batch_
  const std::uint32_t first = batch_ > kHorizon ? batch_ - kHorizon : 1;
  for (std::uint32_t s = first; s < batch_; ++s) {
    const double k = u - s;
    const double rho = std::sqrt(std::pow(b2, k) * corrected(b2, s) / corrected(b2, u));
    owed_[s] += learning_rate_ * std::pow(b1, k) * corrected(b1, s) / (corrected(b1, u) * rho);
  }
}

AdamClock::Debt AdamClock::debt(std::uint32_t s) const {
  const double k = complete_ - s;
  return {.first = static_cast<float>(1 / corrected(options_.beta1, s)),
          .second = static_cast<float>(1 / corrected(options_.beta2, s)),
          .move = static_cast<float>(owed_[s]),
          .decay1 = static_cast<float>(std::pow(options_.beta1, k)),
          .decay2 = static_cast<float>(std::pow(options_.beta2, k)),
          .epsilon = static_cast<float>(options_.epsilon)};
}

RowAdam::RowAdam(const AdamClock& clock, std::size_t rows, std::size_t cols)
    : clock_(clock), cols_(cols), last_(rows), zeros_(cols) {
  if (!clock.is_adam()) return;
  m_.resize(rows * cols);
  v_.resize(rows * cols);
}

void RowAdam::catch_up(std::size_t row, float* w) {
  if (!clock_.is_adam() || clock_.lazy() != Lazy::catch_up) return;
  const std::uint32_t s = last_[row];
  if (s == 0 || s == clock_.complete()) return;
  const AdamClock::Debt debt = clock_.debt(s);
  float* const m = &m_[row * cols_];
  float* const v = &v_[row * cols_];
  for (std::size_t i = 0; i < cols_; ++i) {
    w[i] -= debt.first * m[i] / (std::sqrt(debt.second * v[i]) + debt.epsilon) * debt.move;
    m[i] *= debt.decay1;
    v[i] *= debt.decay2;
  }
  last_[row] = clock_.complete();
}

void RowAdam::step(std::size_t row, const float* g, float* w) {
  last_[row] = clock_.batch();
  const rule::MomentStep<float>& rule = clock_.step();
  if (!clock_.is_adam()) {
    for (std::size_t i = 0; i < cols_; ++i) w[i] -= rule.step * g[i];
    return;
  }
  float* const m = &m_[row * cols_];
  float* const v = &v_[row * cols_];
  for (std::size_t i = 0; i < cols_; ++i) rule(g[i], m[i], v[i], w[i]);
}

void RowAdam::step_without_gradient(std::size_t row, float* w) {
  if (last_[row] == 0 || last_[row] == clock_.batch()) return;  // no moments yet; stepped already
  step(row, zeros_.data(), w);
}

}  // namespace hetsgd
