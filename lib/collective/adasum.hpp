// Adasum: vectors combined by how much they agree. Orthogonal ones are added, equal ones averaged.
//
// Source : the Adasum paper, equation 8 (two vectors), equation 9 and algorithm 1 (many, a tree),
//          section 3.4 (one after the other), section 3.5 (each tensor by itself).
//   AS(a, b) = (1 - a.b / (2 ||a||^2)) a + (1 - a.b / (2 ||b||^2)) b
// Numbers: products and norms accumulate in double, the combination is made in double and rounded
//          once. A factor is 1 where its squared norm is below sqrt(DBL_MIN): AS(0, b) = b.
// Memory : the functions of vectors at one place take host memory. AdasumAllReduce takes that of
//          its process's device too, whose kernels work then; the halves of the tree go from GPU to
//          GPU (Comm::sendrecv), the slices of the linear shape through the host.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cluster/comm.hpp"
#include "cluster/endpoint.hpp"
#include "linalg/device.hpp"

namespace hetsgd {

// tree  : AS(g[0,q)) = AS(AS(g[0,q/2)), AS(g[q/2,q))), equation 9. Any number p: q = the largest
//         power of two <= p, after each odd one of the first 2(p-q) was folded into the one before.
// linear: AS(... AS(AS(g0, g1), g2) ..., g_{p-1}).
enum class AdasumShape { tree, linear };

// Tensors that tile a flat vector of n elements: tensor t is [bounds[t], bounds[t+1]). Ascending,
// the first bound is 0 and the last one n; empty tensors are allowed.
using TensorBounds = std::span<const std::size_t>;

// --- two vectors ---------------------------------------------------------------------------------
struct AdasumFactors {
  double a = 1, b = 1;
};
// Computes the factors from a.b, ||a||^2, ||b||^2 (Device::products); the combination is
// Device::combine.
AdasumFactors adasum_factors(const Products& products);

// y = AS(a, b), each tensor by itself; y may be a or b.
void adasum(TensorBounds bounds, std::span<const float> a, std::span<const float> b,
            std::span<float> y);

// --- many vectors at one place: what the collective must equal -----------------------------------
// At least one vector, each of bounds.back() elements.
std::vector<float> adasum_of(std::span<const std::vector<float>> vectors, TensorBounds bounds,
                             AdasumShape shape);

// ||x||^2 of each tensor, for the orthogonality ||AS||^2 / sum_i ||g_i||^2 (figure 2). x: memory of
// the device.
std::vector<double> squared_norms(Device& device, TensorBounds bounds, std::span<const float> x);

// --- many vectors, one per rank ------------------------------------------------------------------
struct PowerOfTwo;  // message_collectives.hpp

// all_reduce with Adasum for an operator. Keeps its scratch memory: constructed once per vector.
//
// Tree  : algorithm 1, recursive vector halving and distance doubling. Partners at distance d
//         exchange halves of their slices. The two vectors are then scattered among 2d ranks; the
//         products of the slices are summed over these, and each combines what it holds. Then back.
//         Cost with p ranks, n bytes, T tensors, latency L and bandwidth B, p = 2^m:
//           2 (m L + (p-1)/p n/B) as halving_doubling_all_reduce, and for the products
//           m (m+1)/2 (L + 24 T/B); other p: 2 (L + n/B) for the fold and the unfold.
// Linear: every rank gathers one slice of all vectors and combines them in order; the products of
//         each step are an all_reduce of 3 T doubles. Cost: (p-1) (2 L + 2 n/(p B)) and p-1 small
//         all_reduces.
// Compute: charged as ComputeKind::vector, products 8 bytes a number, combinations 12.
// Result : the same bits on all ranks. Only the order of the sums in double of the products differs
//         from adasum_of. Their relative error is below n 2^-53, so that after rounding few
//         numbers differ, by one unit in the last place.
class AdasumAllReduce {
 public:
  // `endpoint` is this process's; `comm` the group that reduces.
  AdasumAllReduce(Endpoint& endpoint, Comm& comm, std::vector<std::size_t> bounds,
                  AdasumShape shape);

  // In place; x: [bounds.back()], in host memory or in that of the node's device, on all ranks
  // alike. Collective. All messages use `tag`; a second call may follow with the same. Products
  // travel as Traffic::control.
  void operator()(std::span<float> x, int tag, Traffic kind = Traffic::gradients);

 private:
  using Slice = Comm::Block;

  void tree(std::span<float> x, int tag, Traffic kind);
  void fold(std::span<float> x, int tag, Traffic kind);
  void halve_and_double(std::span<float> x, int tag, Traffic kind, const PowerOfTwo& ranks);
  void linear(std::span<float> x, int tag, Traffic kind);
  void multiply(std::size_t begin, std::span<const float> a, std::span<const float> b);
  void combine(std::size_t begin, std::span<const float> a, std::span<const float> b,
               std::span<float> y);

  Endpoint& endpoint_;
  Comm& comm_;
  std::vector<std::size_t> bounds_;
  AdasumShape shape_;
  Device* device_ = nullptr;  // device that holds the call's vector
  Buffer incoming_;
  std::vector<double> products_, others_;  // [3 T]: ab, aa, bb of each tensor
};

}  // namespace hetsgd
