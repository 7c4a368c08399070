// Functions that the files of this folder share. Callers outside use make_optimizer (options.cpp).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "linalg/buffer_field.hpp"
#include "optimizer/optimizer.hpp"

namespace hetsgd {

std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options, Device& device, std::size_t n,
                                    const std::vector<Tensor>& tensors);
std::unique_ptr<Optimizer> make_adagrad(const OptimizerOptions& options, Device& device,
                                        std::size_t n, const std::vector<Tensor>& tensors);
std::unique_ptr<Optimizer> make_adam(const OptimizerOptions& options, Device& device, std::size_t n,
                                     const std::vector<Tensor>& tensors);
std::unique_ptr<Optimizer> make_lars(const OptimizerOptions& options, Device& device, std::size_t n,
                                     const std::vector<Tensor>& tensors);
std::unique_ptr<Optimizer> make_lamb(const OptimizerOptions& options, Device& device, std::size_t n,
                                     const std::vector<Tensor>& tensors);

// min(1, clip_norm / ||g||), the factor that brings g down to --clip-norm (Pascanu, Mikolov, Bengio
// 2013, algorithm 1); 1 without it. One pass over g.
double clip_factor(const OptimizerOptions& options, Device& device, std::span<const float> g);
// Passes of clip_factor.
inline double clip_passes(const OptimizerOptions& options) { return options.clip_norm > 0 ? 1 : 0; }

// A part of the flat vector with one weight decay.
struct DecayRun {
  std::size_t offset = 0, size = 0;
  float decay = 0;
};
// The flat vector in as few runs as possible: one run of all n elements if every tensor decays.
std::vector<DecayRun> decay_runs(const OptimizerOptions& options, std::size_t n,
                                 const std::vector<Tensor>& tensors);

// n zeros on the device.
Buffer zeros(Device& device, std::size_t n);

// The factors of Adam and LAMB at their t-th update, t = 1, 2, ...: corrections of the bias of
// moments that began at zero (Kingma & Ba 2015, section 3).
rule::Moments<float> moments(const OptimizerOptions& options, std::uint64_t t, double clip);

}  // namespace hetsgd
