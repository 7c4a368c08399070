// The sparse-input MLP with ReLU hidden layers, and without hidden layers: logistic and softmax
// regression.
//
// Blocks: layer0.weight [features x H] (a row per feature, row-sparse), layer0.bias, then for every
// further layer its weight [outputs x inputs] and bias. A linear model has layer 0 alone,
// [features x outputs]. Why [outputs x inputs]: the softmax layer visits the labels block by block,
// and so a block's weights are one contiguous piece of memory (linalg/cpu/softmax_layer.hpp). Of
// the plain products (OpenBLAS) both backward ones, D^T A and D W, gain by that order, too; the
// forward one loses.
//
// Work of a step with n samples and z nonzeros, elements of 4 bytes, dense layers of a inputs and b
// outputs (floating-point operations; bytes that kernels move which keep nothing in a cache; kernel
// launches of a GPU):
//   layer 0       forward   2zH          8z + 4zH + 4nH        1
//                 backward  2zH + nH     8z + 8zH + 8nH        2  update, bias sums
//   dense layer   forward   2nab         4(ab + na + nb)       1
//                 backward  4nab + nb    4(3ab + 2na + 3nb)    3  dX, update (reads, writes), bias
//   hidden layer  forward   2nH          8nH (0 for layer 0)   1 (0 for layer 0: on the way)
//                 backward  nH           12nH                  1
//   loss                    5nb          8nb + 4 labels        1
// With --objective sampled the last dense layer and the loss are, of Q = n negatives + labels pairs and
// U = negatives + labels rows, 6Qa + 5Q; 4(4Ua + 3Q + 4na); 4. Its weight is row-sparse then: a batch
// reads and moves the rows of its labels, true ones and those drawn for it. With hashed U = Q at most,
// and each batch has the queries of its samples and its share of a rehash (model/labels/hashed_labels.hpp).
// All are affine in (samples, nonzeros, labels): two batches cost as much as the joint one plus
// once more the weights' bytes and the launches. The fused softmax layer of the CPU moves less than
// this; a calibrated profile has that in its effective bandwidth.
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

// The standard deviation that a layer of fan_in inputs and fan_out outputs begins with. (What is
// drawn is cut at two of them, which leaves 0.88 of it: model/layout.hpp.)
enum class InitialLaw {
  fans,         // 2 / sqrt(fan_in + fan_out)
  fan_in,       // 1 / sqrt(fan_in)
  cpu_gpu_sgd,  // sqrt(2 s / (fan_in + fan_out)), s = floor(sqrt(fan_in + fan_out of layer 0)) + 1
};
// Paper 000 does not say how its weights begin, though the threshold of its perturbation is
// measured against them. `fans` is far below all of its thresholds on its data (root mean square
// 0.003 with 128 hidden units), the other two are among them: fan_in gives 0.080 on Amazon-670k and
// 0.040 on Delicious-200k; cpu_gpu_sgd, the law of an earlier program of its authors, 0.043 and
// 0.060. `fans` is the default for all algorithms alike: with fan_in elastic averaging gains as much
// as adaptive on data of Amazon-670k's shape, and what is between them stays
// (results/adaptive-ingredients).

// Options of both models; the linear one declares the initial law alone.
struct MlpOptions {
  std::vector<std::uint64_t> hidden{128};  // empty: a linear model
  LabelChoice labels = {};
  InitialLaw init = InitialLaw::fans;
  std::optional<double> init_std = {};  // of all layers, in place of `init`

  void declare(OptionSet& set);
  void declare_init(OptionSet& set);  // init and init_std alone
  // Errors: usage, no hidden layer (that is --model linear) or one without units; as validate_init.
  void validate() const;
  // Errors: usage, both a law other than the default and a number in its place.
  // `usual`: the law of who asks for none.
  void validate_init(InitialLaw usual = InitialLaw::fans) const;
  std::string cpu_only() const { return labels.cpu_only(); }
  // Of the layer that connects units[layer] to units[layer + 1].
  double initial_std(const std::vector<std::uint64_t>& units, std::size_t layer) const;
};

// The model itself, without the registry and without validate(): `hidden` may be empty here, which
// makes it linear. Instantiated for float and double.
template <class Real>
std::unique_ptr<BasicModel<Real>> make_mlp(const DataShape& data, const MlpOptions& options);

}  // namespace hetsgd
