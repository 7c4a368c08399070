// Samples' vectors from the rows that they look up, and the update of these rows. The rows lie in a
// table, numbered by category, or, where they are looked up, in a list, numbered by entry.
#pragma once

#include <cstddef>
#include <cstdint>

#include "linalg/cuda/block.cuh"
#include "linalg/cuda/sparse.hpp"
#include "linalg/embedding_kernels.hpp"

namespace hetsgd::cuda {

// Element j of sample r's vector. The element after the last one is the sum of the rows' own
// weights, in the order of the fields.
template <class Real>
struct LookUpRows {
  FieldRows<Real> X;            // the dense columns are read from it
  std::size_t embedding, row;   // D, and the elements of a row
  const std::uint32_t* number;  // [X.rows x X.fields] of rows
  const Real* rows;
  Real* Y;
  Real* u;

  __device__ void operator()(std::size_t r, std::size_t j) const {
    const std::size_t K = X.columns, width = K + X.fields * embedding;
    const std::uint32_t* const mine = number + r * X.fields;
    if (j == width) {
      Real sum = 0;
      for (std::size_t f = 0; f < X.fields; ++f) sum += rows[mine[f] * row + embedding];
      u[r] = sum;
    } else if (j < K) {
      Y[r * width + j] = static_cast<Real>(X.dense[r * K + j]);
    } else {
      const std::size_t f = (j - K) / embedding, k = (j - K) % embedding;
      Y[r * width + j] = rows[mine[f] * row + k];
    }
  }
};

// Y and u are those of BasicEmbeddingKernels::gather_rows(); `name` is the kernel's in messages.
template <class Real>
void look_up_rows(cudaStream_t stream, const FieldRows<Real>& X, const TableShape& table,
                  const std::uint32_t* number, const Real* rows, Real* Y, Real* u,
                  const char* name) {
  const std::size_t numbers = X.columns + X.fields * table.embedding + table.extra;
  launch_rowwise(stream, X.rows, numbers,
                 LookUpRows<Real>{X, table.embedding, table.row(), number, rows, Y, u}, name);
}

// The gradients of lookups, sorted by category. A run is kWarp of them in that order. Hot
// categories have many lookups, and runs divide them among threads.
template <class Real>
struct Lookups {
  FieldRows<Real> X;
  ByColumn sorted;
  std::size_t embedding, row;
  Real alpha;
  const Real* D;
  const Real* d;
  Real* sums;  // [2 runs x row]: of categories that extend beyond a run
  Real* G;

  // Column j of the sum over the lookups first, first + 1, ... below `end` that have the category
  // of `first`.
  __device__ Real sum(std::size_t first, std::size_t end, std::size_t j) const {
    const std::uint32_t category = sorted.columns[first];
    const std::size_t width = X.columns + X.fields * embedding;
    const Real* from = d;
    std::size_t stride = 1;
    if (j < embedding) {
      const std::uint32_t* const mine = X.category + sorted.entries[first].row * X.fields;
      std::size_t f = 0;
      while (mine[f] != category) ++f;
      from = D + X.columns + f * embedding + j;
      stride = width;
    }
    Real total = 0;
    for (std::size_t i = first; i < end && sorted.columns[i] == category; ++i) {
      total += from[sorted.entries[i].row * stride];
    }
    return total;
  }
  __device__ void update(std::uint32_t category, std::size_t j, Real total) const {
    Real& g = G[category * row + j];
    g = std::fma(alpha, total, g);
  }
};

// A thread works if lookup `first` is the first of its category, or of a run. A category within one
// run is updated at once. For a longer one every run leaves its sum for LongCategories, at 2 run +
// 1 where the category begins and at 2 run in later runs.
template <class Real>
struct Runs {
  Lookups<Real> lookups;
  __device__ void operator()(std::size_t first, std::size_t j) const {
    const ByColumn& X = lookups.sorted;
    const std::uint32_t category = X.columns[first];
    const bool begins = first == 0 || X.columns[first - 1] != category;
    if (!begins && first % kWarp != 0) return;
    const std::size_t run = first / kWarp, end = smaller((run + 1) * kWarp, X.nonzeros);
    const Real total = lookups.sum(first, end, j);
    const bool ends =
        X.columns[end - 1] != category || end == X.nonzeros || X.columns[end] != category;
    if (begins && ends) return lookups.update(category, j, total);
    lookups.sums[(2 * run + (begins ? 1 : 0)) * lookups.row + j] = total;
  }
};

// Adds up the category that begins in the run and does not end there, if there is one, in the order
// of its runs.
template <class Real>
struct LongCategories {
  Lookups<Real> lookups;
  __device__ void operator()(std::size_t run, std::size_t j) const {
    const ByColumn& X = lookups.sorted;
    const std::size_t next = (run + 1) * kWarp;
    if (next >= X.nonzeros) return;
    const std::uint32_t category = X.columns[next];
    if (X.columns[next - 1] != category) return;
    if (run > 0 && X.columns[run * kWarp - 1] == category) return;  // it began earlier
    Real total = lookups.sums[(2 * run + 1) * lookups.row + j];
    for (std::size_t r = run + 1; r * kWarp < X.nonzeros && X.columns[r * kWarp] == category; ++r) {
      total += lookups.sums[2 * r * lookups.row + j];
    }
    lookups.update(category, j, total);
  }
};

// The numbers of Lookups::sums for so many lookups of rows of `row` elements.
inline std::size_t lookup_sums(std::size_t lookups, std::size_t row) {
  return 2 * ceil_divide(lookups, kWarp) * row;
}

// Adds alpha times the sums of the lookups' gradients to the rows of G, in the lookups' order.
template <class Real>
void update_looked_up_rows(cudaStream_t stream, const Lookups<Real>& lookups) {
  const std::size_t count = lookups.sorted.nonzeros, C = lookups.row;
  launch_rowwise(stream, count, C, Runs<Real>{lookups}, "kernel sum_rows");
  launch_rowwise(stream, ceil_divide(count, kWarp), C, LongCategories<Real>{lookups},
                 "kernel update_rows");
}

}  // namespace hetsgd::cuda
