// The contents of the emulated cuDNN's descriptors, and convolutions by their definition. Part of
// cudnn.cpp.
#pragma once

#include <vector>

#include "cudnn.h"
#include "rounding.hpp"

struct cudnnTensorStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int n = 0, c = 0, h = 0, w = 0;
};
struct cudnnFilterStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int k = 0, c = 0, h = 0, w = 0;
};
struct cudnnConvolutionStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int pad_h = 0, pad_w = 0, u = 0, v = 0, groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace hetsgd_emulation {

struct Geometry {
  cudnnTensorStruct x, y;
  cudnnFilterStruct w;
  cudnnConvolutionStruct how;

  static int out(int in, int pad, int kernel, int stride) {
    return (in + 2 * pad - kernel) / stride + 1;
  }
  bool valid() const {
    const int groups = how.groups;
    return x.type == y.type && x.type == w.type && x.type == how.type && x.n > 0 && x.n == y.n &&
           groups > 0 && x.c == w.c * groups && w.k % groups == 0 && y.c == w.k && how.u > 0 &&
           how.v > 0 && y.h == out(x.h, how.pad_h, w.h, how.u) &&
           y.w == out(x.w, how.pad_w, w.w, how.v);
  }
  static std::size_t size(int a, int b, int c, int d) {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(b) * static_cast<std::size_t>(c) *
           static_cast<std::size_t>(d);
  }
  std::size_t inputs() const { return size(x.n, x.c, x.h, x.w); }
  std::size_t outputs() const { return size(y.n, y.c, y.h, y.w); }
  std::size_t weights() const { return size(w.k, w.c, w.h, w.w); }
  int bits() const { return how.math == CUDNN_FMA_MATH ? kFloatBits : kTf32Bits; }

  // f(place in x, in w, in y) for every product of the convolution.
  template <class F>
  void for_products(const F& f) const {
    const int filters = w.k / how.groups;
    for (int y_row = 0; y_row < y.n * y.c * y.h; ++y_row) {
      const int i = y_row / (y.c * y.h), o = y_row / y.h % y.c, h = y_row % y.h;
      for (int w_row = 0; w_row < w.c * w.h; ++w_row) {
        const int c = w_row / w.h, r = w_row % w.h, row = h * how.u + r - how.pad_h;
        if (row < 0 || row >= x.h) continue;
        const int x_row = (i * x.c + o / filters * w.c + c) * x.h + row;
        for (int column = 0; column < y.w; ++column) {
          for (int s = 0; s < w.w; ++s) {
            const int from = column * how.v + s - how.pad_w;
            if (from < 0 || from >= x.w) continue;
            f(static_cast<std::size_t>(x_row * x.w + from),
              static_cast<std::size_t>((o * w.c * w.h + w_row) * w.w + s),
              static_cast<std::size_t>(y_row * y.w + column));
          }
        }
      }
    }
  }
};

enum class Way { forward, data, filter };

// Workspace of an algorithm; the sizes are made up and not those of the real cuDNN.
inline cudnnStatus_t workspace_of(const Geometry& g, Way way, int algorithm, std::size_t* bytes) {
  if (!g.valid()) return CUDNN_STATUS_BAD_PARAM;
  const bool precomputes = way == Way::forward && algorithm == 1;
  if ((way != Way::forward && algorithm != 1) || (precomputes && g.how.groups > 1)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  const std::size_t depth = Geometry::size(g.w.c, g.w.h, g.w.w, 1);
  *bytes = precomputes          ? 4 * (depth + Geometry::size(g.y.h, g.y.w, 1, 1))
           : way == Way::filter ? sizeof(double) * g.weights()
           : way == Way::data   ? sizeof(double) * depth
                                : 0;
  return CUDNN_STATUS_SUCCESS;
}

// out = alpha sums + beta out; beta = 0 does not read it.
template <class Real>
void blend(const std::vector<double>& sums, Real alpha, Real beta, Real* out) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double sum = static_cast<double>(alpha) * sums[i];
    out[i] = static_cast<Real>(beta == 0 ? sum : sum + static_cast<double>(beta * out[i]));
  }
}

// The third of X, W and Y from the two others.
template <class Real>
void compute(const Geometry& g, Way way, Real alpha, const Real* X, const Real* W, const Real* Y,
             Real beta, Real* out) {
  const int bits = g.bits();
  std::vector<double> sums(way == Way::forward ? g.outputs()
                           : way == Way::data  ? g.inputs()
                                               : g.weights());
  g.for_products([&](std::size_t x, std::size_t w, std::size_t y) {
    if (way == Way::forward) {
      sums[y] += rounded(X[x], bits) * rounded(W[w], bits);
    } else if (way == Way::data) {
      sums[x] += rounded(W[w], bits) * rounded(Y[y], bits);
    } else {
      sums[w] += rounded(X[x], bits) * rounded(Y[y], bits);
    }
  });
  blend(sums, alpha, beta, out);
}

}  // namespace hetsgd_emulation
