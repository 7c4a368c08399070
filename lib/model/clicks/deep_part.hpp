// Dense layers with ReLU over a matrix in device memory: the deep part of a model that computes its
// inputs itself. Blocks per layer: weight [outputs x inputs] and bias [outputs].
//
// Work of a layer of a inputs and b outputs with n samples (floating-point operations; bytes;
// launches):
//   forward   2nab + 2nb        4(ab + na + 3nb)      2  product, bias with ReLU
//   backward  4nab + 2nb        4(3ab + 2na + 6nb)    4  ReLU, dX, update (reads, writes), bias
// A CPU computes bias and ReLU of a layer, and ReLU of the layer below, within the products.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "model/mlp.hpp"
#include "model/model.hpp"

namespace hetsgd {

template <class Real>
class DeepPart {
 public:
  // Scratch of one computation.
  struct Scratch {
    std::vector<BasicBuffer<Real>> activation;  // per layer [batch x outputs], after ReLU
    std::vector<BasicBuffer<Real>> delta;       // the gradient by it, then by its ReLU's input
    std::size_t size() const {
      std::size_t elements = 0;
      for (const auto& each : activation) elements += each.size();
      for (const auto& each : delta) elements += each.size();
      return elements;
    }
  };

  // widths: inputs, then the outputs of each layer; without layers: the inputs alone. first_block:
  // the index of the first block in the model's layout.
  DeepPart(std::vector<std::uint64_t> widths, std::size_t first_block)
      : widths_(std::move(widths)), first_block_(first_block) {}

  // The blocks that the model adds to its layout, in this order. units: all widths up to the
  // scores, which decide the initial standard deviations.
  std::vector<ParameterBlock> blocks(const MlpOptions& options,
                                     const std::vector<std::uint64_t>& units) const {
    std::vector<ParameterBlock> list;
    for (std::size_t layer = 0; layer < layers(); ++layer) {
      list.push_back({.name = fmt::format("layer{}.weight", layer + 1),
                      .rows = outputs(layer),
                      .cols = inputs(layer),
                      .init_std = options.initial_std(units, layer)});
      list.push_back({.name = fmt::format("layer{}.bias", layer + 1), .cols = outputs(layer)});
    }
    return list;
  }

  std::size_t layers() const { return widths_.size() - 1; }
  std::size_t outputs() const { return widths_.back(); }

  // Returns the last layer's activation [n x outputs()], in scratch; without layers X itself.
  const Real* forward(BasicDevice<Real>& device, const Layout& layout, std::size_t n, const Real* X,
                      const Real* w, Scratch& scratch) const {
    scratch.activation.resize(layers());
    scratch.delta.resize(layers());
    for (std::size_t layer = 0; layer < layers(); ++layer) {
      const std::size_t in = inputs(layer), out = outputs(layer);
      BasicBuffer<Real>& Y = scratch.activation[layer];
      Y.reset(device, n * out);
      device.dense_relu(n, out, in, X, w + weight(layout, layer), w + bias(layout, layer),
                        Y.data());
      X = Y.data();
    }
    return X;
  }

  // Room for the gradient by the last activation [n x outputs()], which the caller fills before
  // backward(). Needs at least one layer.
  Real* last_delta(BasicDevice<Real>& device, std::size_t n, Scratch& scratch) const {
    scratch.delta.back().reset(device, n * outputs());
    return scratch.delta.back().data();
  }

  // After forward() with the same X: dX[n x inputs] <- the gradient by X. The gradient of the
  // parameters goes to the sink, which may be w.
  void backward(BasicDevice<Real>& device, const Layout& layout, std::size_t n, const Real* X,
                const Real* w, Sink<Real> sink, Scratch& scratch, Real* dX) const {
    const auto begin_sum = [&](std::size_t layer) {
      Real* const b = sink.to + bias(layout, layer);
      if (sink.beta == Real(0)) device.fill(outputs(layer), Real(0), b);
      return b;
    };
    if (layers() > 0) {
      device.relu_gradient_sums(n, outputs(), sink.alpha, scratch.activation.back().data(),
                                scratch.delta.back().data(), begin_sum(layers() - 1));
    }
    for (std::size_t layer = layers(); layer-- > 0;) {
      const std::size_t in = inputs(layer), out = outputs(layer);
      const Real* const D = scratch.delta[layer].data();
      const Real* const W = w + weight(layout, layer);
      const Real* const input = layer > 0 ? scratch.activation[layer - 1].data() : X;
      if (layer > 0) {
        scratch.delta[layer - 1].reset(device, n * in);
        device.dense_relu_backward(n, in, out, D, W, input, scratch.delta[layer - 1].data(),
                                   sink.alpha, begin_sum(layer - 1));
      } else {
        device.gemm(Transpose::no, Transpose::no, n, in, out, Real(1), D, out, W, in, Real(0), dX,
                    in);
      }
      device.gemm(Transpose::yes, Transpose::no, out, in, n, sink.alpha, D, out, input, in,
                  sink.beta, sink.to + weight(layout, layer), in);
    }
  }

  Work work(double n) const {
    constexpr double kBytes = 4;
    Work work;
    for (std::size_t layer = 0; layer < layers(); ++layer) {
      const auto a = static_cast<double>(inputs(layer)), b = static_cast<double>(outputs(layer));
      work += {6 * n * a * b + 4 * n * b, kBytes * (4 * a * b + 3 * n * a + 9 * n * b), 6};
    }
    return work;
  }
  Work forward_work(double n) const {
    constexpr double kBytes = 4;
    Work work;
    for (std::size_t layer = 0; layer < layers(); ++layer) {
      const auto a = static_cast<double>(inputs(layer)), b = static_cast<double>(outputs(layer));
      work += {2 * n * a * b + 2 * n * b, kBytes * (a * b + n * a + 3 * n * b), 2};
    }
    return work;
  }
  // Elements of scratch per sample.
  double sample_scratch() const {
    double units = 0;
    for (std::size_t layer = 0; layer < layers(); ++layer) {
      units += static_cast<double>(outputs(layer));
    }
    return 2 * units;
  }

 private:
  std::size_t inputs(std::size_t layer) const { return widths_[layer]; }
  std::size_t outputs(std::size_t layer) const { return widths_[layer + 1]; }
  std::size_t weight(const Layout& layout, std::size_t layer) const {
    return layout.blocks[first_block_ + 2 * layer].offset;
  }
  std::size_t bias(const Layout& layout, std::size_t layer) const {
    return layout.blocks[first_block_ + 2 * layer + 1].offset;
  }

  std::vector<std::uint64_t> widths_;
  std::size_t first_block_;
};

}  // namespace hetsgd
