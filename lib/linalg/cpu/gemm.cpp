#include "linalg/cpu/gemm.hpp"

#include "linalg/cpu/tile.hpp"

namespace hetsgd::cpu {

namespace {

constexpr std::size_t kDepth = 256;  // of one chunk of k: its panel of B (32 KiB) stays in L1

template <class Real>
constexpr std::size_t kPanel = 2 * kLanes<Real>;

// panel[k][kPanel] <- op(B)(k0 + k, j0 + ..), zero right of the last column.
template <class Real>
void pack_panel(const GemmArguments<Real>& g, Range k, std::size_t j0, Real* panel) {
  const std::size_t columns = std::min(kPanel<Real>, g.n - j0);
  if (g.b_column == 1) {
    for (std::size_t kk = k.begin; kk < k.end; ++kk, panel += kPanel<Real>) {
      const Real* row = g.B + kk * g.b_k + j0;
      for (std::size_t j = 0; j < columns; ++j) panel[j] = row[j];
      for (std::size_t j = columns; j < kPanel<Real>; ++j) panel[j] = Real(0);
    }
    return;
  }
  for (std::size_t j = 0; j < kPanel<Real>; ++j) {
    const Real* column = g.B + (j0 + j) * g.b_column + k.begin * g.b_k;
    for (std::size_t kk = 0; kk < k.size(); ++kk) {
      panel[kk * kPanel<Real> + j] = j < columns ? column[kk * g.b_k] : Real(0);
    }
  }
}

template <class Real, int vectors>
void multiply_panel(const GemmArguments<Real>& g, Range rows, Range k, Real beta, std::size_t j0,
                    const Real* panel) {
  for_row_tiles(rows.size(), [&](std::size_t i, auto tile) {
    constexpr int kRows = decltype(tile)::value;
    Vec<Real> sum[kRows][vectors] = {};
    const Real* a = g.A + (rows.begin + i) * g.a_row + k.begin * g.a_k;
    if (g.a_row == 1) {
      accumulate<Real, kRows, vectors>(k.size(), a, 1, g.a_k, panel, kPanel<Real>, sum);
    } else {
      accumulate<Real, kRows, vectors>(k.size(), a, g.a_row, g.a_k, panel, kPanel<Real>, sum);
    }
    write_tile<Real, kRows, vectors>(sum, g.alpha, beta, g.C + (rows.begin + i) * g.ldc + j0, g.ldc,
                                     g.n - j0);
  });
}

template <class Real>
void multiply(const GemmArguments<Real>& g, Range rows, Range columns, Real* panel) {
  for (std::size_t j = columns.begin; j < columns.end; j += kPanel<Real>) {
    std::size_t k0 = 0;
    do {  // once for k = 0 too: C <- beta C
      const Range k{k0, std::min(g.k, k0 + kDepth)};
      const Real beta = k0 == 0 ? g.beta : Real(1);
      pack_panel(g, k, j, panel);
      if (g.n - j > kLanes<Real>) {
        multiply_panel<Real, 2>(g, rows, k, beta, j, panel);
      } else {
        multiply_panel<Real, 1>(g, rows, k, beta, j, panel);
      }
      k0 = k.end;
    } while (k0 < g.k);
  }
}

}  // namespace

template <class Real>
void gemm(const Cores& cores, const GemmArguments<Real>& g, Scratch<Real>& pack) {
  if (g.m == 0 || g.n == 0) return;
  constexpr std::size_t kPack = kDepth * kPanel<Real>;
  // A hand-over to another core costs microseconds: below this much work one core does it all.
  constexpr std::size_t kWorthSharing = std::size_t{1} << 18;
  const std::size_t parts = g.m * g.n * (g.k + 1) < kWorthSharing ? 1 : cores.count();
  Real* panels = pack.reserve(kPack * parts);
  const bool by_column = g.n / kPanel<Real> >= g.m / kTileRows;
  cores.run(parts, [&](std::size_t part) {
    const Range rows = by_column ? Range{0, g.m} : part_of(g.m, parts, part, kTileRows);
    const Range columns = by_column ? part_of(g.n, parts, part, kPanel<Real>) : Range{0, g.n};
    if (rows.size() > 0) multiply(g, rows, columns, panels + part * kPack);
  });
}

template void gemm<float>(const Cores&, const GemmArguments<float>&, Scratch<float>&);
template void gemm<double>(const Cores&, const GemmArguments<double>&, Scratch<double>&);

}  // namespace hetsgd::cpu
