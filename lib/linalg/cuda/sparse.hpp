// The nonzeros of a batch by column, which the sparse update needs and which staging makes
// (batch.hpp). Rows are compact, as BatchStage makes them: offsets from 0, no row numbers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "linalg/operands.hpp"

namespace hetsgd::cuda {

// A nonzero of X. Its column number, the sort's key, lies in another array.
struct alignas(8) Entry {
  std::uint32_t row;
  float value;
};

// The nonzeros of a batch by ascending column. Nonzeros of one column are in the order of the
// samples.
struct ByColumn {
  std::size_t nonzeros = 0;
  const std::uint32_t* columns = nullptr;  // [nonzeros]
  const Entry* entries = nullptr;          // [nonzeros]
};
// Room for the sort; `work_bytes` comes from sort_bytes().
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
// The same for a list of column numbers in device memory; the entry of column[i] is {i, 1}.
ByColumn sort_list(cudaStream_t stream, std::size_t n, const std::uint32_t* column,
                   std::size_t columns, const SortMemory& memory);

}  // namespace hetsgd::cuda
