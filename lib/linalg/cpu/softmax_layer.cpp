#include "linalg/cpu/softmax_layer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "linalg/cpu/tile.hpp"

namespace hetsgd::cpu {

namespace {

constexpr std::size_t kBlockBytes = std::size_t{384} << 10;  // weights and logits of one block
constexpr std::size_t kSweep = 256;  // inputs, or samples, of one sweep: its operand stays in L1

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

}  // namespace

// Groups of gathered rows are whole sweeps, so that sums over rows are added in the same order as
// in one piece. An update in place would change the weights that later groups read: they read a
// copy.
template <class Real>
double SoftmaxLayerKernel<Real>::run(const Cores& cores, const SparseRows<Real>& labels,
                                     const SoftmaxLayer<Real>& layer, Precision precision) {
  precision_ = precision;
  const std::size_t fitting = group_bytes_ / (layer.outputs * sizeof(Real) * kSweep);
  const std::size_t group = std::max<std::size_t>(fitting, 1) * kSweep;
  all_rows_ = labels.rows;
  loss_ = 0;
  if (layer.row == nullptr || labels.rows <= group) {
    run_group(cores, labels, layer, {true, true});
    return loss_;
  }
  SoftmaxLayer<Real> part = layer;
  if (layer.weight_gradient == layer.weight) {
    const std::size_t n = layer.outputs * layer.inputs;
    Real* const old = old_weights_.reserve(n);
    cores.split(n, kPanel, kWorthACore, [from = layer.weight, old](Range range) {
      std::copy(from + range.begin, from + range.end, old + range.begin);
    });
    part.weight = old;
  }
  label_sum_ = label_sums_.reserve(layer.bias ? layer.outputs : 0);
  for (std::size_t first = 0; first < labels.rows; first += group) {
    SparseRows<Real> some = labels;
    some.rows = std::min(group, labels.rows - first);
    if (labels.row) {
      some.row += first;
    } else {
      some.begin += first;
    }
    part.row = layer.row + first;
    run_group(cores, some, part, {first == 0, first + group >= labels.rows});
  }
  return loss_;
}

template <class Real>
void SoftmaxLayerKernel<Real>::run_group(const Cores& cores, const SparseRows<Real>& labels,
                                         const SoftmaxLayer<Real>& layer, Group group) {
  group_ = group;
  plan(cores, labels, layer);
  const std::size_t all = cores.count();
  const std::size_t parts = by_rows() ? 1 : std::min(all, blocks_);  // that divide the labels
  const auto panels_of = [&](std::size_t part) { return part_of(panels_, all, part); };
  cores.run(all, [&](std::size_t part) {
    for (std::size_t p = panels_of(part).begin; p < panels_of(part).end; ++p) pack_panel(p);
  });
  in_bf16([&](const auto& products) {
    cores.split(slabs_, 1, 1, [&](Range slabs) {
      for (std::size_t slab = slabs.begin; slab < slabs.end; ++slab) {
        products.pack_slab(slab, input_by_slab_ + slab * padded_ * kPanel);
      }
    });
  });
  if (by_rows()) {
    cores.run(all, [&](std::size_t part) { forward_blocks(part, {0, blocks_}, panels_of(part)); });
  } else {
    cores.run(parts, [&](std::size_t part) {
      forward_blocks(part, part_of(blocks_, parts, part), {0, panels_});
    });
  }
  combine(by_rows() ? 1 : parts);
  if (by_rows()) {
    cores.run(all, [&](std::size_t part) { backward_panels(part, panels_of(part)); });
    const std::size_t tiles = blocks_ * (block_size_ / labels_together());
    cores.run(all, [&](std::size_t part) { backward_labels(part, part_of(tiles, all, part)); });
  } else {
    cores.run(parts,
              [&](std::size_t part) { backward_blocks(part, part_of(blocks_, parts, part)); });
  }
  cores.run(all, [&](std::size_t part) {
    for (std::size_t p = panels_of(part).begin; p < panels_of(part).end; ++p) {
      reduce_input_gradient(parts, p);
    }
  });
}

template <class Real>
void SoftmaxLayerKernel<Real>::plan(const Cores& cores, const SparseRows<Real>& labels,
                                    const SoftmaxLayer<Real>& layer) {
  labels_ = labels;
  layer_ = layer;
  rows_ = labels.rows;
  panels_ = (rows_ + kPanel - 1) / kPanel;
  padded_ = panels_ * kPanel;
  slabs_ = (layer.inputs + kPanel - 1) / kPanel;
  const std::size_t all_padded = round_up(all_rows_, kSamples);  // the same blocks in every group
  const std::size_t fitting = kBlockBytes / ((layer.inputs + all_padded) * sizeof(Real));
  const std::size_t largest =
      std::clamp<std::size_t>(fitting / labels_together() * labels_together(), 32, 512);
  // Blocks have equal size, and there is at least one for every core.
  blocks_ = std::max((layer.outputs + largest - 1) / largest,
                     std::min(by_rows() ? 1 : cores.count(), (layer.outputs + 31) / 32));
  block_size_ = round_up((layer.outputs + blocks_ - 1) / blocks_, labels_together());
  blocks_ = (layer.outputs + block_size_ - 1) / block_size_;

  const std::size_t parts = cores.count();
  const std::size_t slab = padded_ * kPanel;
  const std::size_t sizes[] = {panels_ * layer.inputs * kPanel,
                               slabs_ * slab,
                               blocks_ * padded_,
                               blocks_ * padded_,
                               (by_rows() ? 1 : parts) * slabs_ * slab,
                               parts * block_size_ * kPanel,
                               padded_,
                               layer.smoothing > 0 ? blocks_ * padded_ : 0};
  std::size_t total = 0;
  for (const std::size_t size : sizes) total += round_up(size, kPanel);
  Real* next = numbers_.reserve(total + parts * block_size_ * kLanes<Real>);
  const auto take = [&next](std::size_t size) {
    return std::exchange(next, next + round_up(size, kPanel));
  };
  input_by_panel_ = take(sizes[0]);
  input_by_slab_ = take(sizes[1]);
  block_max_ = take(sizes[2]);
  block_sum_ = take(sizes[3]);
  partial_ = take(sizes[4]);
  edge_ = take(sizes[5]);
  target_ = take(sizes[6]);
  block_total_ = layer.smoothing > 0 ? take(sizes[7]) : nullptr;
  row_sum_ = reinterpret_cast<Vec<Real>*>(next);
  exponentials_ = large_.reserve(blocks_ * block_size_ * padded_);
  true_logit_ = doubles_.reserve((parts + 1) * padded_);
  cursor_ = cursors_.reserve(parts * padded_);
  if (in_bf16()) bf16_.plan({rows_, panels_, layer.inputs, block_size_}, parts);
}

template <class Real>
void SoftmaxLayerKernel<Real>::pack_panel(std::size_t panel) {
  const std::size_t first = panel * kPanel;
  const std::size_t samples = std::min(kPanel, rows_ - first);
  const std::size_t inputs = layer_.inputs;
  Real* by_panel = input_by_panel_ + panel * inputs * kPanel;
  for (std::size_t h0 = 0; h0 < inputs; h0 += kPanel) {
    const std::size_t width = std::min(kPanel, inputs - h0);
    Real* by_slab = input_by_slab_ + (h0 / kPanel * padded_ + first) * kPanel;
    for (std::size_t r = 0; r < kPanel; ++r) {
      const Real* row =
          r < samples ? layer_.input + layer_.source_row(first + r) * inputs + h0 : nullptr;
      for (std::size_t h = 0; h < kPanel; ++h) {
        const Real x = r < samples && h < width ? row[h] : Real(0);
        by_slab[r * kPanel + h] = x;
        if (h < width) by_panel[(h0 + h) * kPanel + r] = x;
      }
    }
  }
  in_bf16([&](const auto& products) { products.pack_panel(panel, by_panel); });
  for (std::size_t r = first; r < first + kPanel; ++r) {
    const std::uint64_t count = r < rows_ ? label_count(r) : 0;
    target_[r] = count == 0 ? Real(0) : layer_.scale / static_cast<Real>(count);
    if (layer_.smoothing > 0) target_[r] *= 1 - layer_.smoothing;
  }
}

template <class Real>
Range SoftmaxLayerKernel<Real>::block_labels(std::size_t block) const {
  return {block * block_size_, std::min(layer_.outputs, (block + 1) * block_size_)};
}

template <class Real>
void SoftmaxLayerKernel<Real>::seek(std::size_t part, std::size_t label, Range panels) {
  for (std::size_t r = panels.begin * kPanel; r < std::min(rows_, panels.end * kPanel); ++r) {
    const std::size_t source = labels_.source_row(r);
    const std::uint32_t* begin = labels_.index + labels_.begin[source];
    const std::uint32_t* end = labels_.index + labels_.begin[source + 1];
    cursor_[slot(part) * padded_ + r] =
        static_cast<std::uint64_t>(std::lower_bound(begin, end, label) - labels_.index);
  }
}

// --- pass 1 -----------------------------------------------------------------------------------

template <class Real>
void SoftmaxLayerKernel<Real>::forward_blocks(std::size_t part, Range blocks, Range panels) {
  seek(part, blocks.begin * block_size_, panels);
  std::fill(true_logit_ + slot(part) * padded_ + panels.begin * kPanel,
            true_logit_ + slot(part) * padded_ + panels.end * kPanel, 0.0);
  for (std::size_t block = blocks.begin; block < blocks.end; ++block) {
    const Range labels = block_labels(block);
    in_bf16(
        [&](const auto& products) { products.pack_left(part, labels.size(), weights(labels)); });
    for (std::size_t panel = panels.begin; panel < panels.end; ++panel) {
      Real* Z = block_values(block) + panel * block_size_ * kPanel;
      if (in_bf16([&](const auto& products) { products.scores(part, labels.size(), panel, Z); })) {
        add_bias(labels, panel, Z);
      } else if (vectors_in(panel) == 1) {
        forward_panel<1>(labels, panel, Z);
      } else {
        forward_panel<kTileVectors>(labels, panel, Z);
      }
      collect_true_logits(part, labels, panel, Z);
      exponentiate(block, labels.size(), panel, Z);
    }
  }
}

template <class Real>
template <int vectors>
void SoftmaxLayerKernel<Real>::forward_panel(Range labels, std::size_t panel, Real* Z) const {
  const std::size_t inputs = layer_.inputs;
  for (std::size_t k0 = 0; k0 < inputs; k0 += kSweep) {
    const std::size_t depth = std::min(kSweep, inputs - k0);
    const Real* A = input_by_panel_ + (panel * inputs + k0) * kPanel;
    for_row_tiles(labels.size(), [&](std::size_t i, auto tile) {
      constexpr int kRows = decltype(tile)::value;
      Vec<Real> sum[kRows][vectors];
      Real* z = Z + i * kPanel;
      for (int row = 0; row < kRows; ++row) {
        const auto r = static_cast<std::size_t>(row);
        for (int v = 0; v < vectors; ++v) {
          const Real bias = layer_.bias ? layer_.bias[labels.begin + i + r] : Real(0);
          sum[row][v] = k0 == 0 ? broadcast(bias)
                                : load(z + r * kPanel + static_cast<std::size_t>(v) * kLanes<Real>);
        }
      }
      accumulate<Real, kRows, vectors>(depth, layer_.weight + (labels.begin + i) * inputs + k0,
                                       inputs, 1, A, kPanel, sum);
      store_tile<Real, kRows, vectors>(sum, z, kPanel);
    });
  }
}

template <class Real>
void SoftmaxLayerKernel<Real>::add_bias(Range labels, std::size_t panel, Real* Z) const {
  if (layer_.bias == nullptr) return;
  for (std::size_t l = 0; l < labels.size(); ++l) {
    for (std::size_t v = 0; v < vectors_in(panel); ++v) {
      Real* const z = Z + l * kPanel + v * kLanes<Real>;
      store(z, load(z) + layer_.bias[labels.begin + l]);
    }
  }
}

template <class Real>
void SoftmaxLayerKernel<Real>::collect_true_logits(std::size_t part, Range labels,
                                                   std::size_t panel, const Real* Z) {
  const std::size_t first = panel * kPanel;
  const std::size_t last = std::min(rows_, first + kPanel);
  for (std::size_t r = first; r < last; ++r) {
    std::uint64_t at = cursor_[slot(part) * padded_ + r];
    const std::uint64_t end = labels_.begin[labels_.source_row(r) + 1];
    for (; at < end && labels_.index[at] < labels.end; ++at) {
      true_logit_[slot(part) * padded_ + r] +=
          static_cast<double>(Z[(labels_.index[at] - labels.begin) * kPanel + (r - first)]);
    }
    cursor_[slot(part) * padded_ + r] = at;
  }
}

template <class Real>
void SoftmaxLayerKernel<Real>::exponentiate(std::size_t block, std::size_t labels,
                                            std::size_t panel, Real* Z) {
  for (std::size_t v = 0; v < vectors_in(panel); ++v) {
    const std::size_t lane = v * kLanes<Real>;
    Real* z = Z + lane;
    Vec<Real> largest = load(z);
    for (std::size_t l = 1; l < labels; ++l) {
      largest = vector_max<Real>(largest, load(z + l * kPanel));
    }
    const std::size_t at = block * padded_ + panel * kPanel + lane;
    if (block_total_) {
      Vec<Real> total{};
      for (std::size_t l = 0; l < labels; ++l) total += load(z + l * kPanel);
      store(block_total_ + at, total);
    }
    Vec<Real> sum{};
    for (std::size_t l = 0; l < labels; ++l) {
      const Vec<Real> e = exp_nonpositive(load(z + l * kPanel) - largest);
      store(z + l * kPanel, e);
      sum += e;
    }
    store(block_max_ + at, largest);
    store(block_sum_ + at, sum);
  }
}

// --- between the passes -----------------------------------------------------------------------

// The mean logit by a smoothed target.
template <class Real>
double SoftmaxLayerKernel<Real>::smoothed(double true_logit, std::size_t row) const {
  double total = 0;
  for (std::size_t b = 0; b < blocks_; ++b) {
    total += static_cast<double>(block_total_[b * padded_ + row]);
  }
  const auto share = static_cast<double>(layer_.smoothing);
  return (1 - share) * true_logit + share * total / static_cast<double>(layer_.outputs);
}

template <class Real>
void SoftmaxLayerKernel<Real>::combine(std::size_t parts) {
  double* total = true_logit_ + parts * padded_;
  for (std::size_t at = 0; at < padded_; at += kLanes<Real>) {
    if (at >= rows_) break;  // the empty second half of the last panel
    Vec<Real> largest = load(block_max_ + at);
    for (std::size_t b = 1; b < blocks_; ++b) {
      largest = vector_max<Real>(largest, load(block_max_ + b * padded_ + at));
    }
    std::fill_n(total + at, kLanes<Real>, 0.0);
    for (std::size_t b = 0; b < blocks_; ++b) {
      Real* const factor = block_max_ + b * padded_ + at;
      store(factor, exp_nonpositive(load(factor) - largest));
      const Real* sum = block_sum_ + b * padded_ + at;
      for (std::size_t i = 0; i < kLanes<Real>; ++i) {
        total[at + i] += static_cast<double>(factor[i]) * static_cast<double>(sum[i]);
      }
    }
    Vec<Real> inverse{};
    for (std::size_t i = 0; i < kLanes<Real> && at + i < rows_; ++i) {
      const std::uint64_t count = label_count(at + i);
      if (count == 0) continue;
      double true_logit = 0;
      for (std::size_t p = 0; p < parts; ++p) true_logit += true_logit_[p * padded_ + at + i];
      double target_logit = true_logit / static_cast<double>(count);
      if (block_total_) target_logit = smoothed(target_logit, at + i);
      loss_ += static_cast<double>(largest[i]) + std::log(total[at + i]) - target_logit;
      inverse.set(i, static_cast<Real>(static_cast<double>(layer_.scale) / total[at + i]));
    }
    for (std::size_t b = 0; b < blocks_; ++b) {
      Real* const factor = block_max_ + b * padded_ + at;
      store(factor, load(factor) * inverse);
    }
  }
}

// --- pass 2 -----------------------------------------------------------------------------------

template <class Real>
void SoftmaxLayerKernel<Real>::backward_blocks(std::size_t part, Range blocks) {
  seek(part, blocks.begin * block_size_, {0, panels_});
  std::fill_n(partial_ + part * slabs_ * padded_ * kPanel, slabs_ * padded_ * kPanel, Real(0));
  Vec<Real>* row_sum = row_sum_ + part * block_size_;
  for (std::size_t block = blocks.begin; block < blocks.end; ++block) {
    const Range labels = block_labels(block);
    const Real* edge_slab = pack_edge_slab(part, labels);
    in_bf16(
        [&](const auto& products) { products.pack_right(part, labels.size(), weights(labels)); });
    std::fill_n(row_sum, block_size_, Vec<Real>{});
    for (std::size_t panel = 0; panel < panels_; ++panel) {
      Real* D = block_values(block) + panel * block_size_ * kPanel;
      differentiate(part, block, panel, D, row_sum);
      input_gradient(part, labels, panel, D, edge_slab);
    }
    weight_gradient(part, labels, block_values(block));
    for (std::size_t l = 0; l < labels.size(); ++l) {
      put_bias_gradient(labels.begin + l, horizontal_sum<Real>(row_sum[l]));
    }
  }
}

template <class Real>
void SoftmaxLayerKernel<Real>::put_bias_gradient(std::size_t label, Real sum) const {
  if (layer_.bias == nullptr) return;
  Real& g = layer_.bias_gradient[label];
  g = layer_.beta == Real(0) ? layer_.alpha * sum : layer_.beta * g + layer_.alpha * sum;
}

template <class Real>
void SoftmaxLayerKernel<Real>::backward_panels(std::size_t part, Range panels) {
  seek(part, 0, panels);
  for (std::size_t slab = 0; slab < slabs_; ++slab) {
    std::fill(partial_ + (slab * padded_ + panels.begin * kPanel) * kPanel,
              partial_ + (slab * padded_ + panels.end * kPanel) * kPanel, Real(0));
  }
  Vec<Real>* const row_sum = row_sum_ + part * block_size_;
  for (std::size_t block = 0; block < blocks_; ++block) {
    const Range labels = block_labels(block);
    const Real* const edge_slab = pack_edge_slab(part, labels);
    in_bf16(
        [&](const auto& products) { products.pack_right(part, labels.size(), weights(labels)); });
    std::fill_n(row_sum, block_size_, Vec<Real>{});
    for (std::size_t panel = panels.begin; panel < panels.end; ++panel) {
      Real* const D = block_values(block) + panel * block_size_ * kPanel;
      differentiate(part, block, panel, D, row_sum);
      input_gradient(part, labels, panel, D, edge_slab);
    }
  }
}

template <class Real>
void SoftmaxLayerKernel<Real>::backward_labels(std::size_t part, Range tiles) {
  const std::size_t together = labels_together(), in_block = block_size_ / together;
  for (std::size_t tile = tiles.begin; tile < tiles.end;) {
    const std::size_t block = tile / in_block, first = tile % in_block * together;
    const std::size_t end = std::min(tiles.end, (block + 1) * in_block);
    const Range labels{
        std::min(layer_.outputs, block * block_size_ + first),
        std::min(layer_.outputs, block * block_size_ + first + (end - tile) * together)};
    const Real* const D = block_values(block) + first * kPanel;
    weight_gradient(part, labels, D);
    for (std::size_t l = 0; layer_.bias && l < labels.size(); ++l) {
      Vec<Real>* const so_far = label_sum_ + labels.begin + l;
      Vec<Real> sum = group_.first ? Vec<Real>{} : *so_far;
      for (std::size_t panel = 0; panel < panels_; ++panel) {
        for (std::size_t v = 0; v < vectors_in(panel); ++v) {
          sum += load(D + (panel * block_size_ + l) * kPanel + v * kLanes<Real>);
        }
      }
      if (group_.last) {
        put_bias_gradient(labels.begin + l, horizontal_sum<Real>(sum));
      } else {
        *so_far = sum;
      }
    }
    tile = end;
  }
}

template <class Real>
void SoftmaxLayerKernel<Real>::differentiate(std::size_t part, std::size_t block, std::size_t panel,
                                             Real* D, Vec<Real>* row_sum) {
  const Real shared = layer_.smoothing * layer_.scale / static_cast<Real>(layer_.outputs);
  const Range labels = block_labels(block);
  for (std::size_t v = 0; v < vectors_in(panel); ++v) {
    const std::size_t lane = v * kLanes<Real>, first = panel * kPanel + lane;
    const Vec<Real> factor = load(block_max_ + block * padded_ + first);
    // A row without labels has no target.
    const Vec<Real> target = load(target_ + first);
    const Vec<Real> share = select(target == Vec<Real>{}, Vec<Real>{}, broadcast(shared));
    for (std::size_t l = 0; l < labels.size(); ++l) {
      Real* d = D + l * kPanel + lane;
      const Vec<Real> x = layer_.smoothing > 0 ? load(d) * factor - share : load(d) * factor;
      store(d, x);
      row_sum[l] += x;
    }
    subtract_targets(part, labels, first, D + lane, row_sum);
  }
}

template <class Real>
void SoftmaxLayerKernel<Real>::subtract_targets(std::size_t part, Range labels, std::size_t first,
                                                Real* D, Vec<Real>* row_sum) {
  const std::size_t last = std::min(rows_, first + kLanes<Real>);
  for (std::size_t r = first; r < last; ++r) {
    std::uint64_t at = cursor_[slot(part) * padded_ + r];
    const std::uint64_t end = labels_.begin[labels_.source_row(r) + 1];
    for (; at < end && labels_.index[at] < labels.end; ++at) {
      const std::size_t l = labels_.index[at] - labels.begin;
      D[l * kPanel + (r - first)] -= target_[r];
      row_sum[l].set(r - first, row_sum[l][r - first] - target_[r]);
    }
    cursor_[slot(part) * padded_ + r] = at;
  }
}

// Packs the last slab of W's columns, zero-padded to a whole one. Null if the inputs are whole
// slabs.
template <class Real>
const Real* SoftmaxLayerKernel<Real>::pack_edge_slab(std::size_t part, Range labels) const {
  const std::size_t width = layer_.inputs % kPanel;
  if (width == 0) return nullptr;
  Real* edge = edge_ + part * block_size_ * kPanel;
  const Real* w = layer_.weight + labels.begin * layer_.inputs + layer_.inputs - width;
  for (std::size_t l = 0; l < labels.size(); ++l, w += layer_.inputs) {
    std::copy_n(w, width, edge + l * kPanel);
    std::fill_n(edge + l * kPanel + width, kPanel - width, Real(0));
  }
  return edge;
}

// dA[slab][panel's samples] += D W[labels, slab].
template <class Real>
void SoftmaxLayerKernel<Real>::input_gradient(std::size_t part, Range labels, std::size_t panel,
                                              const Real* D, const Real* edge_slab) {
  if (in_bf16([&](const auto& products) {
        products.add_input_gradient(part, labels.size(), panel, D, input_sums(part));
      })) {
    return;
  }
  const std::size_t samples = std::min(kPanel, rows_ - panel * kPanel);
  for (std::size_t slab = 0; slab < slabs_; ++slab) {
    const bool edge = edge_slab != nullptr && slab + 1 == slabs_;
    const Real* w = edge ? edge_slab : layer_.weight + labels.begin * layer_.inputs + slab * kPanel;
    const std::size_t ldw = edge ? kPanel : layer_.inputs;
    Real* dA = input_sums(part) + (slab * padded_ + panel * kPanel) * kPanel;
    for_row_tiles(samples, [&](std::size_t i, auto tile) {
      constexpr int kRows = decltype(tile)::value;
      Vec<Real> sum[kRows][kTileVectors];
      Real* d = dA + i * kPanel;
      load_tile<Real, kRows, kTileVectors>(d, kPanel, sum);
      accumulate<Real, kRows, kTileVectors>(labels.size(), D + i, 1, kPanel, w, ldw, sum);
      store_tile<Real, kRows, kTileVectors>(sum, d, kPanel);
    });
  }
}

// G[labels] = beta G + alpha D^T A, over all panels of samples.
template <class Real>
void SoftmaxLayerKernel<Real>::weight_gradient(std::size_t part, Range labels, const Real* D) {
  if (in_bf16([&](const auto& products) {
        products.pack_values(part, labels.size(), D, block_size_ * kPanel);
        for (std::size_t slab = 0; slab < slabs_; ++slab) {
          write_sums(labels, slab, products.weight_gradient(part, labels.size(), slab));
        }
      })) {
    return;
  }
  constexpr std::size_t kPanels = kSweep / kPanel;
  const std::size_t inputs = layer_.inputs;
  for (std::size_t slab = 0; slab < slabs_; ++slab) {
    std::size_t begin = 0;
    do {  // once for no samples too: G <- beta G
      const std::size_t end = std::min(panels_, begin + kPanels);
      const Real beta = begin == 0 && group_.first ? layer_.beta : Real(1);
      for_row_tiles(labels.size(), [&](std::size_t i, auto tile) {
        constexpr int kRows = decltype(tile)::value;
        Vec<Real> sum[kRows][kTileVectors] = {};
        for (std::size_t p = begin; p < end; ++p) {
          accumulate<Real, kRows, kTileVectors>(
              std::min(kPanel, rows_ - p * kPanel), D + (p * block_size_ + i) * kPanel, kPanel, 1,
              input_by_slab_ + (slab * padded_ + p * kPanel) * kPanel, kPanel, sum);
        }
        write_tile<Real, kRows, kTileVectors>(
            sum, layer_.alpha, beta,
            layer_.weight_gradient + (labels.begin + i) * inputs + slab * kPanel, inputs,
            inputs - slab * kPanel);
      });
      begin = end;
    } while (begin < panels_);
  }
}

// G[labels, slab] = beta G + alpha S.
template <class Real>
void SoftmaxLayerKernel<Real>::write_sums(Range labels, std::size_t slab, const Real* S) const {
  const Real beta = group_.first ? layer_.beta : Real(1);
  for (std::size_t l = labels.begin; l < labels.end; ++l, S += kPanel) {
    Vec<Real> sum[1][kTileVectors];
    load_tile<Real, 1, kTileVectors>(S, kPanel, sum);
    write_tile<Real, 1, kTileVectors>(sum, layer_.alpha, beta,
                                      layer_.weight_gradient + l * layer_.inputs + slab * kPanel,
                                      layer_.inputs, layer_.inputs - slab * kPanel);
  }
}

template <class Real>
void SoftmaxLayerKernel<Real>::reduce_input_gradient(std::size_t parts, std::size_t panel) const {
  if (layer_.input_gradient == nullptr) return;
  const std::size_t first = panel * kPanel;
  const std::size_t last = std::min(rows_, first + kPanel);
  for (std::size_t slab = 0; slab < slabs_; ++slab) {
    const std::size_t width = std::min(kPanel, layer_.inputs - slab * kPanel);
    for (std::size_t r = first; r < last; ++r) {
      Real* out = layer_.input_gradient + layer_.source_row(r) * layer_.inputs + slab * kPanel;
      const Real* in = partial_ + (slab * padded_ + r) * kPanel;
      std::copy_n(in, width, out);
      for (std::size_t p = 1; p < parts; ++p) {
        const Real* more = in + p * slabs_ * padded_ * kPanel;
        for (std::size_t h = 0; h < width; ++h) out[h] += more[h];
      }
    }
  }
}

template class SoftmaxLayerKernel<float>;
template class SoftmaxLayerKernel<double>;

}  // namespace hetsgd::cpu
