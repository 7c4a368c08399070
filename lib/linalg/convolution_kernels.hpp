// The kernel family of convolutions over images: forward and both gradients.
// Its rules (memory, order, errors, NaN) are those of BasicDevice. Free of fmt: CUDA sources
// include this.
#pragma once

#include <cstddef>

#include "linalg/kernel_family.hpp"

namespace hetsgd {

// The library that computes a GPU's convolutions. Runs choose it; the kernels' contract does not
// depend on it.

// own: windows are copied out (im2col) and multiplied by cuBLAS. cudnn: NVIDIA's cuDNN, with
// algorithms that give deterministic bits. The two add in different orders.
enum class ConvolutionLibrary { own, cudnn };

// Sizes of one sample. X is [in_channels x in_height x in_width], Y [out_channels x out_height x
// out_width], W [out_channels x in_channels / groups x kernel_height x kernel_width]; output
// channel o sees the input channels of its group o / (out_channels / groups).
struct ConvolutionShape {
  std::size_t in_channels = 1, in_height = 1, in_width = 1;
  std::size_t out_channels = 1, out_height = 1, out_width = 1;
  std::size_t kernel_height = 1, kernel_width = 1;
  std::size_t stride = 1, padding_height = 0, padding_width = 0, groups = 1;

  std::size_t inputs() const { return in_channels * in_height * in_width; }
  std::size_t outputs() const { return out_channels * out_height * out_width; }
  // The number of elements that a filter sums over.
  std::size_t depth() const { return in_channels / groups * kernel_height * kernel_width; }
  std::size_t weights() const { return out_channels * depth(); }
};

// Kernels for n samples, which lie one after the other. On a CPU the bits of a sample depend
// neither on the number of cores, nor on addresses, nor on the other samples of its batch.
template <class Real>
class BasicConvolutionKernels : public KernelFamily {
 public:
  static constexpr const char* kName = "convolution kernels";

  // Y_o(h, w) = b_o + sum over c, i, j of W_ocij X_c(h s + i - p, w s + j - p), zeros around X;
  // `bias` [out_channels] may be null.
  virtual void forward(const ConvolutionShape& shape, std::size_t n, const Real* X, const Real* W,
                       const Real* bias, Real* Y) = 0;
  // dX = beta dX + the gradient by X. dY is the gradient by Y. beta = 0 never reads dX.
  virtual void input_gradient(const ConvolutionShape& shape, std::size_t n, const Real* dY,
                              const Real* W, Real beta, Real* dX) = 0;
  // G = beta G + alpha (the gradient by W), g = beta g + alpha (the gradient by the bias); g may be
  // null. beta = 0 never reads them.
  virtual void parameter_gradient(const ConvolutionShape& shape, std::size_t n, const Real* X,
                                  const Real* dY, Real alpha, Real beta, Real* G, Real* g) = 0;
};

using ConvolutionKernels = BasicConvolutionKernels<float>;

}  // namespace hetsgd
