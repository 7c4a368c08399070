#include "training/simulation/transformer_wmt.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "core/key_values.hpp"
#include "core/options.hpp"
#include "core/random.hpp"
#include "graph/networks/builder.hpp"
#include "graph/variants.hpp"
#include "graph/work.hpp"

namespace hetsgd {

namespace {

constexpr std::int64_t kSentences = 148, kTokens = 4096, kLongest = 256;

using networks::Builder;

const networks::Settings kSettings{.dropout = 0.1,
                                   .transformer = {.layers = 6,
                                                   .heads = 8,
                                                   .width = 512,
                                                   .hidden = 2048,
                                                   .vocabulary = 33708,
                                                   .scores = true}};

Builder begin() {
  const networks::Transformer& t = kSettings.transformer;
  Builder net(std::string(TransformerWmt::kName), {1, 1, 1}, t.vocabulary);
  net.put({.type = NodeType::embed, .units = t.width, .positions = Positions::none});
  net.dropout(kSettings.dropout);
  return net;
}

Graph finish(Builder& net) {
  constexpr int kEmbed = 1;
  return net.finish({.type = NodeType::softmax,
                     .units = kSettings.transformer.vocabulary,
                     .tied = net.name(kEmbed)});
}

void add_attention(Builder& net) {
  const int x = net.last();
  net.norm(true);
  attend(net, kSettings, false, 1);
  add_branch(net, kSettings, x);
}

void add_wide_layers(Builder& net) {
  const int x = net.last();
  net.norm(true);
  net.linear(kSettings.transformer.hidden_width(), true);
  net.simple(NodeType::relu);
  net.linear(kSettings.transformer.width, true);
  add_branch(net, kSettings, x);
}

// Encoder and decoder one behind the other. `attentions` of a layer: to the sentence itself, and in
// the decoder to the source.
Graph encoder_decoder() {
  Builder net = begin();
  for (const int attentions : {1, 2}) {
    for (int layer = 0; layer < kSettings.transformer.layers; ++layer) {
      for (int i = 0; i < attentions; ++i) add_attention(net);
      add_wide_layers(net);
    }
    net.norm(true);
  }
  return finish(net);
}

// The decoder's embedding and the softmax. In a graph without attention every token is a target.
Graph decoder_ends() {
  Builder net = begin();
  return finish(net);
}

Work work_of_nodes(const Graph& graph, int nodes, std::int64_t samples) {
  Work sum;
  for (int i = 1; i < nodes; ++i) {
    sum = sum + node_work(graph, i, Pass::forward, samples, true) +
          node_work(graph, i, Pass::backward, samples, true);
  }
  return sum;
}

// The share of sentences of at most so many tokens.
double share_up_to(std::int64_t steps) {
  constexpr double kMedian = 25, kSigma = 0.6;
  if (steps >= kLongest) return 1;
  const double z = std::log((static_cast<double>(steps) + 0.5) / kMedian) / kSigma;
  return std::erfc(-z / std::sqrt(2.0)) / 2;
}

std::int64_t length_at(double quantile) {
  std::int64_t steps = 1;
  while (share_up_to(steps) < quantile) ++steps;
  return steps;
}

std::vector<std::pair<double, SentenceBatch>> batches_of_sentences() {
  constexpr int kWindow = 100;
  std::vector<std::pair<double, SentenceBatch>> batches;
  for (int k = 1; k <= kWindow; ++k) {
    const double quantile = k < kWindow ? static_cast<double>(k) / kWindow
                                        : 1 - 1.0 / static_cast<double>(kWindow * kSentences);
    batches.push_back({1.0 / kWindow, {kSentences, length_at(quantile)}});
  }
  return batches;
}

// A bucket holds lengths below its end, and its batches as many sentences as if all had that
// length.
std::vector<std::pair<double, SentenceBatch>> batches_of_tokens() {
  constexpr std::int64_t kFirstEnd = 8;
  std::vector<std::pair<double, SentenceBatch>> batches;
  double below = 0, all = 0;
  for (std::int64_t end = kFirstEnd; below < 1;) {
    const std::int64_t sentences = kTokens / end;
    const double up_to = share_up_to(end - 1),
                 share = (up_to - below) / static_cast<double>(sentences);
    batches.push_back({share, {sentences, end - 1}});
    all += share;
    below = up_to;
    const std::int64_t next = std::max(end + 1, end * 11 / 10);
    end = next < kLongest ? next : kLongest + 1;
  }
  for (auto& [share, batch] : batches) share /= all;
  return batches;
}

}  // namespace

TransformerWmt::TransformerWmt(const std::string& name)
    : graph_(encoder_decoder()), ends_(decoder_ends()) {
  OptionSet set;
  set.add_choice("batch", equal_tokens_, {{"sentences", false}, {"tokens", true}},
                 "Whether batches hold equally many sentences or padded tokens.");
  if (const std::size_t mark = name.find('?'); mark != std::string::npos) {
    KeyValues(name.substr(mark + 1), '&', "--charge " + name, "batch=tokens").set(set);
  }
  for (const auto& [share, batch] : equal_tokens_ ? batches_of_tokens() : batches_of_sentences()) {
    kinds_.push_back(
        {.up_to = kinds_.empty() ? share : kinds_.back().up_to + share, .work = work(batch)});
  }
}

bool TransformerWmt::is_named(const std::string& name) {
  return name.substr(0, name.find('?')) == kName;
}

Work TransformerWmt::work(const SentenceBatch& batch) const {
  const Graph chain = with_steps(graph_, batch.steps), both_ends = with_steps(ends_, batch.steps);
  return work_of_nodes(chain, chain.size() - 1, batch.sentences) +
         work_of_nodes(both_ends, both_ends.size(), batch.sentences);
}

Work TransformerWmt::work_of_steps(double steps) const {
  return work({kSentences, std::max<std::int64_t>(1, std::llround(steps))});
}

const Work& TransformerWmt::drawn_work(std::uint64_t seed, int rank,
                                       std::uint64_t iteration) const {
  RandomStream stream(seed, Purpose::sequence_length, iteration, static_cast<std::uint32_t>(rank));
  const auto kind = std::ranges::upper_bound(kinds_, stream.uniform(), {}, &Kind::up_to);
  return (kind == kinds_.end() ? kinds_.back() : *kind).work;
}

Work TransformerWmt::mean_work() const {
  Work mean{.launches = kinds_.front().work.launches};  // those of every batch
  double before = 0;
  for (const Kind& kind : kinds_) {
    const double share = kind.up_to - std::exchange(before, kind.up_to);
    mean.operations += share * kind.work.operations;
    mean.bytes += share * kind.work.bytes;
  }
  return mean;
}

}  // namespace hetsgd
