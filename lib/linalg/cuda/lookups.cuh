// Samples' vectors from the rows that they look up. The rows lie in a table, numbered by category,
// or in a list, numbered by entry.
#pragma once

#include <cstddef>
#include <cstdint>

#include "linalg/cuda/block.cuh"
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

}  // namespace hetsgd::cuda
