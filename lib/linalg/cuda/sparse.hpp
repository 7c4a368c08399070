// Launchers of sparse rows x dense, forward and transposed. Rows are compact, as BatchStage makes
// them: offsets from 0, no row numbers.
//
// Own kernels and not cuSPARSE's: they add the bias, apply ReLU and accumulate into W on the way,
// and touch the rows of W that occur and nothing else.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "linalg/operands.hpp"

namespace hetsgd::cuda {

// Floor, for z nonzeros: 8z + (4 or 8)zn bytes of indices, values and rows of W; Y written once.
template <class Real>
void sparse_forward(cudaStream_t stream, const SparseRows<Real>& X, std::size_t n, const Real* W,
                    const Real* bias, bool relu, Real* Y);

// A nonzero of X beside its column number, which is the sort's key.
struct alignas(8) Entry {
  std::uint32_t row;
  float value;
};

// The nonzeros of a batch by column, ascending; those of one column in the order of the samples.
struct ByColumn {
  std::size_t nonzeros = 0;
  const std::uint32_t* columns = nullptr;  // [nonzeros]
  const Entry* entries = nullptr;          // [nonzeros]
};
// Room for them; `work_bytes` is what sort_bytes() says.
struct SortMemory {
  Entry* unsorted = nullptr;         // [nonzeros]
  Entry* entries = nullptr;          // [nonzeros]
  std::uint32_t* columns = nullptr;  // [nonzeros]
  void* work = nullptr;
  std::size_t work_bytes = 0;
};
std::size_t sort_bytes(std::size_t nonzeros, std::size_t columns);
// A stable radix sort: 12z bytes move per pass of 8 bits.
template <class Real>
ByColumn sort_by_column(cudaStream_t stream, const SparseRows<Real>& X, std::size_t nonzeros,
                        const SortMemory& memory);

// W += alpha X^T D in a fixed order of additions. Atomic additions would be simpler, but arrive in
// another order each time. So every row of W has one owner, which adds up its column's nonzeros and
// writes that row of W. Frequent features have nonzeros in most samples: their columns are cut into
// runs of 32, whose sums are added up afterwards in their order. `sums`: room for
// update_sums(nonzeros, n) numbers.
// Floor, for z nonzeros in u columns: rows of D read z times (from the L2 cache, as a batch's D
// fits), rows of W read and written once, 2un numbers.
std::size_t update_sums(std::size_t nonzeros, std::size_t n);
template <class Real>
void sparse_update(cudaStream_t stream, const ByColumn& X, std::size_t n, Real alpha, const Real* D,
                   Real* W, Real* sums);

}  // namespace hetsgd::cuda
