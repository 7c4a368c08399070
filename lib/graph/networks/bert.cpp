// Encoder-only transformers with norms behind the branches (Devlin and others 2018): the encoder of
// BERT and its head for masked tokens, without the pooler and the task of next sentences.
#include "graph/networks/builder.hpp"

namespace hetsgd::networks {
namespace {

Graph bert(const std::string& name, const Settings& settings) {
  constexpr int kSegments = 2;
  const Transformer& t = settings.transformer;
  Builder net = begin_transformer(name, settings, kSegments);
  const std::string embed = net.name(net.last());
  net.norm(t.bias);
  if (settings.dropout > 0) net.dropout(settings.dropout);
  for (int layer = 0; layer < t.layers; ++layer) {
    int x = net.last();
    attend(net, settings, false, 1);
    add_branch(net, settings, x);
    net.norm(t.bias);
    x = net.last();
    widen(net, settings, 1);
    add_branch(net, settings, x);
    net.norm(t.bias);
  }
  net.linear(t.width, t.bias);
  net.gelu(t.gelu);
  net.norm(t.bias);
  return net.finish({.type = NodeType::softmax,
                     .units = t.vocabulary,
                     .bias = t.bias,
                     .tied = t.tied ? embed : ""});
}

void add_bert(std::vector<Network>& list, const std::string& name, const std::string& summary,
              const Transformer& usual) {
  list.push_back(
      {{name, summary, "Devlin et al. 2019"}, {.transformer = usual}, declare_transformer, bert});
}

}  // namespace

void add_berts(std::vector<Network>& list) {
  add_bert(list, "bert-micro", "BERT for tests and sweeps, 2 layers x 64, 64 tokens",
           {.layers = 2, .heads = 2, .width = 64, .block = 64, .vocabulary = 33, .bias = true});
  add_bert(
      list, "bert-base", "BERT-Base, 12 layers x 768, 512 tokens",
      {.layers = 12, .heads = 12, .width = 768, .block = 512, .vocabulary = 30522, .bias = true});
  add_bert(
      list, "bert-large", "BERT-Large, 24 layers x 1024, 512 tokens",
      {.layers = 24, .heads = 16, .width = 1024, .block = 512, .vocabulary = 30522, .bias = true});
}

}  // namespace hetsgd::networks
