// The k best labels of each row, searched block by block of its logits.
//
// Each piece of kTopSegment columns leaves a list of its best labels as candidates. At the end the
// best candidates of a row are its best labels. The ranking is a total order (ranks_before), so the
// division into pieces makes no difference.
//
// The softmax's statistics may know the largest logit of each part of kPart columns. Then only k
// parts can hold the k best: those with the largest logits, the first among equals. The others are
// not read again. With 670,091 labels and k = 5 that leaves 1 logit of 260.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "linalg/cuda/resources.hpp"
#include "linalg/cuda/softmax.hpp"

namespace hetsgd::cuda {

// Lists of candidates, [rows x lists x width].
template <class Real>
struct Candidates {
  std::size_t lists = 0;  // per row
  std::size_t width = 0;  // labels of a list
  Real* scores = nullptr;
  std::uint32_t* labels = nullptr;
};

// Memory for candidates.
template <class Real>
class Ranking {
 public:
  explicit Ranking(const Stream& stream) : scores_(stream), labels_(stream) {}
  // Room for `lists` pieces per row, to find the k <= 16 best.
  Candidates<Real> reserve(std::size_t rows, std::size_t lists, std::size_t k);

 private:
  DeviceMemory scores_, labels_;
};

// The number of pieces of n columns.
std::size_t top_parts(std::size_t n);
// Fills lists first_list, first_list + 1, ... of every row from a block's logits, its bias added.
template <class Real>
void top_of_block(cudaStream_t stream, std::size_t rows, const LogitBlock<const Real>& block,
                  std::size_t first_list, const Candidates<Real>& candidates);
// Fills one list of every row, from the statistics and the logits of a block.
template <class Real>
void top_of_parts(cudaStream_t stream, std::size_t rows, const LogitBlock<const Real>& block,
                  const SoftmaxRows<Real>& statistics, std::size_t list,
                  const Candidates<Real>& candidates);
// The k best of all lists; top: [rows x k] in device memory.
template <class Real>
void top_of_all(cudaStream_t stream, std::size_t rows, const Candidates<Real>& candidates,
                std::size_t k, std::uint32_t* top);

}  // namespace hetsgd::cuda
