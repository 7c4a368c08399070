// The sparse-input MLP with ReLU hidden layers, and without hidden layers: logistic and softmax
// regression.
//
// Blocks: layer0.weight [features x H] (a row per feature, row-sparse), layer0.bias, then for every
// further layer its weight [outputs x inputs] and bias. A linear model has layer 0 alone, [features
// x outputs]. Why [outputs x inputs]: the softmax layer visits the labels block by block, so that a
// block's weights are one contiguous piece of memory (linalg/cpu/softmax_layer.hpp). Both plain
// backward products (OpenBLAS), D^T A and D W, gain by that order, too; the forward product loses.
//
// Work of a step with n samples and z nonzeros, elements of 4 bytes, dense layers of a inputs and b
// outputs (floating-point operations; bytes that kernels move if nothing stays in a cache; kernel
// launches of a GPU):
//   layer 0       forward   2zH          8z + 4zH + 4nH        1
//                 backward  2zH + nH     8z + 8zH + 8nH        2  update, bias sums
//   dense layer   forward   2nab         4(ab + na + nb)       1
//                 backward  4nab + nb    4(3ab + 2na + 3nb)    3  dX, update (reads, writes), bias
//   hidden layer  forward   2nH          8nH (0 for layer 0)   1 (0 for layer 0: on the way)
//                 backward  nH           12nH                  1
//   loss                    5nb          8nb + 4 labels        1
// With --objective sampled the last dense layer and the loss take 6Qa + 5Q operations, 4(4Ua + 3Q +
// 4na) bytes and 4 launches, with Q = n negatives + labels pairs and U = negatives + labels rows.
// The layer's weight is row-sparse then: a batch reads and moves the rows of its labels, both the
// true and the drawn ones. With hashed U = Q at most, and each batch is also charged for the
// queries of its samples and its share of a rehash (model/labels/hashed_labels.hpp). All are affine
// in (samples, nonzeros, labels): two batches cost as much as the joint one, plus the weights'
// bytes and the launches once more. The fused softmax layer of the CPU moves fewer bytes; a
// calibrated profile has that in its effective bandwidth.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/options.hpp"
#include "model/labels/label_choice.hpp"
#include "model/model.hpp"

namespace hetsgd {

// The initial standard deviation of a layer with fan_in inputs and fan_out outputs. (The normal
// distribution is cut at two of them, which leaves 0.88 of it: model/layout.hpp.)
enum class InitialLaw {
  fans,         // 2 / sqrt(fan_in + fan_out)
  fan_in,       // 1 / sqrt(fan_in)
  cpu_gpu_sgd,  // sqrt(2 s / (fan_in + fan_out)), s = floor(sqrt(fan_in + fan_out of layer 0)) + 1
};
// Ma et al. 2021 (Adaptive SGD) do not say how their weights begin, though the threshold of their
// perturbation is measured against them. On their data `fans` is far below all of their thresholds
// (root mean square 0.003 with 128 hidden units); the other two lie among them. fan_in gives 0.080
// on Amazon-670k and 0.040 on Delicious-200k; cpu_gpu_sgd, the law of an earlier program of the
// same authors, gives 0.043 and 0.060. `fans` is the default for all algorithms alike. With fan_in
// elastic averaging and adaptive are both sooner on data of Amazon-670k's shape, and with neither
// law is a difference between their tuned times shown (results/adaptive-ingredients).

// Options of both models; the linear one declares the initial law alone.
struct MlpOptions {
  std::vector<std::uint64_t> hidden{128};  // empty: a linear model
  LabelChoice labels = {};
  InitialLaw init = InitialLaw::fans;
  std::optional<double> init_std = {};  // of all layers, in place of `init`

  void declare(OptionSet& set);
  void declare_init(OptionSet& set);  // init and init_std alone
  // Throws Error(usage) without a hidden layer (use --model linear), or for a layer without units.
  // Also throws what validate_init() throws.
  void validate() const;
  // Throws Error(usage) for a law other than the default together with a standard deviation, which
  // replaces the law. `usual`: the default law.
  void validate_init(InitialLaw usual = InitialLaw::fans) const;
  std::string cpu_only() const { return labels.cpu_only(); }
  // Initial standard deviation of the layer that connects units[layer] to units[layer + 1].
  double initial_std(const std::vector<std::uint64_t>& units, std::size_t layer) const;
};

// The model itself, without the registry and without validate(): `hidden` may be empty here, which
// makes it linear. Instantiated for float and double.
template <class Real>
std::unique_ptr<BasicModel<Real>> make_mlp(const DataShape& data, const MlpOptions& options);

}  // namespace hetsgd
