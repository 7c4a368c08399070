// Adam on matrices, for batches that touch few rows (SLIDE), at the cost of these rows.
//
// Adam moves a parameter in every batch, even without a gradient, because its moments remain. In
// `dense` every row moves in every batch, as in lib/optimizer/adam.cpp. `touched` leaves rows
// without a gradient as they are, moments included. `catch_up` is dense up to rounding. A row keeps
// its last batch s; before it is read at t it makes up for the batches between (m', v' corrected
// for bias at s, k = u - s):
//
//   w -= m' / (sqrt(v') + epsilon) F(s, t);    m *= beta1^(t-s);    v *= beta2^(t-s)
//   F(s, t) = sum over u = s+1 .. min(t, s+160) of lr_u beta1^k (1 - beta1^s) / ((1 - beta1^u) rho)
//   rho = sqrt(beta2^k (1 - beta2^s) / (1 - beta2^u))
//
// This is Adam with epsilon rho in place of epsilon: exact if epsilon << sqrt(v').
//
// Several workers may step on the same rows (Hogwild): the clock locks, rows do not. Then batches
// that have begun may not have ended, and t numbers the batches in the order of their beginnings.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "linalg/element_rules.hpp"
#include "optimizer/optimizer.hpp"

namespace hetsgd {

enum class Lazy { catch_up, touched, dense };

// A batch of the model, and the step that its rows take.
struct AdamBatch {
  std::uint32_t number = 0;  // t = 1, 2, ...
  double learning_rate = 0;
  rule::MomentStep<float> step;
};

// The steps that rows have to catch up on, for the batches that had ended when the object was
// taken. Valid in any thread, without a time limit.
class AdamDebts {
 public:
  std::uint32_t complete() const { return complete_; }  // batches that had ended

  // The steps that a row with last batch s, 1 <= s < complete(), has to catch up on.
  struct Debt {
    float first, second;   // m' = first m, v' = second v
    float move;            // F(s, complete())
    float decay1, decay2;  // of m and v
    float epsilon;
  };
  Debt of(std::uint32_t s) const {
    const Past &row = past(s), &since = past(complete_ - s);
    return {row.first,    row.second,   static_cast<float>(row.owed),
            since.decay1, since.decay2, epsilon_};
  }

 private:
  friend class AdamClock;
  // By batch i: corrections for bias, decays over i batches, F(i, complete()).
  struct Past {
    float first, second, decay1, decay2;
    double owed;
  };
  const Past& past(std::uint32_t i) const {
    return i < settled_->size() ? (*settled_)[i] : recent_[i - settled_->size()];
  }

  std::uint32_t complete_ = 0;
  float epsilon_ = 0;
  // The first batches, whose F has all its terms, and the batches after them.
  std::shared_ptr<const std::vector<Past>> settled_;
  std::vector<Past> recent_;
};

// Counts the batches of a model. Thread-safe.
class AdamClock {
 public:
  // options: adam, or sgd, which has nothing to catch up on.
  AdamClock(const OptimizerOptions& options, Lazy lazy);

  // Batch t begins; its steps take this learning rate.
  AdamBatch begin(double learning_rate);
  // The batch has made all its steps.
  void end(const AdamBatch& batch);

  // Its counts, while no batch is under way.
  void fields(Archive& fields);

  std::uint32_t complete() const;  // batches that have ended
  AdamDebts debts() const;
  bool is_adam() const { return options_.kind == OptimizerKind::adam; }
  Lazy lazy() const { return lazy_; }
  bool owes() const { return is_adam() && lazy_ == Lazy::catch_up; }

 private:
  void settle();

  const OptimizerOptions options_;
  const Lazy lazy_;
  mutable std::mutex mutex_;  // guards all below
  std::uint32_t begun_ = 0;
  AdamDebts debts_;
};

// Rows of a flat vector w: row r has `cols` elements from `offset` + r cols on. With biases it has
// one more at `bias` + r.
struct RowBlock {
  std::size_t offset = 0, rows = 0, cols = 0;
  std::optional<std::size_t> bias = {};
};

// The moments of such rows. Rows are independent: different threads may work on different rows.
// Every call takes the w of the whole vector.
class RowAdam {
 public:
  RowAdam(const AdamClock& clock, const RowBlock& block);
  // The moments, while no batch is under way.
  void fields(Archive& fields);

  // Brings the row up to the last batch that had ended.
  void catch_up(const AdamDebts& debts, std::size_t row, float* w);
  // Whether catch_up() would change the row.
  bool owes(const AdamDebts& debts, std::size_t row) const;
  // own [cols], followed by the bias, <- the row as catch_up() would make it; the row itself stays
  // as it is. False: the row is up to date, and own is not written.
  bool caught_up(const AdamDebts& debts, std::size_t row, const float* w, float* own) const;
  // Prefetches the row, which is used soon.
  void prefetch(std::size_t row, const float* w) const;
  // The step of a batch with the gradient g [cols] and the bias gradient. The row must be up to
  // date.
  void step(const AdamBatch& batch, std::size_t row, const float* g, float bias_gradient, float* w);
  // The step of a row that this batch has not stepped, without a gradient (dense).
  void step_without_gradient(const AdamBatch& batch, std::size_t row, float* w);

  const RowBlock& block() const { return block_; }
  float* row_of(std::size_t row, float* w) const { return w + block_.offset + row * block_.cols; }
  // 0 if the block has no biases.
  float bias_of(std::size_t row, const float* w) const {
    return block_.bias ? w[*block_.bias + row] : 0;
  }

 private:
  std::uint32_t last(std::size_t row) const {
    return std::atomic_ref(last_[row]).load(std::memory_order_relaxed);
  }
  bool owes_since(const AdamDebts& debts, std::uint32_t s) const {
    return clock_.owes() && s != 0 && s < debts.complete();
  }
  // A batch that began later may have stepped the row first.
  void set_last(std::size_t row, std::uint32_t batch) {
    std::atomic_ref(last_[row]).store(std::max(batch, last(row)), std::memory_order_relaxed);
  }

  const AdamClock& clock_;
  const RowBlock block_;
  std::vector<float> m_, v_;            // [rows x cols]; sgd: none
  std::vector<float> bias_m_, bias_v_;  // [rows], where there are biases
  // Last batch that stepped the row; 0: never touched. It is read and written atomically, because
  // it becomes an index.
  mutable std::vector<std::uint32_t> last_;
  std::vector<float> zeros_;  // [cols]
};

}  // namespace hetsgd
