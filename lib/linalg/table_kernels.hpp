// The kernel family of sharded embedding tables: a shard's rows by number, and the conversion
// between rows and the samples of a batch. Its rules (memory, order, errors, NaN) are those of
// BasicDevice. X must come from the device's stage(); its fields are read through `entry` alone.
// Numbers of rows are in host memory, where the lookup of rows makes them. Free of fmt, because
// CUDA sources include this.
//
//   shard -gather-> rows of a list -(messages)-> entries -spread-> x0, u of the samples
//   shard <-update- parts of all ranks <-(messages)- sums of entries <-sum- gradients by them
//
// Every sum has the order that its comment states, and every product is rounded before it is added,
// so all devices compute the same bits from the same operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

#include "linalg/element_rules.hpp"
#include "linalg/embedding_kernels.hpp"

namespace hetsgd {

// Rows of a shard: the first `width` of every `stride` elements are used. Optimizer state lies
// beside the rows, in arrays of the same shape; arrays that a rule lacks are null.
template <class Real>
struct ShardRows {
  Real* w = nullptr;
  Real* state[2] = {nullptr, nullptr};
  std::size_t width = 0, stride = 0;
  std::size_t rows = 0;  // of both tiers
  // A GPU's shard may have a second tier: the rows from number `on_device` on lie one after the
  // other in host memory that its kernels read and write in place. A CPU's shard has one tier.
  std::size_t on_device = ~std::size_t{0};
  Real* host_w = nullptr;
  Real* host_state[2] = {nullptr, nullptr};
};

// The rule that updates a row, element by element, from its summed gradient and its state: (g, w),
// (g, h, w), (g, m, v, w).
template <class Real>
using RowRule =
    std::variant<rule::FusedAddScaled<Real>, rule::AdaGradStep<Real>, rule::LazyMomentStep<Real>>;

// Gradients of rows in parts, one from each rank, one after the other in the order of ranks.
template <class Real>
struct RowParts {
  std::size_t parts = 0;
  const std::size_t* count = nullptr;  // [parts] rows; host memory
  const std::uint32_t* row = nullptr;  // [all] in the shard; host memory
  const Real* value = nullptr;         // [all x width]
  // [parts], host memory: the rows of a part may repeat. They are added up in their order, then
  // multiplied by the part's scale. Null: the rows of a part are distinct and need no scale.
  const Real* scale = nullptr;
};

template <class Real>
class BasicTableKernels : public KernelFamily {
 public:
  static constexpr const char* kName = "table kernels";

  // Rows row[i] of the shard (distinct) <- values[n x width], host memory; their state <- 0.
  virtual void put(const ShardRows<Real>& shard, std::size_t n, const std::uint32_t* row,
                   const Real* values) = 0;
  // out[i] <- row row[i] of the shard: [n x width].
  virtual void gather(const ShardRows<Real>& shard, std::size_t n, const std::uint32_t* row,
                      Real* out) = 0;
  // to[i] <- from[i]: `width` elements of each of n rows, which lie from_stride and to_stride
  // apart.
  virtual void copy_columns(std::size_t n, std::size_t width, const Real* from,
                            std::size_t from_stride, Real* to, std::size_t to_stride) = 0;
  // entry [X.rows x X.fields] holds indices into rows [entries x table.row()]. As gather_rows() of
  // BasicEmbeddingKernels: Y[X.rows x (K + F D)] <- the samples' vectors. If a row has a weight of
  // its own, u[X.rows] <- the sum of these weights over the fields, in their order; else u is not
  // used.
  virtual void spread(const FieldRows<Real>& X, const TableShape& table, const std::uint32_t* entry,
                      const Real* rows, Real* Y, Real* u) = 0;
  // sums[entries x table.row()] <- scale times the sum of the gradients of each entry's lookups in
  // the order of the samples. The gradients by Y are in D, those by u in d[X.rows]. scale 1
  // multiplies nothing. Every entry occurs. Only the sizes of X are read.
  virtual void sum(const FieldRows<Real>& X, const TableShape& table, const std::uint32_t* entry,
                   std::size_t entries, Real scale, const Real* D, const Real* d, Real* sums) = 0;
  // For each row that occurs: g = the sum of its parts in the order of ranks; then applies the
  // rule, once.
  virtual void update(const ShardRows<Real>& shard, const RowParts<Real>& parts,
                      const RowRule<Real>& rule) = 0;
};

using TableKernels = BasicTableKernels<float>;

}  // namespace hetsgd
