// The arithmetic of collectives that are written over messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "cluster/comm.hpp"
#include "cluster/reduce.hpp"
#include "core/error.hpp"

namespace hetsgd {

// y[i] = y[i] op x[i], as all_reduce of two ranks, y being the first: ties of max and min, and
// values that are not numbers, keep y.
template <class T>
void combine(std::span<const T> x, std::span<T> y, ReduceOp op) {
  HETSGD_CHECK_EQ(x.size(), y.size());
  const void* const in[] = {y.data(), x.data()};
  void* const out = y.data();
  reduce_in_rank_order(in, {&out, 1}, 0, y.size(), element_of<T>(), op);
}

// The first n elements of `scratch`, which grows as needed. Callers keep it between calls: then a
// collective allocates nothing.
template <class T>
std::span<T> room(std::vector<T>& scratch, std::size_t n) {
  if (scratch.size() < n) scratch.resize(n);
  return {scratch.data(), n};
}

// reduce_scatter with slices of any length, as MPI's vector variants have them: for vectors whose
// parts must stay whole.

// In place: afterwards slice r, [bounds[r], bounds[r+1]), holds the sum over all ranks on rank r;
// the rest is unchanged. bounds: [p + 1], ascending, from 0 to data.size(); empty slices are
// allowed. scratch: two slices.
//
// Order : ((x0 + x1) + x2) + ..., the bits of Comm::all_reduce.
// Cost  : every rank sends each of the others its slice: n bytes less the own slice.
// Tag   : all messages of a call use one tag; a second call may follow with the same.
template <class T>
void reduce_scatter_slices(Comm& comm, int tag, std::span<T> data,
                           std::span<const std::size_t> bounds, std::vector<T>& scratch,
                           Traffic kind = Traffic::control) {
  const int p = comm.size(), r = comm.rank();
  HETSGD_CHECK_EQ(bounds.size(), static_cast<std::size_t>(p) + 1);
  HETSGD_CHECK_EQ(bounds.back(), data.size());
  const auto slice = [&](int rank) {
    const auto i = static_cast<std::size_t>(rank);
    return data.subspan(bounds[i], bounds[i + 1] - bounds[i]);
  };
  for (int step = 1; step < p; ++step) {
    const int to = (r + step) % p;
    if (!slice(to).empty()) comm.send(to, tag, slice(to), kind);
  }
  const std::span<T> mine = slice(r);
  if (mine.empty() || p == 1) return;
  const std::span<T> both = room(scratch, 2 * mine.size());
  const std::span<T> incoming = both.first(mine.size());
  const std::span<T> sum = r == 0 ? mine : both.last(mine.size());
  if (r != 0) comm.receive<T>(0, tag, sum);
  for (int k = 1; k < p; ++k) {
    if (k != r) comm.receive<T>(k, tag, incoming);
    combine<T>(k == r ? mine : incoming, sum, ReduceOp::sum);
  }
  if (r != 0) std::copy(sum.begin(), sum.end(), mine.begin());
}

}  // namespace hetsgd
