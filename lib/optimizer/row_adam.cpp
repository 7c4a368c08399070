#include "optimizer/row_adam.hpp"

#include <algorithm>
#include <cmath>

#include "core/processors.hpp"
#include "data/huge_pages.hpp"
#include "optimizer/families.hpp"

namespace hetsgd {

namespace {

// Batches after which nothing remains of a first moment: beta1 / sqrt(beta2) to this power is below
// a float's rounding for the usual betas.
constexpr std::uint32_t kHorizon = 160;
// Number of batches that are settled at a time, once their F has all its terms.
constexpr std::uint32_t kSettle = 1024;

double corrected(double beta, double steps) { return 1 - std::pow(beta, steps); }

inline float moved(const AdamDebts::Debt& debt, float w, float m, float v) {
  return w - debt.first * m / (std::sqrt(debt.second * v) + debt.epsilon) * debt.move;
}

HETSGD_FOR_EACH_PROCESSOR void pay(const AdamDebts::Debt debt, std::size_t n, float* w, float* m,
                                   float* v) {
  for (std::size_t i = 0; i < n; ++i) {
    w[i] = moved(debt, w[i], m[i], v[i]);
    m[i] *= debt.decay1;
    v[i] *= debt.decay2;
  }
}

HETSGD_FOR_EACH_PROCESSOR void move(const AdamDebts::Debt debt, std::size_t n, const float* w,
                                    const float* m, const float* v, float* own) {
  for (std::size_t i = 0; i < n; ++i) own[i] = moved(debt, w[i], m[i], v[i]);
}

HETSGD_FOR_EACH_PROCESSOR void step_of(const rule::MomentStep<float> rule, std::size_t n,
                                       const float* g, float* m, float* v, float* w) {
  for (std::size_t i = 0; i < n; ++i) rule(g[i], m[i], v[i], w[i]);
}

}  // namespace

AdamClock::AdamClock(const OptimizerOptions& options, Lazy lazy) : options_(options), lazy_(lazy) {
  debts_.epsilon_ = static_cast<float>(options.epsilon);
  debts_.settled_ = std::make_shared<const std::vector<AdamDebts::Past>>();
  debts_.recent_.push_back({1, 1, 1, 1, 0});  // of no batch
}

void AdamClock::fields(Archive& fields) {
  const std::lock_guard lock(mutex_);
  std::vector<AdamDebts::Past> settled = *debts_.settled_;
  fields("begun", begun_);
  fields("complete", debts_.complete_);
  fields("settled", settled);
  fields("recent", debts_.recent_);
  debts_.settled_ = std::make_shared<const std::vector<AdamDebts::Past>>(std::move(settled));
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

// Moves settled batches out of the list that debts() copies, so that this list stays short.
void AdamClock::settle() {
  std::vector<AdamDebts::Past> settled = *debts_.settled_;
  const auto end = debts_.recent_.begin() + kSettle;
  settled.insert(settled.end(), debts_.recent_.begin(), end);
  debts_.recent_.erase(debts_.recent_.begin(), end);
  debts_.settled_ = std::make_shared<const std::vector<AdamDebts::Past>>(std::move(settled));
}

RowAdam::RowAdam(const AdamClock& clock, const RowBlock& block)
    : clock_(clock), block_(block), last_(block.rows), zeros_(block.cols) {
  if (!clock.is_adam()) return;
  resize_on_huge_pages(m_, block.rows * block.cols);
  resize_on_huge_pages(v_, block.rows * block.cols);
  if (!block.bias) return;
  bias_m_.resize(block.rows);
  bias_v_.resize(block.rows);
}

void RowAdam::fields(Archive& fields) {
  fields("m", m_);
  fields("v", v_);
  fields("bias_m", bias_m_);
  fields("bias_v", bias_v_);
  fields("last", last_);
}

bool RowAdam::owes(const AdamDebts& debts, std::size_t row) const {
  return owes_since(debts, last(row));
}

void RowAdam::catch_up(const AdamDebts& debts, std::size_t row, float* w) {
  const std::uint32_t s = last(row);
  if (!owes_since(debts, s)) return;
  const AdamDebts::Debt debt = debts.of(s);
  pay(debt, block_.cols, row_of(row, w), &m_[row * block_.cols], &v_[row * block_.cols]);
  if (block_.bias) pay(debt, 1, &w[*block_.bias + row], &bias_m_[row], &bias_v_[row]);
  set_last(row, debts.complete());
}

bool RowAdam::caught_up(const AdamDebts& debts, std::size_t row, const float* w, float* own) const {
  const std::uint32_t s = last(row);
  if (!owes_since(debts, s)) return false;
  const AdamDebts::Debt debt = debts.of(s);
  const std::size_t n = block_.cols, at = row * n;
  const float *const x = w + block_.offset + at, *const m = &m_[at], *const v = &v_[at];
  move(debt, n, x, m, v, own);
  if (block_.bias) own[n] = moved(debt, w[*block_.bias + row], bias_m_[row], bias_v_[row]);
  return true;
}

void RowAdam::prefetch(std::size_t row, const float* w) const {
  constexpr std::size_t kLine = 64 / sizeof(float);
  const std::size_t at = row * block_.cols;
  for (std::size_t i = 0; i < block_.cols; i += kLine) {
    __builtin_prefetch(w + block_.offset + at + i);
    if (m_.empty()) continue;
    __builtin_prefetch(&m_[at + i]);
    __builtin_prefetch(&v_[at + i]);
  }
}

void RowAdam::step(const AdamBatch& batch, std::size_t row, const float* g, float bias_gradient,
                   float* w) {
  set_last(row, batch.number);
  const std::size_t n = block_.cols;
  const rule::MomentStep<float>& rule = batch.step;
  float* const x = row_of(row, w);
  if (!clock_.is_adam()) {
    for (std::size_t i = 0; i < n; ++i) x[i] -= rule.step * g[i];
    if (block_.bias) w[*block_.bias + row] -= rule.step * bias_gradient;
    return;
  }
  float *const m = &m_[row * n], *const v = &v_[row * n];
  step_of(rule, n, g, m, v, x);
  if (block_.bias) rule(bias_gradient, bias_m_[row], bias_v_[row], w[*block_.bias + row]);
}

void RowAdam::step_without_gradient(const AdamBatch& batch, std::size_t row, float* w) {
  if (last(row) == 0) return;  // no moments yet
  step(batch, row, zeros_.data(), 0, w);
}

}  // namespace hetsgd
