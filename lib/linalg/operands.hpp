// What kernels are called with. Plain structs, apart from device.hpp: CUDA sources read them too,
// and those must not include fmt.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hetsgd {

// A CSR batch: `rows` rows gathered by `row` from a larger CSR matrix. row == nullptr: rows
// 0..rows-1. value == nullptr: all values are 1 (labels). Kernels take what their device's stage()
// made of a batch in host memory.
template <class Real>
struct SparseRows {
  std::size_t rows = 0;
  std::size_t columns = 0;
  const std::uint32_t* row = nullptr;    // [rows] numbers of rows in the matrix
  const std::uint64_t* begin = nullptr;  // CSR offsets of the matrix
  const std::uint32_t* index = nullptr;  // column numbers
  const float* value = nullptr;          // data are float whatever Real is

  std::size_t source_row(std::size_t i) const { return row ? row[i] : i; }
};

// What two vectors have to do with each other, see BasicDevice::products.
struct Products {
  double xy = 0, xx = 0, yy = 0;  // x.y, ||x||^2, ||y||^2
};

// A dense output layer with softmax cross-entropy, see BasicDevice::softmax_layer. The batch's rows
// are those of the labels.
template <class Real>
struct SoftmaxLayer {
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  const Real* input = nullptr;      // A [rows x inputs]
  const Real* weight = nullptr;     // W [outputs x inputs]
  const Real* bias = nullptr;       // b [outputs]
  Real scale = 1;                   // of the loss inside the gradients: 1 / batch size gives means
  Real alpha = 1, beta = 0;         // of the accumulation
  Real* weight_gradient = nullptr;  // G [outputs x inputs]; may be `weight` itself
  Real* bias_gradient = nullptr;    // g [outputs]; may be `bias` itself
  Real* input_gradient = nullptr;   // dA [rows x inputs]
};

// An update with momentum, see BasicDevice::momentum_step: the factors of
//   u = gradient g + decay w,  v <- momentum v + u,  w <- w - velocity v - direct u
template <class Real>
struct MomentumRule {
  Real gradient = 1, decay = 0;
  Real momentum = 0;
  Real velocity = 0, direct = 0;
};

// An update by the gradient's first two moments, see BasicDevice::moment_step:
//   u = gradient g + decay w,  m <- beta1 m + fresh1 u,  v <- beta2 v + fresh2 u^2
//   r = (first m) / (sqrt(second v) + epsilon) + shrink w
template <class Real>
struct MomentRule {
  Real gradient = 1, decay = 0;
  Real beta1 = 0, beta2 = 0;
  Real fresh1 = 1, fresh2 = 1;  // 1 - beta1, 1 - beta2; subtracted in float they lose four digits
  Real first = 1, second = 1;   // the corrections of the moments' bias
  Real epsilon = 0;
  Real shrink = 0;  // decoupled weight decay
};

}  // namespace hetsgd
