// Convolutions as products over gathered patches, with factors in BF16 (bf16.hpp), for one sample.
//
// P [depth x positions] has the input that each output position sees. It is made for some output
// rows at a time, so that it stays in the caches:
//
//   forward             Y = W P + bias
//   input gradient      W^T dY, whose elements are added to dX in the filter's order
//   parameter gradient  dY P^T, added to G block of rows by block
//
// The blocks depend on the shape alone, and so do the bits.
#pragma once

#include <cstddef>

#include "linalg/convolution_kernels.hpp"

namespace hetsgd::cpu {

class PatchProducts {
 public:
  explicit PatchProducts(const ConvolutionShape& shape);

  // Numbers of aligned scratch that each call needs.
  std::size_t room() const;

  // Operands as in BasicConvolutionKernels, for one sample; `bias` may be null.
  void forward(const float* X, const float* W, const float* bias, float* Y, float* room) const;
  void input_gradient(const float* dY, const float* W, float beta, float* dX, float* room) const;
  // G += the gradient by W, g += the gradient by the biases.
  void parameter_gradient(const float* X, const float* dY, float* G, float* g, float* room) const;

 private:
  // Some output rows of a group of channels.
  struct Block {
    std::size_t group, first_row, rows;
  };

  template <class F>
  void for_blocks(const F& f) const;
  // Calls f(element of the filter, position in the block, place in the sample's input, count) for
  // every run of positions whose inputs, `stride` apart, are inside of the image.
  template <class F>
  void for_runs(const Block& block, const F& f) const;
  void gather(const Block& block, const float* X, float* P) const;

  ConvolutionShape s_;
  std::size_t filters_, channels_, depth_, positions_, block_rows_;
};

}  // namespace hetsgd::cpu
