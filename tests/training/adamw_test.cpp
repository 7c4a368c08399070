// AdamW on a network of tokens in float, against PyTorch.

#include <fstream>

#include "graph/networks.hpp"
#include "model/network/graph_model.hpp"
#include "optimizer/optimizer.hpp"
#include "support/dataset.hpp"

namespace hetsgd::test {
namespace {

// Rows of a causal network: their ids, and the last target.
DatasetPtr text_of(const nlohmann::json& rows, Index kinds) {
  DatasetBuilder data = dataset_of(Task::tokens, kinds);
  data.tokens.vocabulary = kinds;
  for (const nlohmann::json& row : rows) {
    data.tokens.begin.push_back(data.tokens.token.size());
    data.tokens.length.push_back(static_cast<std::uint32_t>(row["ids"].size()));
    data.tokens.bytes.push_back(data.tokens.length.back());
    end_row(data);
    for (const std::uint16_t id : row["ids"]) data.tokens.token.push_back(id);
    data.tokens.token.push_back(row["target"].back());
  }
  return std::move(data).share();
}

// model/fixtures/pytorch_transformer.py has made the file. Ten steps; matrices alone decay.
TEST(AdamW, TakesTheStepsOfPyTorch) {
  std::ifstream file(HETSGD_MODEL_FIXTURES "/pytorch_transformer.json");
  const nlohmann::json each = nlohmann::json::parse(file)[0], adamw = each["adamw"];
  const Graph graph = find_graph("test", each["network"]);
  const DatasetPtr data = text_of(each["rows"], static_cast<Index>(graph.node(0).tokens));
  const auto model = make_graph_model<float>(graph, DataShape::of(*data), {});
  const auto device = make_cpu_device<float>(1);
  const auto context = model->make_context(*device);
  std::vector<float> w;
  for (const float number : each["thousandths"]) w.push_back(number / 1000);
  std::vector<Tensor> tensors;
  for (const ParameterBlock& block : model->layout().blocks) {
    tensors.push_back({.offset = block.offset, .size = block.size(), .decays = block.decays});
  }
  const auto optimizer = make_optimizer({.kind = OptimizerKind::adam,
                                         .weight_decay = adamw["weight_decay"],
                                         .decoupled = true,
                                         .clip_norm = adamw["clip_norm"],
                                         .beta1 = adamw["beta1"],
                                         .beta2 = adamw["beta2"],
                                         .epsilon = adamw["epsilon"]},
                                        *device, w.size(), tensors);
  Batch batch;
  batch.reset(*data, {}) = {0, 1, 2};
  auto gradient = make_gradient(*model, *device);
  for (const double loss : adamw["losses"]) {
    EXPECT_NEAR(model->gradient(*context, batch, w.data(), gradient), loss, 1e-4);
    optimizer->update(*device, adamw["learning_rate"], gradient.flat.span(), w);
  }
  ASSERT_GT(adamw["last"].size(), 100U);
  for (std::size_t i = 0; i < adamw["last"].size(); ++i) {
    EXPECT_NEAR(w[8 * i], adamw["last"][i].get<float>(), 1e-4) << 8 * i;
  }
}

}  // namespace
}  // namespace hetsgd::test
