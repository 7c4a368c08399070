// The arithmetic of collectives that are written over messages.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cluster/comm.hpp"
#include "core/error.hpp"

namespace hetsgd {

// y[i] = y[i] op x[i]. Ties of max and min, and values that are not numbers, keep y.
template <class T>
void combine(std::span<const T> x, std::span<T> y, ReduceOp op) {
  HETSGD_CHECK_EQ(x.size(), y.size());
  const std::size_t n = y.size();
  switch (op) {
    case ReduceOp::sum:
      for (std::size_t i = 0; i < n; ++i) y[i] = y[i] + x[i];
      return;
    case ReduceOp::max:
      for (std::size_t i = 0; i < n; ++i) y[i] = y[i] < x[i] ? x[i] : y[i];
      return;
    case ReduceOp::min:
      for (std::size_t i = 0; i < n; ++i) y[i] = x[i] < y[i] ? x[i] : y[i];
      return;
  }
}

// The first n elements of `scratch`, which grows as needed. Callers keep it between calls: then a
// collective allocates nothing.
template <class T>
std::span<T> room(std::vector<T>& scratch, std::size_t n) {
  if (scratch.size() < n) scratch.resize(n);
  return {scratch.data(), n};
}

}  // namespace hetsgd
