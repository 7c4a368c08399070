// Dense layer kernels: bias, ReLU, column sums, softmax and sigmoid losses, top-k.
// The contracts are those of BasicDevice.
#pragma once

#include <cstddef>
#include <cstdint>

#include "linalg/cpu/cores.hpp"
#include "linalg/cpu/memory.hpp"
#include "linalg/device.hpp"

namespace hetsgd::cpu {

template <class Real>
void bias_relu(const Cores& cores, std::size_t rows, std::size_t n, const Real* bias, Real* Y);
template <class Real>
void relu_backward(const Cores& cores, std::size_t rows, std::size_t n, const Real* Y, Real* D);
template <class Real>
void column_sums(const Cores& cores, std::size_t rows, std::size_t n, Real alpha, const Real* D,
                 Real* b);

// gradient: Z becomes scale * (softmax - T); else Z + bias. `losses` holds one number per row.
template <class Real>
double softmax_rows(const Cores& cores, const SparseRows<Real>& labels, std::size_t n,
                    const Real* bias, bool gradient, Real scale, Real* Z, Scratch<double>& losses);
template <class Real>
double sigmoid_rows(const SparseRows<Real>& labels, const Real* bias, bool gradient, Real scale,
                    Real* Z);

template <class Real>
void top_k(const Cores& cores, std::size_t rows, std::size_t n, const Real* Z, std::size_t k,
           std::uint32_t* top);

}  // namespace hetsgd::cpu
