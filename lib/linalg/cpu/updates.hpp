// Optimizer updates: memory-bound, one pass each. The formulas stand at MomentumRule and MomentRule
// (linalg/device.hpp).
#pragma once

#include <cstddef>

#include "linalg/cpu/cores.hpp"
#include "linalg/cpu/memory.hpp"
#include "linalg/device.hpp"

namespace hetsgd::cpu {

template <class Real>
void momentum_step(const Cores& cores, std::size_t n, const MomentumRule<Real>& rule, const Real* g,
                   Real* v, Real* w);
template <class Real>
void moment_step(const Cores& cores, std::size_t n, const MomentRule<Real>& rule, Real step,
                 const Real* g, Real* m, Real* v, Real* w);
// Returns ||r||^2, summed in double over fixed chunks in order: the same bits for every number of
// cores. `partial` holds one number per chunk.
template <class Real>
double moment_update(const Cores& cores, std::size_t n, const MomentRule<Real>& rule, const Real* g,
                     const Real* w, Real* m, Real* v, Scratch<double>& partial);
template <class Real>
void moment_apply(const Cores& cores, std::size_t n, const MomentRule<Real>& rule, Real step,
                  const Real* m, const Real* v, Real* w);

}  // namespace hetsgd::cpu
