// Decoder-only transformers with norms before the branches (Radford and others 2019), in the sizes
// of GPT-2 and nanoGPT. nanoGPT's networks have no biases.
#include <cmath>

#include "graph/networks/builder.hpp"

namespace hetsgd::networks {
namespace {

Graph gpt(const std::string& name, const Settings& settings) {
  const Transformer& t = settings.transformer;
  Builder net = begin_transformer(name, settings, 0);
  const std::string embed = net.name(net.last());
  if (settings.dropout > 0) net.dropout(settings.dropout);
  // The sum of 2 L branches keeps the size that it has at the beginning.
  const double init = 1 / std::sqrt(2.0 * t.layers);
  for (int layer = 0; layer < t.layers; ++layer) {
    int x = net.last();
    net.norm(t.bias);
    attend(net, settings, true, init);
    add_branch(net, settings, x);
    x = net.last();
    net.norm(t.bias);
    widen(net, settings, init);
    add_branch(net, settings, x);
  }
  net.norm(t.bias);
  return net.finish(
      {.type = NodeType::softmax, .units = t.vocabulary, .tied = t.tied ? embed : ""});
}

void add_gpt(std::vector<Network>& list, const std::string& name, const std::string& summary,
             const Transformer& usual) {
  list.push_back({{name, summary, "Radford et al. 2019 (GPT-2)"},
                  {.transformer = usual},
                  declare_transformer,
                  gpt});
}

}  // namespace

void add_gpts(std::vector<Network>& list) {
  add_gpt(list, "gpt-micro", "GPT for tests and sweeps, 2 layers x 64, 64 tokens",
          {.layers = 2, .heads = 2, .width = 64, .block = 64, .vocabulary = 32});
  add_gpt(list, "gpt-tiny", "GPT in nanoGPT's setting for CPUs, 4 layers x 128, 64 tokens",
          {.layers = 4, .heads = 4, .width = 128, .block = 64, .vocabulary = 62});
  add_gpt(list, "nanogpt-char", "GPT of nanoGPT for characters, 6 layers x 384, 256 tokens",
          {.layers = 6, .heads = 6, .width = 384, .block = 256, .vocabulary = 65});
  add_gpt(list, "gpt2", "GPT-2 (124 million parameters), 12 layers x 768, 1024 tokens",
          {.layers = 12,
           .heads = 12,
           .width = 768,
           .block = 1024,
           .vocabulary = 50257,
           .bias = true,
           .gelu = GeluForm::tanh});
}

}  // namespace hetsgd::networks
