// The embedding kernels of the CPU.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "linalg/cpu/cores.hpp"
#include "linalg/cpu/memory.hpp"
#include "linalg/cpu/table_rows.hpp"
#include "linalg/distinct.hpp"
#include "linalg/embedding_kernels.hpp"

namespace hetsgd::cpu {

namespace {

// Of one core.
template <class Real>
struct RowSums {
  DistinctNumbers distinct;
  std::vector<Real> sum;  // [distinct x row]
};

template <class Real>
class CpuEmbeddingKernels final : public BasicEmbeddingKernels<Real> {
 public:
  explicit CpuEmbeddingKernels(const Cores& cores) : cores_(cores), sums_(cores) {}

  // Split by samples. Rows of a large table come from memory in random order, which no hardware
  // prefetcher foresees: those of the next sample but one are asked for before they are needed.
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
        const Real sum =
            gather_sample(X.fields, X.category + source * X.fields, D, C, W, y + X.columns);
        if (table.extra > 0) z[r] = sum;
      }
    });
  }

  // Split by fields, so that no two cores meet in a row of G and every sum has one order.
  void update_rows(const FieldRows<Real>& X, const TableShape& table, Real alpha, const Real* D,
                   const Real* d, Real* G) override {
    std::vector<RowSums<Real>>& scratch = sums_.get();
    if (scratch.size() < cores_.count()) scratch.resize(cores_.count());
    const std::size_t parts = std::min(cores_.count(), X.fields);
    cores_.run(parts, [&](std::size_t part) {
      const Range fields = part_of(X.fields, parts, part);
      for (std::size_t f = fields.begin; f < fields.end; ++f) {
        add_up(X, f, table, D, d, G, scratch[part]);
        add_sums(scratch[part], table, alpha, G);
      }
    });
  }

 private:
  // The sum of what the rows have behind their embeddings. All arguments are values: what a copy
  // writes could otherwise be one of them, to the compiler.
  static Real gather_sample(std::size_t fields, const std::uint32_t* category, std::size_t D,
                            std::size_t C, const Real* W, Real* y) {
    Real sum = 0;
    for (std::size_t f = 0; f < fields; ++f, y += D) {
      const Real* const w = W + category[f] * C;
      copy_numbers(D, w, y);
      if (C > D) sum += w[D];
    }
    return sum;
  }

  static void add_up(const FieldRows<Real>& X, std::size_t f, const TableShape& table,
                     const Real* D, const Real* d, const Real* G, RowSums<Real>& scratch) {
    const std::size_t width = X.columns + X.fields * table.embedding, C = table.row();
    constexpr std::size_t kAhead = 8;
    const Real* from = D + X.columns + f * table.embedding;
    scratch.distinct.begin(X.rows);
    if (scratch.sum.size() < X.rows * C) scratch.sum.resize(X.rows * C);
    for (std::size_t r = 0; r < X.rows; ++r, from += width) {
      // The gradients of a field lie far apart, at a distance that no prefetcher follows.
      if (r + kAhead < X.rows) prefetch_table_row(from + kAhead * width, table.embedding);
      const std::uint32_t category = X.category[X.source_row(r) * X.fields + f];
      const std::size_t before = scratch.distinct.found().size();
      const std::size_t slot = scratch.distinct.slot(category);
      Real* const sum = scratch.sum.data() + slot * C;
      if (slot == before) {
        prefetch_table_row(G + category * C, C);
        for (std::size_t j = 0; j < table.embedding; ++j) sum[j] = from[j];
        if (table.extra > 0) sum[table.embedding] = d[r];
      } else {
        for (std::size_t j = 0; j < table.embedding; ++j) sum[j] += from[j];
        if (table.extra > 0) sum[table.embedding] += d[r];
      }
    }
  }

  static void add_sums(const RowSums<Real>& scratch, const TableShape& table, Real alpha, Real* G) {
    const std::size_t C = table.row();
    const Real* sum = scratch.sum.data();
    for (const std::uint32_t category : scratch.distinct.found()) {
      Real* const g = G + category * C;
      for (std::size_t j = 0; j < C; ++j) g[j] = std::fma(alpha, sum[j], g[j]);
      sum += C;
    }
  }

  const Cores& cores_;
  DeviceScratch<std::vector<RowSums<Real>>> sums_;
};

const RegisterKernels<Cores, BasicEmbeddingKernels, CpuEmbeddingKernels> embedding_kernels;

}  // namespace

}  // namespace hetsgd::cpu
