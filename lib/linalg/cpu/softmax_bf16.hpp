// The three products of the softmax layer (softmax_layer.hpp) with factors in BF16:
//
//   Z  = W A^T        sums over the inputs
//   dA = D^T W        sums over the labels of a part's blocks, in their order
//   G  = D^T A        sums over the samples
//
// A is rounded once. W is rounded block by block, in each pass while it is in the caches, and D for
// each of its products. The layout of blocks and panels is that of the layer.
#pragma once

#include <cstddef>

#include "linalg/cores/cores.hpp"
#include "linalg/cores/memory.hpp"
#include "linalg/cpu/bf16_factors.hpp"

namespace hetsgd::cpu {

class SoftmaxBf16 {
 public:
  struct Shape {
    std::size_t rows, panels, inputs, block_size;  // rows: samples; block_size: labels of a block
  };

  void plan(const Shape& shape, std::size_t parts);

  // A for Z: `panel` of A^T is [inputs][kPanel].
  void pack_panel(std::size_t panel, const float* input) const;
  // A for G: `slab` of A is [rows][kPanel].
  void pack_slab(std::size_t slab, const float* input) const;

  // The weights of the block of `labels` that `part` takes next: for Z, and for dA.
  void pack_left(std::size_t part, std::size_t labels, const float* W) const;
  void pack_right(std::size_t part, std::size_t labels, const float* W) const;

  // Z[labels][kPanel] of a panel.
  void scores(std::size_t part, std::size_t labels, std::size_t panel, float* Z) const;
  // dA[slab][padded][kPanel] += the block's share. dA is that of a part; D the panel's values.
  void add_input_gradient(std::size_t part, std::size_t labels, std::size_t panel, const float* D,
                          float* dA) const;
  // Rounds D of some labels, whose panels lie `next_panel` numbers apart, for G.
  void pack_values(std::size_t part, std::size_t labels, const float* D,
                   std::size_t next_panel) const;
  // The sums S[labels][kPanel] of G's slab, valid up to the next call of the part.
  const float* weight_gradient(std::size_t part, std::size_t labels, std::size_t slab) const;

 private:
  // Where a part's packs begin, in numbers from the beginning of its room.
  struct Places {
    std::size_t weights, values, copy, sums, all;
  };

  std::size_t columns_in(std::size_t slab) const;
  std::size_t samples_in(std::size_t panel) const;
  float* room(std::size_t part) const { return parts_ + part * places_.all; }

  Shape shape_{};
  Places places_{};
  std::size_t slabs_ = 0, panel_size_ = 0, slab_size_ = 0, block_slab_ = 0;
  float *by_panel_ = nullptr, *by_slab_ = nullptr, *parts_ = nullptr;
  Scratch<float> numbers_;
};

}  // namespace hetsgd::cpu
