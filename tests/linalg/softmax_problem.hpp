// A fused output layer with random operands, and its definition.
#pragma once

#include <cmath>

#include "linalg/devices.hpp"

namespace hetsgd::test {

struct LayerShape {
  std::size_t rows, inputs, outputs;
};

template <class Real>
struct LayerProblem {
  explicit LayerProblem(const LayerShape& s, double spread = 1)
      : shape(s),
        labels(s.rows, s.outputs, 4, 1),
        A(random_vector<Real>(s.rows * s.inputs, 2, -spread, spread)),
        W(random_vector<Real>(s.outputs * s.inputs, 3)),
        b(random_vector<Real>(s.outputs, 4)),
        G(random_vector<Real>(s.outputs * s.inputs, 5)),
        g(random_vector<Real>(s.outputs, 6)) {}

  struct Found {
    void take(Side<Real>& side) const {
      side.take(loss);
      for (const auto* each : {&G, &g, &dA}) side.take(*each);
    }
    double loss;
    BasicBuffer<Real> G, g, dA;
  };

  // The layer's gradients: alpha times them, added to beta times the contents of G and g. With
  // `in_place` these are the weights and biases themselves. With beta 0 they are not read.
  Found run(Side<Real>& side, double alpha, double beta, bool in_place) const {
    const std::vector<Real> nothing_G(G.size(), Real(kNan)), nothing_g(g.size(), Real(kNan));
    const auto input = side.put(A);
    auto weight = side.put(W), bias = side.put(b), dA = side.room(A.size()),
         own_G = side.put(beta == 0 ? nothing_G : G), own_g = side.put(beta == 0 ? nothing_g : g);
    const double loss =
        output_kernels(side.device)
            .softmax_layer(side.stage(labels, false),
                           {.inputs = shape.inputs,
                            .outputs = shape.outputs,
                            .input = input.data(),
                            .weight = weight.data(),
                            .bias = bias.data(),
                            .scale = Real(kScale),
                            .alpha = Real(alpha),
                            .beta = Real(beta),
                            .weight_gradient = in_place ? weight.data() : own_G.data(),
                            .bias_gradient = in_place ? bias.data() : own_g.data(),
                            .input_gradient = dA.data()});
    return {loss, std::move(in_place ? weight : own_G), std::move(in_place ? bias : own_g),
            std::move(dA)};
  }

  struct Ranked {
    double loss;
    std::vector<std::uint32_t> top;
  };

  // The k best labels of each row, measured block by block.
  Ranked rank(Side<Real>& side, std::size_t k) const {
    const auto input = side.put(A), weight = side.put(W), bias = side.put(b);
    auto room = side.room(shape.rows * k);
    auto* const top = reinterpret_cast<std::uint32_t*>(room.data());
    Ranked found{0, std::vector<std::uint32_t>(shape.rows * k)};
    found.loss = output_kernels(side.device)
                     .softmax_ranks(side.stage(labels, false),
                                    {.inputs = shape.inputs,
                                     .outputs = shape.outputs,
                                     .input = input.data(),
                                     .weight = weight.data(),
                                     .bias = bias.data()},
                                    k, top);
    side.device.download(found.top.data(), top, found.top.size() * sizeof(std::uint32_t));
    return found;
  }

  // The same on one core with all scores in memory.
  Ranked rank_all_at_once(std::size_t k) const {
    const auto& [rows, inputs, outputs] = shape;
    Ranked found{0, std::vector<std::uint32_t>(rows * k)};
    std::vector<Real> Z(rows * outputs);
    const auto device = make_cpu_device<Real>(1);
    device->gemm(Transpose::no, Transpose::yes, rows, outputs, inputs, Real(1), A.data(), inputs,
                 W.data(), inputs, Real(0), Z.data(), outputs);
    auto& kernels = output_kernels(*device);
    found.loss = kernels.softmax_loss(labels.view<Real>(false), outputs, b.data(), Z.data());
    kernels.top_k(rows, outputs, Z.data(), k, found.top.data());
    return found;
  }

  static constexpr double kScale = 0.125;
  LayerShape shape;
  RandomSparse labels;
  std::vector<Real> A, W, b, G, g;
};

struct LayerReference {
  double loss;
  std::vector<double> dW, db, dA;
};

template <class Real>
LayerReference layer_by_definition(const LayerProblem<Real>& p) {
  const auto& [rows, inputs, outputs] = p.shape;
  std::vector<double> Z(rows * outputs);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t l = 0; l < outputs; ++l) {
      double sum = double(p.b[l]);
      for (std::size_t h = 0; h < inputs; ++h) {
        sum += double(p.A[r * inputs + h]) * double(p.W[l * inputs + h]);
      }
      Z[r * outputs + l] = sum;
    }
  }
  const auto softmax =
      softmax_reference(rows, outputs, Z, p.labels.dense(false), LayerProblem<Real>::kScale);
  LayerReference e{softmax.loss, std::vector<double>(outputs * inputs),
                   std::vector<double>(outputs), std::vector<double>(rows * inputs)};
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t l = 0; l < outputs; ++l) {
      const double d = softmax.gradient[r * outputs + l];
      e.db[l] += d;
      for (std::size_t h = 0; h < inputs; ++h) {
        e.dW[l * inputs + h] += d * double(p.A[r * inputs + h]);
        e.dA[r * inputs + h] += d * double(p.W[l * inputs + h]);
      }
    }
  }
  return e;
}

// The norm of the difference over that of the exact numbers.
inline double relative_error(const std::vector<double>& found, const std::vector<double>& exact) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += (found[i] - exact[i]) * (found[i] - exact[i]);
    size += exact[i] * exact[i];
  }
  return std::sqrt(error / size);
}

// Results of a task on a device: a layer whose bits depend on the number of cores, a product and a
// sum.
inline Results results_of_task(Device& device, std::uint64_t seed) {
  const LayerProblem<float> p({48, 64, 700}, 1 + static_cast<double>(seed));
  Side<float> side{device};
  p.run(side, 1, 0, false).take(side);
  const auto A = side.put(p.A), W = side.put(p.W);
  auto C = side.room(48 * 700);
  device.gemm(Transpose::no, Transpose::yes, 48, 700, 64, 1, A.data(), 64, W.data(), 64, 0,
              C.data(), 700);
  side.take(C);
  side.take(device.squared_norm(W.size(), W.data()));
  return side.results;
}

}  // namespace hetsgd::test
