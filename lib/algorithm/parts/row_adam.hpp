// Adam on matrices of which a batch touches few rows (SLIDE), at the cost of these rows.
//
// Adam moves a parameter in every batch, also without a gradient: by what is left of its moments. In
// `dense` every row moves in every batch, as in lib/optimizer/adam.cpp. `touched` leaves rows without
// a gradient as they are, moments included. `catch_up` is dense up to rounding: a row keeps its last
// batch s, and before it is read at t it makes up for the batches between (m', v' corrected for bias
// at s, k = u - s):
//
//   w -= m' / (sqrt(v') + epsilon) F(s, t);    m *= beta1^(t-s);    v *= beta2^(t-s)
//   F(s, t) = sum over u = s+1 .. min(t, s+160) of lr_u beta1^k (1 - beta1^s) / ((1 - beta1^u) rho)
//   rho = sqrt(beta2^k (1 - beta2^s) / (1 - beta2^u))
//
// That is Adam with epsilon rho in the place of epsilon: exact where epsilon << sqrt(v').
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "linalg/element_rules.hpp"
#include "optimizer/optimizer.hpp"

namespace hetsgd {

enum class Lazy { catch_up, touched, dense };

// The batches of a model, and what they owe to rows that were last touched at each of them.
class AdamClock {
 public:
  // options: adam, or sgd, which owes nothing.
  AdamClock(const OptimizerOptions& options, Lazy lazy);

  // Batch t = 1, 2, ... begins; its steps take this rate.
  void begin(double learning_rate);
  // All its steps are made.
  void end();

  std::uint32_t batch() const { return batch_; }        // t
  std::uint32_t complete() const { return complete_; }  // batches that have ended
  bool is_adam() const { return options_.kind == OptimizerKind::adam; }
  Lazy lazy() const { return lazy_; }
  const rule::MomentStep<float>& step() const { return step_; }

  // What a row that was last up to date after batch s >= 1 makes up for until complete().
  struct Debt {
    float first, second;   // m' = first m, v' = second v
    float move;            // F(s, complete())
    float decay1, decay2;  // of m and v
    float epsilon;
  };
  Debt debt(std::uint32_t s) const;

 private:
  OptimizerOptions options_;
  Lazy lazy_;
  double learning_rate_ = 0;
  std::uint32_t batch_ = 0, complete_ = 0;
  rule::MomentStep<float> step_;
  std::vector<double> owed_;  // F(s, complete()) by s
};

// The moments of a matrix [rows x cols], by rows. Rows are independent: different threads may work
// on different ones.
class RowAdam {
 public:
  RowAdam(const AdamClock& clock, std::size_t rows, std::size_t cols);

  // Brings the row up to the last complete batch. w [cols], the row's.
  void catch_up(std::size_t row, float* w);
  // The step of the current batch; the row is up to date.
  void step(std::size_t row, const float* g, float* w);
  // The step without a gradient, of a row that this batch has not stepped (dense).
  void step_without_gradient(std::size_t row, float* w);

  std::size_t rows() const { return last_.size(); }
  std::size_t cols() const { return cols_; }

 private:
  const AdamClock& clock_;
  std::size_t cols_;
  std::vector<float> m_, v_;         // [rows x cols]; sgd: none
  std::vector<std::uint32_t> last_;  // batch of which the row is the result; 0: never touched
  std::vector<float> zeros_;         // [cols]
};

}  // namespace hetsgd
