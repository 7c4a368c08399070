#include "linalg/cpu/softmax_ranks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "linalg/cpu/tile.hpp"

namespace hetsgd::cpu {

namespace {

constexpr std::size_t kInputsOfSweep =
    256;  // inputs of one sweep: a panel's part of them stays in L1

}  // namespace

template <class Real>
double SoftmaxRanksKernel<Real>::run(const Cores& cores, const SparseRows<Real>& labels,
                                     const SoftmaxLayer<Real>& layer, std::size_t k,
                                     std::uint32_t* top) {
  HETSGD_CHECK_LE(std::size_t{1}, k);
  HETSGD_CHECK_LE(k, std::size_t{16});
  HETSGD_CHECK_LE(k, layer.outputs);
  labels_ = labels;
  layer_ = layer;
  k_ = k;
  const std::size_t panels = (labels.rows + kPanel - 1) / kPanel;
  const std::size_t parts = std::clamp<std::size_t>(panels, 1, cores.count());
  input_by_panel_ =
      numbers_.reserve(panels * kPanel * (layer.inputs + 2) + parts * kBlock * kPanel);
  largest_ = input_by_panel_ + panels * kPanel * layer.inputs;
  bar_ = largest_ + panels * kPanel;
  scores_ = bar_ + panels * kPanel;
  sample_ = samples_.reserve(labels.rows);
  cores.run(parts, [&](std::size_t part) {
    const Range mine = part_of(panels, parts, part);
    for (std::size_t p = mine.begin; p < mine.end; ++p) pack_panel(p);
    for (std::size_t l = 0; l < layer.outputs; l += kBlock) {
      const Range block{l, std::min(layer.outputs, l + kBlock)};
      for (std::size_t p = mine.begin; p < mine.end; ++p) {
        measure_panel(block, p, scores_ + part * kBlock * kPanel);
      }
    }
  });
  return collect(top);
}

template <class Real>
double SoftmaxRanksKernel<Real>::collect(std::uint32_t* top) const {
  double loss = 0;
  for (std::size_t r = 0; r < labels_.rows; ++r) {
    const Sample& s = sample_[r];
    std::copy_n(s.best.label, k_, top + r * k_);
    const std::size_t source = labels_.source_row(r);
    const auto count = static_cast<double>(labels_.begin[source + 1] - labels_.begin[source]);
    if (count == 0) continue;
    loss += static_cast<double>(s.largest) + std::log(s.sum) - s.true_score / count;
  }
  return loss;
}

template <class Real>
void SoftmaxRanksKernel<Real>::pack_panel(std::size_t panel) {
  const std::size_t first = panel * kPanel, samples = samples_in(panel), inputs = layer_.inputs;
  Real* packed = input_by_panel_ + panel * inputs * kPanel;
  for (std::size_t h = 0; h < inputs; ++h, packed += kPanel) {
    for (std::size_t r = 0; r < kPanel; ++r) {
      packed[r] = r < samples ? layer_.input[layer_.source_row(first + r) * inputs + h] : Real(0);
    }
  }
  // The lowest number, not -infinity, because the difference of two -infinities is NaN.
  std::fill_n(largest_ + first, kPanel, std::numeric_limits<Real>::lowest());
  std::fill_n(bar_ + first, kPanel, std::numeric_limits<Real>::infinity());
  std::fill_n(bar_ + first, samples, std::numeric_limits<Real>::quiet_NaN());
  for (std::size_t r = first; r < first + samples; ++r) {
    sample_[r] = {.largest = largest_[r], .next_true = labels_.begin[labels_.source_row(r)]};
  }
}

template <class Real>
void SoftmaxRanksKernel<Real>::measure_panel(Range labels, std::size_t panel, Real* Z) {
  const auto measure = [&](auto vectors) {
    score<decltype(vectors)::value>(labels, panel, Z);
    for (int v = 0; v < decltype(vectors)::value; ++v) {
      add_exponentials(labels.size(), panel, static_cast<std::size_t>(v) * kLanes<Real>, Z);
    }
  };
  if (samples_in(panel) <= kLanes<Real>) {
    measure(std::integral_constant<int, 1>{});
  } else {
    measure(std::integral_constant<int, kTileVectors>{});
  }
  add_true_scores(labels, panel, Z);
}

// Z [label][kPanel] = A W^T + b; updates the maxima and the best labels.
template <class Real>
template <int vectors>
void SoftmaxRanksKernel<Real>::score(Range labels, std::size_t panel, Real* Z) {
  const std::size_t inputs = layer_.inputs;
  for (std::size_t k0 = 0; k0 < inputs; k0 += kInputsOfSweep) {
    const std::size_t depth = std::min(kInputsOfSweep, inputs - k0);
    const Real* A = input_by_panel_ + (panel * inputs + k0) * kPanel;
    for_row_tiles(labels.size(), [&](std::size_t i, auto tile) {
      constexpr int kRows = decltype(tile)::value;
      Vec<Real> sum[kRows][vectors] = {};
      accumulate<Real, kRows, vectors>(depth, layer_.weight + (labels.begin + i) * inputs + k0,
                                       inputs, 1, A, kPanel, sum);
      Real* z = Z + i * kPanel;
      for (int row = 0; row < kRows && k0 > 0; ++row) {
        const Real* before = z + static_cast<std::size_t>(row) * kPanel;
        for (int v = 0; v < vectors; ++v) {
          sum[row][v] += load(before + static_cast<std::size_t>(v) * kLanes<Real>);
        }
      }
      if (k0 + depth == inputs) {
        rank_tile<kRows, vectors>(labels.begin + i, panel, sum, z);
      } else {
        store_tile<Real, kRows, vectors>(sum, z, kPanel);
      }
    });
  }
}

// z <- z + b, stored in Z; updates the maxima and the best labels.
template <class Real>
template <int rows, int vectors>
HETSGD_INLINE void SoftmaxRanksKernel<Real>::rank_tile(std::size_t first_label, std::size_t panel,
                                                       Vec<Real> (&z)[rows][vectors], Real* Z) {
  for (int row = 0; row < rows; ++row) {
    if (layer_.bias == nullptr) break;
    const Real bias = layer_.bias[first_label + static_cast<std::size_t>(row)];
    for (int v = 0; v < vectors; ++v) z[row][v] += bias;
  }
  store_tile<Real, rows, vectors>(z, Z, kPanel);
  for (int v = 0; v < vectors; ++v) {
    const std::size_t lane = static_cast<std::size_t>(v) * kLanes<Real>;
    Real* const so_far = largest_ + panel * kPanel + lane;
    // NaN is ignored here. It ranks last, and shows in the sum of exponentials.
    Vec<Real> largest = broadcast(std::numeric_limits<Real>::lowest());
    for (int row = 0; row < rows; ++row) largest = vector_max<Real>(largest, z[row][v]);
    store(so_far, vector_max<Real>(load(so_far), largest));
    const Vec<Real> bar = load(bar_ + panel * kPanel + lane);
    if (any_lane(~(largest <= bar))) insert(first_label, rows, panel * kPanel + lane, Z + lane);
  }
}

// Inserts the scores Z [label][kPanel] of labels first_label.. into the best of the vector of
// samples at `first`.
template <class Real>
void SoftmaxRanksKernel<Real>::insert(std::size_t first_label, std::size_t count, std::size_t first,
                                      const Real* Z) {
  for (std::size_t lane = 0; lane < kLanes<Real>; ++lane) {
    Real& bar = bar_[first + lane];
    if (bar == std::numeric_limits<Real>::infinity()) continue;
    Best<Real>& best = sample_[first + lane].best;
    for (std::size_t l = 0; l < count; ++l) {
      if (Z[l * kPanel + lane] <= bar) continue;
      best.insert(k_, Z[l * kPanel + lane], static_cast<std::uint32_t>(first_label + l));
    }
    if (best.size == k_) bar = best.score[k_ - 1];
  }
}

// Updates the sums of the vector of samples at `lane` of a panel. Label l is added to partial sum l
// % kLanes.
template <class Real>
void SoftmaxRanksKernel<Real>::add_exponentials(std::size_t labels, std::size_t panel,
                                                std::size_t lane, const Real* Z) {
  constexpr std::size_t kWidth = kLanes<Real>;
  const std::size_t first = panel * kPanel + lane;
  const Vec<Real> largest = load(largest_ + first);
  const Real* z = Z + lane;
  Real sums[2][kWidth];  // of whole vectors of labels, and of the labels after them
  for (std::size_t part = 0, l = 0; part < 2; ++part) {
    Vec<Real> sum[kWidth] = {};
    for (const std::size_t end = part == 0 ? labels / kWidth * kWidth : labels; l < end;) {
#pragma GCC unroll 16
      for (std::size_t i = 0; i < kWidth && l < end; ++i, ++l) {
        sum[i] += exp_nonpositive(load(z + l * kPanel) - largest);
      }
    }
    for (std::size_t width = kWidth / 2; width > 0; width /= 2) {
      for (std::size_t i = 0; i < width; ++i) sum[i] += sum[i + width];
    }
    store(sums[part], sum[0]);
  }
  for (std::size_t i = 0; i < kWidth && first + i < labels_.rows; ++i) {
    Sample& s = sample_[first + i];
    if (s.largest != largest[i]) {
      s.sum *= std::exp(static_cast<double>(s.largest) - static_cast<double>(largest[i]));
      s.largest = largest[i];
    }
    for (const auto& sum : sums) s.sum += static_cast<double>(sum[i]);
  }
}

template <class Real>
void SoftmaxRanksKernel<Real>::add_true_scores(Range labels, std::size_t panel, const Real* Z) {
  const std::size_t first = panel * kPanel;
  for (std::size_t r = first; r < first + samples_in(panel); ++r) {
    Sample& s = sample_[r];
    const std::uint64_t end = labels_.begin[labels_.source_row(r) + 1];
    for (; s.next_true < end && labels_.index[s.next_true] < labels.end; ++s.next_true) {
      s.true_score += static_cast<double>(
          Z[(labels_.index[s.next_true] - labels.begin) * kPanel + (r - first)]);
    }
  }
}

template class SoftmaxRanksKernel<float>;
template class SoftmaxRanksKernel<double>;

}  // namespace hetsgd::cpu
