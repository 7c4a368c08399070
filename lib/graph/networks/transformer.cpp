// The parts that decoder-only and encoder-only transformers share.
#include "core/error.hpp"
#include "core/text.hpp"
#include "graph/networks/builder.hpp"

namespace hetsgd::networks {

void declare_transformer(OptionSet& set, Settings& settings) {
  Transformer& t = settings.transformer;
  set.add("layers", t.layers, "Number of blocks of attention and two linear layers.").range(1, 1e3);
  set.add("heads", t.heads, "Heads of each attention.").range(1, 1e3);
  set.add("width", t.width, "Elements of a token's vector.").range(1, 1e5);
  set.add("hidden", t.hidden, "Width between the two linear layers. auto: four times the width.")
      .range(1, 1e6);
  set.add("block", t.block, "Longest row in tokens; each position has a learned embedding.")
      .range(1, 1e5);
  set.add("steps", t.steps, "Steps of a row in plans and charges. auto: the block.").range(1, 1e5);
  set.add("vocabulary", t.vocabulary, "Kinds of tokens.").range(2, 1e6);
  set.add("dropout", settings.dropout,
          "Share of the embedding, of attention and of each branch to drop.")
      .range(0, 0.99);
  set.add("bias", t.bias, "Give linear layers and norms biases.");
  set.add("tied", t.tied, "Use the weights of the embedding in the softmax, too.");
  set.add_choice("gelu", t.gelu, {{"exact", GeluForm::exact}, {"tanh", GeluForm::tanh}}, "");
  set.add("scores", t.scores,
          "Store the scores of attention, as frameworks without fused attention do. Only for "
          "plans and charges.");
}

Builder begin_transformer(const std::string& name, const Settings& settings, int segments) {
  const Transformer& t = settings.transformer;
  if (t.width % t.heads != 0) {
    refuse(name, fmt::format("{} heads", t.heads),
           fmt::format("a divisor of the width {}", t.width), "");
  }
  const int steps = t.steps.value_or(t.block);
  if (steps > t.block) {
    refuse(name, fmt::format("{} steps", steps), fmt::format("at most {}, its block", t.block),
           fmt::format("use block={}", steps));
  }
  Builder net(name, {1, steps, 1}, t.vocabulary);
  net.put({.type = NodeType::embed, .units = t.width, .block = t.block, .segments = segments});
  return net;
}

void attend(Builder& net, const Settings& settings, bool causal, double init) {
  const Transformer& t = settings.transformer;
  net.linear(3 * std::int64_t{t.width}, t.bias);
  net.put({.type = NodeType::attention,
           .p = settings.dropout,
           .heads = t.heads,
           .causal = causal,
           .scores = t.scores});
  net.linear(t.width, t.bias, init);
}

void widen(Builder& net, const Settings& settings, double init) {
  const Transformer& t = settings.transformer;
  net.linear(t.hidden_width(), t.bias);
  net.gelu(t.gelu);
  net.linear(t.width, t.bias, init);
}

void add_branch(Builder& net, const Settings& settings, int x) {
  if (settings.dropout > 0) net.dropout(settings.dropout);
  net.join(NodeType::add, {net.last(), x});
}

}  // namespace hetsgd::networks
