// Kernels on vectors of n: memory-bound, one pass each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "linalg/cpu/cores.hpp"
#include "linalg/cpu/memory.hpp"
#include "linalg/operands.hpp"

namespace hetsgd::cpu {

template <class Real>
void fill(const Cores& cores, std::size_t n, Real a, Real* y);
template <class Real>
void axpby(const Cores& cores, std::size_t n, Real a, const Real* x, Real b, Real* y);
template <class Real>
void combine(const Cores& cores, std::size_t n, double a, const Real* x, double b, const Real* y,
             Real* z);
template <class Real>
void momentum_merge(const Cores& cores, std::size_t n, const Real* merged, Real gamma, Real* w,
                    Real* previous);

// Y[r] = a, Y[r] += a X[r] for the rows that are named. Split by rows, which do not repeat.
template <class Real>
void fill_rows(const Cores& cores, std::span<const std::uint32_t> rows, std::size_t n, Real a,
               Real* Y);
template <class Real>
void add_rows(const Cores& cores, std::span<const std::uint32_t> rows, std::size_t n, Real a,
              const Real* X, Real* Y);

// Sums in double over fixed chunks, added in order: the same bits for every number of cores.
// `partial` holds the sums of each chunk when several cores share the work.
template <class Real>
double dot(const Cores& cores, std::size_t n, const Real* x, const Real* y,
           Scratch<double>& partial);
template <class Real>
Products products(const Cores& cores, std::size_t n, const Real* x, const Real* y,
                  Scratch<double>& partial);

}  // namespace hetsgd::cpu
