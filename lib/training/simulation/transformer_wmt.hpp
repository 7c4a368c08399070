// --charge transformer-wmt: the steps of the Transformer of Yang 2022 (section 5.5.2.2) on batches
// of WMT17's sentences of unequal lengths.
//
// Network : encoder and decoder of 6 layers each as in TensorFlow's official base model, 61,362,176
//           parameters. It is only charged: hetsgd has no cross-attention to learn with.
// Work    : that of the graph's nodes for sentences of m source and m target tokens. With so many
//           queries as keys, cross-attention has the work of another attention to the sentence
//           itself. Attention stores its scores and computes the masked ones, too; dropout is 0.1.
// Lengths : lognormal with median 25 and sigma 0.6, cut at 256 tokens. WMT17's are not known here,
//           so this is a guess.
//
//   batch=sentences   148 sentences (4,096 tokens on average) of like length: batch k of a window
//                     of 100 that is sorted by length has the quantile (k + 1) / 100, the last one
//                     the longest sentence of all 14,800
//   batch=tokens      4,096 padded tokens, as TensorFlow makes batches: buckets of lengths, each
//                     1.1 times as long as the one before, and as many sentences as fit
//
// Source  : Vaswani and others 2017; buckets as in official/transformer of TensorFlow's models.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.hpp"
#include "graph/graph.hpp"

namespace hetsgd {

// Sentences of `steps` source and `steps` target tokens each.
struct SentenceBatch {
  std::int64_t sentences = 0, steps = 0;
};

// Constant after construction.
class TransformerWmt {
 public:
  // `name`: transformer-wmt?batch=sentences|tokens. Throws Error(usage) for a wrong key or value.
  explicit TransformerWmt(const std::string& name);
  static constexpr std::string_view kName = "transformer-wmt";
  // Whether --charge names it, with or without a key.
  static bool is_named(const std::string& name);
  // The mean length of a run's own sentences stands for so many tokens.
  static constexpr double kMeanSteps = 30;

  const Graph& graph() const { return graph_; }  // its softmax is charged for all tokens (work)
  bool has_equal_tokens() const { return equal_tokens_; }  // batch=tokens

  // The work of a step on such a batch.
  Work work(const SentenceBatch& batch) const;
  // On a batch of so many sentences as batch=sentences has, each of `steps` tokens.
  Work work_of_steps(double steps) const;
  // The same for a worker's iteration: a pure function of the arguments, so that all algorithms of
  // a seed get the same batches.
  const Work& drawn_work(std::uint64_t seed, int rank, std::uint64_t iteration) const;
  // The mean over the draws.
  Work mean_work() const;

 private:
  // Batches of one shape, whose number is a share of all.
  struct Kind {
    double up_to = 0;  // sum of the shares of this and of all kinds before
    Work work;
  };
  void add_kind(double share, const SentenceBatch& batch);

  bool equal_tokens_ = false;
  Graph graph_, ends_;
  std::vector<Kind> kinds_;
};

}  // namespace hetsgd
