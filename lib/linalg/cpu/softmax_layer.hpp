// The softmax output layer on the CPU: forward, gradient and update, block of labels by block.
//
// With many labels this layer is nearly the whole cost of a model. Plain products would move the
// logits [batch x labels] five times and the weights four times through memory. Here, for each
// block of labels that fits in L2:
//   pass 1   Z = A W^T + b in tiles, the block's maximum per sample, E = exp(Z - maximum), its sum
//   between  the maximum and the sum over all labels from those of the blocks (online softmax,
//            Milakov & Gimelshein 2018), and the loss
//   pass 2   D = factor E - T; dA += D W with the old W; G = beta G + alpha D^T A, which with G = W
//            is the update
// Each weight is read twice and written once. Each E is written once, read once and changed in
// place.
//
// A block's values lie as [panel of samples][label][sample]. The batch is in the lanes of the
// vectors, so softmax needs no sums across lanes. W [outputs x inputs] is read in place: its
// elements are broadcast in pass 1, and its rows are the vectors of pass 2. With W as [inputs x
// outputs] one of the two would have to be packed anew in every step, since every step changes W.
//
// Cores divide the blocks of labels among themselves. With gathered rows (layer.row) there are many
// rows for few labels. Cores then divide the panels of samples instead, and pass 2 has two halves
// with a barrier between them: dA by panels, then G by labels. Then no sum depends on the cores. So
// that scratch does not grow with the targets of a batch, they are computed in groups.
//
// With factors in BF16 the products are those of softmax_bf16.hpp. The rest is the same: maxima,
// exponentials, targets, and the sums of D for the biases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "linalg/cores/cores.hpp"
#include "linalg/cores/memory.hpp"
#include "linalg/cpu/softmax_bf16.hpp"
#include "linalg/cpu/tile.hpp"
#include "linalg/output_layer_kernels.hpp"

namespace hetsgd::cpu {

template <class Real>
class SoftmaxLayerKernel {
 public:
  // group_bytes: what the logits of a group of gathered rows may take; 256 rows are a group anyway.
  explicit SoftmaxLayerKernel(std::size_t group_bytes = std::size_t{256} << 20)
      : group_bytes_(group_bytes) {}

  // See BasicOutputLayerKernels::softmax_layer.
  double run(const Cores& cores, const SparseRows<Real>& labels, const SoftmaxLayer<Real>& layer,
             Precision precision = Precision::fp32);

 private:
  static constexpr std::size_t kPanel = cpu::kPanel<Real>;  // samples, or inputs, side by side
  // Blocks are whole groups of kLabels labels (in BF16 of kBf16Block), planned for whole groups of
  // kSamples samples: the same on every machine.
  static constexpr std::size_t kLabels = 8, kSamples = 2 * kLanes<Real>;

  // Some of the gathered rows, whose logits fit into scratch; else all rows.
  struct Group {
    bool first, last;
  };

  void run_group(const Cores& cores, const SparseRows<Real>& labels,
                 const SoftmaxLayer<Real>& layer, Group group);
  void plan(const Cores& cores, const SparseRows<Real>& labels, const SoftmaxLayer<Real>& layer);
  void pack_panel(std::size_t panel);
  Range block_labels(std::size_t block) const;
  // Finds the first true label >= `label` of every sample of the panels, as positions in
  // labels.index.
  void seek(std::size_t part, std::size_t label, Range panels);

  bool by_rows() const { return layer_.row != nullptr; }
  // Products of floats alone are in BF16.
  bool in_bf16() const { return std::is_same_v<Real, float> && precision_ == Precision::bf16; }
  // Calls f(the products in BF16) where they are in use, and says whether they are.
  template <class F>
  bool in_bf16(const F& f) {
    if constexpr (std::is_same_v<Real, float>) {
      if (in_bf16()) f(bf16_);
    }
    return in_bf16();
  }
  std::size_t labels_together() const { return in_bf16() ? kBf16Block : kLabels; }
  const Real* weights(Range labels) const { return layer_.weight + labels.begin * layer_.inputs; }
  Real* input_sums(std::size_t part) const {
    return partial_ + slot(part) * slabs_ * padded_ * kPanel;
  }
  void add_bias(Range labels, std::size_t panel, Real* Z) const;
  void forward_blocks(std::size_t part, Range blocks, Range panels);
  template <int vectors>
  void forward_panel(Range labels, std::size_t panel, Real* Z) const;
  void collect_true_logits(std::size_t part, Range labels, std::size_t panel, const Real* Z);
  void exponentiate(std::size_t block, std::size_t labels, std::size_t panel, Real* Z);

  void combine(std::size_t parts);  // loss_ += the loss of the group
  double smoothed(double true_logit, std::size_t row) const;

  void backward_blocks(std::size_t part, Range blocks);
  // The two halves of pass 2 for gathered rows. `tiles` are groups of kLabels labels.
  void backward_panels(std::size_t part, Range panels);
  void backward_labels(std::size_t part, Range tiles);
  void put_bias_gradient(std::size_t label, Real sum) const;
  void differentiate(std::size_t part, std::size_t block, std::size_t panel, Real* D,
                     Vec<Real>* row_sum);
  // For the vector of samples from `first` on, whose values begin at D.
  void subtract_targets(std::size_t part, Range labels, std::size_t first, Real* D,
                        Vec<Real>* row_sum);
  void input_gradient(std::size_t part, Range labels, std::size_t panel, const Real* D,
                      const Real* edge_slab);
  // Where a part's input gradients are summed: gathered rows are no part's alone.
  std::size_t slot(std::size_t part) const { return by_rows() ? 0 : part; }
  const Real* pack_edge_slab(std::size_t part, Range labels) const;
  void weight_gradient(std::size_t part, Range labels, const Real* D);
  void write_sums(Range labels, std::size_t slab, const Real* S) const;
  void reduce_input_gradient(std::size_t parts, std::size_t panel) const;

  std::uint64_t label_count(std::size_t row) const {
    const std::size_t source = labels_.source_row(row);
    return labels_.begin[source + 1] - labels_.begin[source];
  }
  // The vectors of a panel: 1 for a last panel whose second half is empty, else kTileVectors.
  std::size_t vectors_in(std::size_t panel) const {
    return rows_ - panel * kPanel <= kLanes<Real> ? 1 : kTileVectors;
  }
  Real* block_values(std::size_t block) { return exponentials_ + block * block_size_ * padded_; }

  std::size_t group_bytes_;

  // The operands of one run.
  SparseRows<Real> labels_;
  SoftmaxLayer<Real> layer_{};
  Group group_{true, true};
  std::size_t all_rows_ = 0;  // of all groups
  Precision precision_ = Precision::fp32;
  double loss_ = 0;
  std::size_t rows_ = 0, panels_ = 0, padded_ = 0;  // samples, panels of them, panels_ * kPanel
  std::size_t slabs_ = 0;                           // panels of inputs
  std::size_t block_size_ = 0, blocks_ = 0;         // labels per block

  // Views of the scratch below.
  Real* exponentials_ = nullptr;     // [block][panel][label][kPanel]
  Real* input_by_panel_ = nullptr;   // A^T: [panel][input][kPanel samples]
  Real* input_by_slab_ = nullptr;    // A: [slab][sample][kPanel inputs]
  Real* block_max_ = nullptr;        // [block][padded]; after combine(): the factor of E
  Real* block_sum_ = nullptr;        // [block][padded]
  Real* block_total_ = nullptr;      // [block][padded] sum of the logits, for smoothing
  Real* partial_ = nullptr;          // dA per part: [part][slab][padded][kPanel]
  Real* edge_ = nullptr;             // [part][block_size][kPanel]
  Vec<Real>* row_sum_ = nullptr;     // [part][block_size]
  Real* target_ = nullptr;           // [padded] (1 - smoothing) scale / |Y|
  double* true_logit_ = nullptr;     // [part][padded] sum of the true labels' logits
  std::uint64_t* cursor_ = nullptr;  // [part][padded]
  Vec<Real>* label_sum_ = nullptr;   // [outputs] of D, over the groups so far

  Scratch<Real> numbers_;
  Scratch<Real> large_;
  Scratch<Real> old_weights_;  // before an update in place
  Scratch<Vec<Real>> label_sums_;
  SoftmaxBf16 bf16_;
  Scratch<double> doubles_;
  Scratch<std::uint64_t> cursors_;
};

}  // namespace hetsgd::cpu
