// Evaluation of a softmax output layer on the CPU: loss and best labels, block of labels by block.
//
// For each block of labels and each panel of samples:
//   Z = A W^T + b in tiles; on the way out of the registers the block's maximum per sample, and
//   the labels that are among a sample's best
//   the sum of exp(Z - maximum so far) joins the sum over the blocks before, which shrinks where
//   the maximum rose (online softmax, Milakov & Gimelshein 2018)
// W [outputs x inputs] is read in place, once per call. Only the scores of one block for one panel
// are ever in memory. The samples are in the lanes of the vectors, as in softmax_layer.hpp.
//
// A block is as wide as a partial sum of softmax_row (output_layer.cpp), and its additions have the
// same order. So if all labels fit in one block, the bits are those of gemm, softmax_loss and
// top_k.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "linalg/cores/cores.hpp"
#include "linalg/cores/memory.hpp"
#include "linalg/cpu/lanes.hpp"
#include "linalg/cpu/tile.hpp"
#include "linalg/output_layer_kernels.hpp"

namespace hetsgd::cpu {

template <class Real>
class SoftmaxRanksKernel {
 public:
  // See BasicOutputLayerKernels::softmax_ranks. The bits do not depend on the number of cores,
  // because each core takes some of the samples.
  double run(const Cores& cores, const SparseRows<Real>& labels, const SoftmaxLayer<Real>& layer,
             std::size_t k, std::uint32_t* top);

 private:
  static constexpr std::size_t kPanel = cpu::kPanel<Real>;  // samples side by side
  static constexpr std::size_t kBlock = 64 * kLanes<Real>;  // labels

  // The state of a sample after some blocks.
  struct Sample {
    Real largest = 0;             // largest score
    double sum = 0;               // of exp(score - largest)
    double true_score = 0;        // sum over its true labels
    std::uint64_t next_true = 0;  // the first of its labels that lies in a later block
    Best<Real> best{};
  };

  std::size_t samples_in(std::size_t panel) const {
    return std::min(kPanel, labels_.rows - panel * kPanel);
  }
  void pack_panel(std::size_t panel);
  void measure_panel(Range labels, std::size_t panel, Real* Z);
  template <int vectors>
  void score(Range labels, std::size_t panel, Real* Z);
  template <int rows, int vectors>
  void rank_tile(std::size_t first_label, std::size_t panel, Vec<Real> (&z)[rows][vectors],
                 Real* Z);
  void insert(std::size_t first_label, std::size_t count, std::size_t first, const Real* Z);
  void add_exponentials(std::size_t labels, std::size_t panel, std::size_t lane, const Real* Z);
  void add_true_scores(Range labels, std::size_t panel, const Real* Z);
  double collect(std::uint32_t* top) const;

  // The operands of one run.
  SparseRows<Real> labels_;
  SoftmaxLayer<Real> layer_{};
  std::size_t k_ = 0;

  // Views of the scratch below.
  Real* input_by_panel_ = nullptr;  // A^T: [panel][input][kPanel samples]
  Real* largest_ = nullptr;         // [panel][kPanel] score so far
  // [panel][kPanel] the score that must be exceeded to be among the best. NaN if any score exceeds
  // it, infinity if there is no sample.
  Real* bar_ = nullptr;
  Real* scores_ = nullptr;    // [part][kBlock][kPanel]
  Sample* sample_ = nullptr;  // [rows]

  Scratch<Real> numbers_;
  Scratch<Sample> samples_;
};

}  // namespace hetsgd::cpu
