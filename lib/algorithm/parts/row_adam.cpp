#include "algorithm/parts/row_adam.hpp"

#include <algorithm>
#include <cmath>

#include "data/huge_pages.hpp"
#include "optimizer/families.hpp"

namespace hetsgd {

namespace {

// Batches after which nothing is left of a first moment: beta1 / sqrt(beta2) to this power is below
// a float's rounding for the usual betas.
constexpr std::uint32_t kHorizon = 160;
// Batches whose F has had all its terms are put away so many at a time.
constexpr std::uint32_t kSettle = 1024;

double corrected(double beta, double steps) { return 1 - std::pow(beta, steps); }

float moved(const AdamDebts::Debt& debt, float w, float m, float v) {
  return w - debt.first * m / (std::sqrt(debt.second * v) + debt.epsilon) * debt.move;
}

}  // namespace

AdamClock::AdamClock(const OptimizerOptions& options, Lazy lazy) : options_(options), lazy_(lazy) {
  debts_.epsilon_ = static_cast<float>(options.epsilon);
  debts_.settled_ = std::make_shared<const std::vector<AdamDebts::Past>>();
  debts_.recent_.push_back({1, 1, 1, 1, 0});  // of no batch
}

AdamBatch AdamClock::begin(double learning_rate) {
  const std::lock_guard lock(mutex_);
  ++begun_;
  return {.number = begun_,
          .learning_rate = learning_rate,
          .step = {moments(options_, begun_, 1), static_cast<float>(learning_rate)}};
}

std::uint32_t AdamClock::complete() const {
  const std::lock_guard lock(mutex_);
  return debts_.complete_;
}

AdamDebts AdamClock::debts() const {
  const std::lock_guard lock(mutex_);
  return debts_;
}

void AdamClock::end(const AdamBatch& batch) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t u = ++debts_.complete_;
  if (!owes()) return;
  const double b1 = options_.beta1, b2 = options_.beta2;
  debts_.recent_.push_back({.first = static_cast<float>(1 / corrected(b1, u)),
                            .second = static_cast<float>(1 / corrected(b2, u)),
                            .decay1 = static_cast<float>(std::pow(b1, u)),
                            .decay2 = static_cast<float>(std::pow(b2, u)),
                            .owed = 0});
  const std::size_t settled = debts_.settled_->size();
  const std::uint32_t first = u > kHorizon ? u - kHorizon : 1;
  for (std::uint32_t s = first; s < u; ++s) {
    const double k = u - s;
    const double rho = std::sqrt(std::pow(b2, k) * corrected(b2, s) / corrected(b2, u));
    debts_.recent_[s - settled].owed +=
        batch.learning_rate * std::pow(b1, k) * corrected(b1, s) / (corrected(b1, u) * rho);
  }
  if (debts_.recent_.size() > kSettle + kHorizon + 1) settle();
}

// What debts() copies stays short.
void AdamClock::settle() {
  std::vector<AdamDebts::Past> settled = *debts_.settled_;
  const auto end = debts_.recent_.begin() + kSettle;
  settled.insert(settled.end(), debts_.recent_.begin(), end);
  debts_.recent_.erase(debts_.recent_.begin(), end);
  debts_.settled_ = std::make_shared<const std::vector<AdamDebts::Past>>(std::move(settled));
}

RowAdam::RowAdam(const AdamClock& clock, std::size_t rows, std::size_t cols)
    : clock_(clock), cols_(cols), last_(rows), zeros_(cols) {
  if (!clock.is_adam()) return;
  resize_on_huge_pages(m_, rows * cols);
  resize_on_huge_pages(v_, rows * cols);
}

bool RowAdam::owes(const AdamDebts& debts, std::size_t row) const {
  return owes_since(debts, last(row));
}

void RowAdam::catch_up(const AdamDebts& debts, std::size_t row, float* w) {
  const std::uint32_t s = last(row);
  if (!owes_since(debts, s)) return;
  const AdamDebts::Debt debt = debts.of(s);
  float* const m = &m_[row * cols_];
  float* const v = &v_[row * cols_];
  for (std::size_t i = 0; i < cols_; ++i) {
    w[i] = moved(debt, w[i], m[i], v[i]);
    m[i] *= debt.decay1;
    v[i] *= debt.decay2;
  }
  set_last(row, debts.complete());
}

const float* RowAdam::caught_up(const AdamDebts& debts, std::size_t row, const float* w,
                                float* own) const {
  const std::uint32_t s = last(row);
  if (!owes_since(debts, s)) return w;
  const AdamDebts::Debt debt = debts.of(s);
  const float* const m = &m_[row * cols_];
  const float* const v = &v_[row * cols_];
  for (std::size_t i = 0; i < cols_; ++i) own[i] = moved(debt, w[i], m[i], v[i]);
  return own;
}

void RowAdam::prefetch(std::size_t row, const float* w) const {
  constexpr std::size_t kLine = 64 / sizeof(float);
  for (std::size_t i = 0; i < cols_; i += kLine) __builtin_prefetch(w + i);
  if (m_.empty()) return;
  for (std::size_t i = 0; i < cols_; i += kLine) __builtin_prefetch(&m_[row * cols_ + i]);
  for (std::size_t i = 0; i < cols_; i += kLine) __builtin_prefetch(&v_[row * cols_ + i]);
}

void RowAdam::step(const AdamBatch& batch, std::size_t row, const float* g, float* w) {
  set_last(row, batch.number);
  const rule::MomentStep<float>& rule = batch.step;
  if (!clock_.is_adam()) {
    for (std::size_t i = 0; i < cols_; ++i) w[i] -= rule.step * g[i];
    return;
  }
  float* const m = &m_[row * cols_];
  float* const v = &v_[row * cols_];
  for (std::size_t i = 0; i < cols_; ++i) rule(g[i], m[i], v[i], w[i]);
}

void RowAdam::step_without_gradient(const AdamBatch& batch, std::size_t row, float* w) {
  if (last(row) == 0) return;  // no moments yet
  step(batch, row, zeros_.data(), w);
}

}  // namespace hetsgd
