// The table kernels of the CPU.
#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "linalg/cores/memory.hpp"
#include "linalg/cpu/backend.hpp"
#include "linalg/cpu/table_rows.hpp"
#include "linalg/distinct.hpp"
#include "linalg/table_kernels.hpp"

namespace hetsgd::cpu {

namespace {

// The step of a row by its rule. The shard is a value, for the reason given at gather_range().
template <class Real>
struct RowStep {
  const ShardRows<Real> shard;
  std::size_t at;  // index of the row's first element
  const Real* g;

  void operator()(const rule::FusedAddScaled<Real>& rule) const {
    Real* const w = shard.w + at;
#pragma GCC ivdep
    for (std::size_t j = 0; j < shard.width; ++j) rule(g[j], w[j]);
  }
  void operator()(const rule::AdaGradStep<Real>& rule) const {
    Real *const w = shard.w + at, *const h = shard.state[0] + at;
#pragma GCC ivdep
    for (std::size_t j = 0; j < shard.width; ++j) rule(g[j], h[j], w[j]);
  }
  void operator()(const rule::LazyMomentStep<Real>& rule) const {
    Real *const w = shard.w + at, *const m = shard.state[0] + at, *const v = shard.state[1] + at;
#pragma GCC ivdep
    for (std::size_t j = 0; j < shard.width; ++j) rule(g[j], m[j], v[j], w[j]);
  }
};

template <class Real>
void prefetch_shard_row(const ShardRows<Real>& shard, std::uint32_t row) {
  const std::size_t at = row * shard.stride;
  prefetch_table_row(shard.w + at, shard.width);
  for (const Real* state : shard.state) {
    if (state) prefetch_table_row(state + at, shard.width);
  }
}

// Gradients by row, added up in the order of the calls. Each core has its own.
template <class Real>
class SumsByRow {
 public:
  void begin(std::size_t most, std::size_t width) {
    distinct_.begin(std::max<std::size_t>(most, 1));
    width_ = width;
    if (sum_.size() < most * width) sum_.resize(most * width);
  }
  // Adds a gradient to the row's sum. Returns whether the row is a new one.
  bool add(std::uint32_t row, const Real* g) {
    const std::size_t before = distinct_.count(), slot = distinct_.slot(row);
    Real* const sum = sum_.data() + slot * width_;
    if (slot < before) {
      add_numbers(width_, g, sum);
      return false;
    }
    copy_numbers(width_, g, sum);
    return true;
  }
  std::span<const std::uint32_t> rows() const { return distinct_.found(); }
  Real* sum(std::size_t slot) { return sum_.data() + slot * width_; }

 private:
  DistinctNumbers distinct_;
  std::vector<Real> sum_;  // [rows x width]
  std::size_t width_ = 0;
};

template <class Real>
void scale_numbers(std::size_t n, Real factor, Real* to) {
  for (std::size_t i = 0; i < n; ++i) to[i] *= factor;
}

template <class Real>
struct UpdateScratch {
  SumsByRow<Real> all, part;  // of all parts; of the current part
};

template <class Real>
class CpuTableKernels final : public BasicTableKernels<Real> {
 public:
  explicit CpuTableKernels(const Cores& cores) : cores_(cores), scratch_(cores) {}

  void put(const ShardRows<Real>& shard, std::size_t n, const std::uint32_t* row,
           const Real* values) override {
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t at = row[i] * shard.stride;
      std::fill_n(std::copy_n(values + i * shard.width, shard.width, shard.w + at),
                  shard.stride - shard.width, Real(0));
      for (Real* state : shard.state) {
        if (state) std::fill_n(state + at, shard.stride, Real(0));
      }
    }
  }

  void gather(const ShardRows<Real>& shard, std::size_t n, const std::uint32_t* row,
              Real* out) override {
    cores_.split(n, 1, 256, [&](Range range) {
      with_width(shard.width, [&](auto width) {
        gather_range(shard.w, shard.stride, width, row + range.begin, range.size(),
                     out + range.begin * shard.width);
      });
    });
  }

  void copy_columns(std::size_t n, std::size_t width, const Real* from, std::size_t from_stride,
                    Real* to, std::size_t to_stride) override {
    for (std::size_t i = 0; i < n; ++i) {
      copy_numbers(width, from + i * from_stride, to + i * to_stride);
    }
  }

  // Split by samples.
  void spread(const FieldRows<Real>& X, const TableShape& table, const std::uint32_t* entry,
              const Real* rows, Real* Y, Real* u) override {
    const std::size_t D = table.embedding, C = table.row(), width = X.columns + X.fields * D;
    cores_.split(X.rows, 1, 16, [&](Range range) {
      for (std::size_t r = range.begin; r < range.end; ++r) {
        Real* const y = Y + r * width;
        const float* const dense = X.dense + X.source_row(r) * X.columns;
        for (std::size_t j = 0; j < X.columns; ++j) y[j] = static_cast<Real>(dense[j]);
        Real own = 0;
        with_width(D, [&](auto numbers) {
          own = copy_rows(X.fields, entry + r * X.fields, numbers, C, rows, y + X.columns);
        });
        if (table.extra > 0) u[r] = own;
      }
    });
  }

  // Split by fields, which share no entry, so that every sum has one order.
  void sum(const FieldRows<Real>& X, const TableShape& table, const std::uint32_t* entry,
           std::size_t entries, Real scale, const Real* D, const Real* d, Real* sums) override {
    const std::size_t numbers = entries * table.row(), parts = std::min(cores_.count(), X.fields);
    cores_.split(numbers, 16, 4096,
                 [&](Range range) { std::fill(sums + range.begin, sums + range.end, Real(0)); });
    cores_.run(parts, [&](std::size_t part) {
      with_width(table.embedding, [&](auto width) {
        add_fields(X, width, table.extra, entry, part_of(X.fields, parts, part), D, d, sums);
      });
    });
    if (scale == Real(1)) return;
    cores_.split(numbers, 16, 4096,
                 [&](Range range) { scale_numbers(range.size(), scale, sums + range.begin); });
  }

  // Split by rows, so that no two cores share one and every sum has one order.
  void update(const ShardRows<Real>& shard, const RowParts<Real>& parts,
              const RowRule<Real>& rule) override {
    const std::size_t n = std::accumulate(parts.count, parts.count + parts.parts, std::size_t{0});
    if (parts.parts == 1 && !parts.scale) return update_distinct(shard, n, parts, rule);
    std::vector<UpdateScratch<Real>>& scratch = scratch_.get();
    if (scratch.size() < cores_.count()) scratch.resize(cores_.count());
    const std::size_t split = std::clamp<std::size_t>(n / 1024, 1, cores_.count());
    cores_.run(split, [&](std::size_t part) {
      SumsByRow<Real>& sums = scratch[part].all;
      sums.begin(n, shard.width);
      add_parts(shard, parts, split, part, scratch[part]);
      std::visit(
          [&](const auto& each) {
            for (std::size_t i = 0; i < sums.rows().size(); ++i) {
              RowStep<Real>{shard, sums.rows()[i] * shard.stride, sums.sum(i)}(each);
            }
          },
          rule);
    });
  }

 private:
  // All arguments are values, because a compiler must assume that the copy overwrites referenced
  // ones.
  template <class Width>
  static void gather_range(const Real* w, std::size_t stride, Width width, const std::uint32_t* row,
                           std::size_t n, Real* out) {
    const std::size_t ahead = table_rows_ahead<Real>(width);
    for (std::size_t i = 0; i < std::min(n, ahead); ++i)
      prefetch_table_row(w + row[i] * stride, width);
    for (std::size_t i = 0; i < n; ++i, out += width) {
      if (i + ahead < n) prefetch_table_row(w + row[i + ahead] * stride, width);
      copy_numbers(width, w + row[i] * stride, out);
    }
  }

  template <class Width>
  static void add_fields(const FieldRows<Real>& X, Width E, std::size_t extra,
                         const std::uint32_t* entry, Range fields, const Real* D, const Real* d,
                         Real* sums) {
    const std::size_t C = E + extra, width = X.columns + X.fields * E;
    for (std::size_t r = 0; r < X.rows; ++r) {
      const Real* from = D + r * width + X.columns + fields.begin * E;
      for (std::size_t f = fields.begin; f < fields.end; ++f, from += E) {
        Real* const to = sums + entry[r * X.fields + f] * C;
        add_numbers(E, from, to);
        if (extra > 0) to[E] += d[r];
      }
    }
  }

  // Adds up the gradients of the rows whose number is `part` modulo `split`.
  static void add_parts(const ShardRows<Real>& shard, const RowParts<Real>& parts,
                        std::size_t split, std::size_t part, UpdateScratch<Real>& scratch) {
    const std::uint32_t* row = parts.row;
    const Real* value = parts.value;
    for (std::size_t p = 0; p < parts.parts; ++p) {
      SumsByRow<Real>& to = parts.scale ? scratch.part : scratch.all;
      if (parts.scale) to.begin(parts.count[p], shard.width);
      for (std::size_t i = 0; i < parts.count[p]; ++i, ++row, value += shard.width) {
        if (*row % split != part) continue;
        if (to.add(*row, value)) prefetch_shard_row(shard, *row);
      }
      if (!parts.scale) continue;
      for (std::size_t i = 0; i < to.rows().size(); ++i) {
        Real* const sum = to.sum(i);
        for (std::size_t j = 0; j < shard.width; ++j) sum[j] *= parts.scale[p];
        scratch.all.add(to.rows()[i], sum);
      }
    }
  }

  // A single part of distinct rows needs no sums.
  void update_distinct(const ShardRows<Real>& shard, std::size_t n, const RowParts<Real>& parts,
                       const RowRule<Real>& rule) {
    cores_.split(n, 1, 256, [&](Range range) {
      std::visit(
          [&](const auto& each) {
            update_range(shard, parts.row + range.begin, range.size(),
                         parts.value + range.begin * shard.width, each);
          },
          rule);
    });
  }
  template <class Rule>
  static void update_range(const ShardRows<Real> shard, const std::uint32_t* row, std::size_t n,
                           const Real* g, const Rule rule) {
    const std::size_t ahead = table_rows_ahead<Real>(shard.width);
    for (std::size_t i = 0; i < n; ++i, g += shard.width) {
      if (i + ahead < n) prefetch_shard_row(shard, row[i + ahead]);
      RowStep<Real>{shard, row[i] * shard.stride, g}(rule);
    }
  }

  const Cores& cores_;
  DeviceScratch<std::vector<UpdateScratch<Real>>> scratch_;
};

const RegisterKernels<Backend, BasicTableKernels, CpuTableKernels> table_kernels;

}  // namespace

}  // namespace hetsgd::cpu
