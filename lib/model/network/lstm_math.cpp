#include "model/network/lstm_math.hpp"

#include <algorithm>

namespace hetsgd {

template <class Real>
std::size_t LstmMath<Real>::steps_of(const LstmShape& s) {
  return s.lengths.steps.empty() ? s.steps : *std::ranges::max_element(s.lengths.steps);
}

template <class Real>
std::size_t LstmMath<Real>::rows_in(const LstmShape& s, std::size_t step) {
  if (!s.lengths.packed) return s.batch;
  const auto ended = [&](std::size_t length) { return length <= step; };
  return static_cast<std::size_t>(std::ranges::find_if(s.lengths.steps, ended) -
                                  s.lengths.steps.begin());
}

template <class Real>
void LstmMath<Real>::copy_ending(const LstmShape& s, std::size_t step, const Real* from,
                                 Real* to) const {
  if (s.lengths.steps.empty()) {
    if (step + 1 == s.steps) device_.copy(s.batch * s.units, from, to);
    return;
  }
  for (std::size_t row = 0; row < s.batch; ++row) {
    if (s.lengths.steps[row] != step + 1) continue;
    device_.copy(s.units, from + row * s.units, to + row * s.units);
  }
}

template <class Real>
void LstmMath<Real>::read_joint(const LstmShape& s, std::size_t step, const Real* X,
                                const Real* kept) {
  Real* const joint = joint_.data();
  const std::size_t rows = rows_in(s, step);
  sequences_.read_step({s.numbers, s.steps, step}, rows, X, joint, s.joint());
  const StridedRows<Real*> to{joint + s.numbers, s.joint()};
  if (step > 0) {
    const Real* const before = kept + (step - 1) * s.batch * 6 * s.units;
    return images_.add_rows(rows, s.units, {before + 5 * s.units, 6 * s.units}, Real(0), to);
  }
  hidden_.reset(device_, s.batch * s.units);
  device_.fill(s.batch * s.units, Real(0), hidden_.data());
  images_.add_rows(s.batch, s.units, {hidden_.data(), s.units}, Real(0), to);
}

template <class Real>
void LstmMath<Real>::forward(const LstmShape& s, const Real* X, const Real* w, Real* kept,
                             Real* Y) {
  const std::size_t gates = 4 * s.units, each = s.batch * 6 * s.units;
  joint_.reset(device_, s.batch * s.joint());
  sums_.reset(device_, s.batch * gates);
  hidden_.reset(device_, s.batch * s.units);
  if (s.all && !s.lengths.steps.empty()) device_.fill(s.batch * s.units * s.steps, Real(0), Y);
  for (std::size_t step = 0; step < steps_of(s); ++step) {
    if (s.check && *s.check) (*s.check)();
    const std::size_t rows = rows_in(s, step);
    read_joint(s, step, X, kept);
    images_.add_rows(rows, gates, {w + s.weights(), 0}, Real(0), {sums_.data(), gates});
    device_.gemm(Transpose::no, Transpose::yes, rows, gates, s.joint(), Real(1), joint_.data(),
                 s.joint(), w, s.joint(), Real(1), sums_.data(), gates);
    sequences_.gates(rows, s.units, sums_.data(), step > 0 ? kept + (step - 1) * each : nullptr,
                     kept + step * each, hidden_.data(), s.units);
    if (s.all) {
      sequences_.write_step({s.units, s.steps, step}, rows, hidden_.data(), s.units, Real(0), Y);
    } else {
      copy_ending(s, step, hidden_.data(), Y);
    }
  }
}

// The parameters' gradient is summed apart, since every step reads the parameters.
template <class Real>
void LstmMath<Real>::backward(const LstmShape& s, const Real* X, const Real* w, const Real* kept,
                              const Real* dY, Real alpha, Real beta, Real* to, Real dx_beta,
                              Real* dX) {
  const std::size_t gates = 4 * s.units, each = s.batch * 6 * s.units, hidden = s.batch * s.units;
  joint_.reset(device_, s.batch * s.joint());
  sums_.reset(device_, s.batch * gates);
  state_.reset(device_, 2 * hidden);
  gradient_.reset(device_, s.weights() + gates);
  Real *const dc = state_.data(), *const dh = state_.data() + hidden;
  device_.fill(2 * hidden, Real(0), state_.data());
  device_.fill(s.weights() + gates, Real(0), gradient_.data());
  if (dX && dx_beta == Real(0) && !s.lengths.steps.empty()) {
    device_.fill(s.batch * s.numbers * s.steps, Real(0), dX);
  }
  for (std::size_t step = steps_of(s); step-- > 0;) {
    const std::size_t rows = rows_in(s, step);
    // dh holds the gradient from the following step; the output's gradient is added.
    hidden_.reset(device_, hidden);
    if (s.all) {
      sequences_.read_step({s.units, s.steps, step}, rows, dY, hidden_.data(), s.units);
      device_.axpby(rows * s.units, Real(1), hidden_.data(), Real(1), dh);
    } else {
      copy_ending(s, step, dY, dh);
    }
    const Real* const before = step > 0 ? kept + (step - 1) * each : nullptr;
    sequences_.gates_gradient(rows, s.units, kept + step * each, before, dh, dc, sums_.data());
    read_joint(s, step, X, kept);
    device_.gemm(Transpose::yes, Transpose::no, gates, s.joint(), rows, Real(1), sums_.data(),
                 gates, joint_.data(), s.joint(), Real(1), gradient_.data(), s.joint());
    device_.column_sums(rows, gates, Real(1), sums_.data(), gradient_.data() + s.weights());
    device_.gemm(Transpose::no, Transpose::no, rows, s.joint(), gates, Real(1), sums_.data(), gates,
                 w, s.joint(), Real(0), joint_.data(), s.joint());
    if (dX) {
      sequences_.write_step({s.numbers, s.steps, step}, rows, joint_.data(), s.joint(), dx_beta,
                            dX);
    }
    images_.add_rows(rows, s.units, {joint_.data() + s.numbers, s.joint()}, Real(0), {dh, s.units});
  }
  device_.axpby(s.weights() + gates, alpha, gradient_.data(), beta, to);
}

template class LstmMath<float>;
template class LstmMath<double>;

}  // namespace hetsgd
