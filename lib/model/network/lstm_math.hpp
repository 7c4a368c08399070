// The forward and backward pass of an lstm node: one product per step and pass, and the gates.
//
// Parameters: W [4 units x (numbers + units)], gates in the order input, forget, cell, output, then
//             one bias [4 units] (Hochreiter and Schmidhuber 1997, with forget gates).
// Kept      : [steps x batch x 6 units], what BasicSequenceKernels::gates keeps.
// Lengths   : the output of the last step is that of each row's own last step, and its gradient
//             enters there. So no later step of the row has a gradient: sums over rows add zeros
//             for it. Nothing behind the longest row is computed. Packed, each step computes only
//             the rows that have it; the values differ only by the order of sums.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "linalg/device.hpp"
#include "linalg/image_kernels.hpp"
#include "linalg/sequence_kernels.hpp"

namespace hetsgd {

// Lengths of the rows of a batch.
struct RowLengths {
  // of each row, host memory; empty: all steps of the shape
  std::span<const std::size_t> steps = {};
  bool packed = false;  // steps descend, and none is computed behind a row's end
};

struct LstmShape {
  std::size_t batch = 1, numbers = 1, steps = 1, units = 1;
  bool all = false;  // the output is that of every step, [units x steps], not of the last alone
  RowLengths lengths = {};
  const std::function<void()>* check = nullptr;  // of the pass (graph_pass.hpp)

  std::size_t joint() const { return numbers + units; }
  std::size_t weights() const { return 4 * units * joint(); }
};

template <class Real>
class LstmMath {
 public:
  explicit LstmMath(BasicDevice<Real>& device)
      : device_(device),
        sequences_(kernels<BasicSequenceKernels<Real>>(device)),
        images_(kernels<BasicImageKernels<Real>>(device)) {}

  // With lengths, elements of Y or dX behind a row's end are 0 if the step is not computed, else
  // meaningless. Y [batch x outputs] from X [batch x numbers x steps] at the parameters w.
  void forward(const LstmShape& shape, const Real* X, const Real* w, Real* kept, Real* Y);
  // to = beta to + alpha (the gradient by the parameters). dX = dx_beta dX + the gradient by X,
  // unless dX is null. `to` may be w.
  void backward(const LstmShape& shape, const Real* X, const Real* w, const Real* kept,
                const Real* dY, Real alpha, Real beta, Real* to, Real dx_beta, Real* dX);

 private:
  // joint [batch x (numbers + units)] <- x of the step and h of the step before, read from `kept`.
  void read_joint(const LstmShape& shape, std::size_t step, const Real* X, const Real* kept);
  // The number of steps that are computed, and the number of rows in a step.
  static std::size_t steps_of(const LstmShape& shape);
  static std::size_t rows_in(const LstmShape& shape, std::size_t step);
  // to <- from, rows of `units` elements, for the rows whose last step this is.
  void copy_ending(const LstmShape& shape, std::size_t step, const Real* from, Real* to) const;

  BasicDevice<Real>& device_;
  BasicSequenceKernels<Real>& sequences_;
  BasicImageKernels<Real>& images_;
  BasicBuffer<Real> joint_, sums_, hidden_, state_, gradient_;
};

}  // namespace hetsgd
