// The embedding kernels of the CPU.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "linalg/cores/memory.hpp"
#include "linalg/cpu/backend.hpp"
#include "linalg/cpu/table_rows.hpp"
#include "linalg/distinct.hpp"
#include "linalg/embedding_kernels.hpp"

namespace hetsgd::cpu {

namespace {

// Sums of one core for one field: gradients by category, added up in the order of the samples.
template <class Real>
struct RowSums {
  DistinctNumbers distinct;
  Scratch<Real> sum, own;  // [distinct x D], [distinct]
};

template <class Real>
class CpuEmbeddingKernels final : public BasicEmbeddingKernels<Real> {
 public:
  explicit CpuEmbeddingKernels(const Cores& cores) : cores_(cores), sums_(cores) {}

  // Split by samples. Rows of a large table come from memory in random order, which no hardware
  // prefetcher predicts, so the rows of the sample after next are prefetched.
  void gather_rows(const FieldRows<Real>& X, const TableShape& table, const Real* W, Real* Y,
                   Real* z) override {
    constexpr std::size_t kAhead = 2;
    const std::size_t D = table.embedding, C = table.row();
    const std::size_t width = X.columns + X.fields * D;
    cores_.split(X.rows, 1, 16, [&](Range rows) {
      const auto ask = [&](std::size_t r) {
        if (r >= rows.end) return;
        const std::uint32_t* const category = X.category + X.source_row(r) * X.fields;
        for (std::size_t f = 0; f < X.fields; ++f) prefetch_table_row(W + category[f] * C, C);
      };
      for (std::size_t r = rows.begin; r < rows.begin + kAhead; ++r) ask(r);
      for (std::size_t r = rows.begin; r < rows.end; ++r) {
        ask(r + kAhead);
        const std::size_t source = X.source_row(r);
        Real* const y = Y + r * width;
        const float* const dense = X.dense + source * X.columns;
        for (std::size_t j = 0; j < X.columns; ++j) y[j] = static_cast<Real>(dense[j]);
        Real sum = 0;
        with_width(D, [&](auto numbers) {
          sum = copy_rows(X.fields, X.category + source * X.fields, numbers, C, W, y + X.columns);
        });
        if (table.extra > 0) z[r] = sum;
      }
    });
  }

  // Split by fields, so that no two cores share a row of G and every sum has one order.
  void update_rows(const FieldRows<Real>& X, const TableShape& table, Real alpha, const Real* D,
                   const Real* d, Real* G) override {
    std::vector<RowSums<Real>>& scratch = sums_.get();
    if (scratch.size() < cores_.count()) scratch.resize(cores_.count());
    const std::size_t parts = std::min(cores_.count(), X.fields);
    cores_.run(parts, [&](std::size_t part) {
      const Range fields = part_of(X.fields, parts, part);
      with_width(table.embedding, [&](auto width) {
        for (std::size_t f = fields.begin; f < fields.end; ++f) {
          if (table.extra > 0) {
            add_up<true>(X, f, width, D, d, G, scratch[part]);
            add_sums<true>(scratch[part], width, alpha, G);
          } else {
            add_up<false>(X, f, width, D, d, G, scratch[part]);
            add_sums<false>(scratch[part], width, alpha, G);
          }
        }
      });
    });
  }

 private:
  // Adds up the gradients of field f. Its rows have `width` elements, and one more if with_own.
  template <bool with_own, class Width>
  static void add_up(const FieldRows<Real>& X, std::size_t f, Width width, const Real* D,
                     const Real* d, const Real* G, RowSums<Real>& scratch) {
    constexpr std::size_t kAhead = 8;
    constexpr Real kNothing = Real(-0.0);
    const std::size_t C = width + (with_own ? 1 : 0), stride = X.columns + X.fields * width;
    const Real* from = D + X.columns + f * width;
    DistinctNumbers& distinct = scratch.distinct;
    distinct.begin(X.rows);
    Real* const sums = scratch.sum.reserve(X.rows * width);
    Real* const owns = scratch.own.reserve(X.rows);
    for (std::size_t r = 0; r < X.rows; ++r, from += stride) {
      // The gradients of a field lie far apart, at a distance that no prefetcher follows.
      if (r + kAhead < X.rows) prefetch_table_row(from + kAhead * stride, width);
      const std::uint32_t category = X.category[X.source_row(r) * X.fields + f];
      // A first gradient is added to -0, which keeps all its bits. So no branch is needed for the
      // first one.
      std::fill_n(sums + distinct.count() * width, width, kNothing);
      if constexpr (with_own) owns[distinct.count()] = kNothing;
      const std::size_t slot = distinct.slot(category);
      prefetch_table_row(G + category * C, C);
      add_numbers(width, from, sums + slot * width);
      if constexpr (with_own) owns[slot] += d[r];
    }
  }

  template <bool with_own, class Width>
  static void add_sums(RowSums<Real>& scratch, Width width, Real alpha, Real* G) {
    const std::size_t C = width + (with_own ? 1 : 0);
    const Real* sum = scratch.sum.reserve(0);
    const Real* own = scratch.own.reserve(0);
    for (const std::uint32_t category : scratch.distinct.found()) {
      Real* const g = G + category * C;
      add_scaled_numbers(width, alpha, sum, g);
      if constexpr (with_own) g[width] = std::fma(alpha, *own++, g[width]);
      sum += width;
    }
  }

  const Cores& cores_;
  DeviceScratch<std::vector<RowSums<Real>>> sums_;
};

const RegisterKernels<Backend, BasicEmbeddingKernels, CpuEmbeddingKernels> embedding_kernels;

}  // namespace

}  // namespace hetsgd::cpu
