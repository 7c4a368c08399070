// Click-through models against their definitions: scores by loops over pairs and layers, counts of
// parameters, and the special cases that --hidden none makes of them.

#include "model/problems.hpp"

namespace hetsgd::test {
namespace {

// 13 dense columns and 26 fields, as Criteo's data; the parameters beside the table.
std::size_t dense_parameters(const std::string& model, const std::string& options = {}) {
  DataShape data{.label_count = 1, .task = Task::binary, .dense_columns = 13};
  for (Index f = 0; f <= 26; ++f) data.first_category.push_back(10 * f);
  const auto made = make_model<float>({"", Task::binary, {}, model, options}, data);
  return made->parameters() - made->layout().blocks.front().size();
}

// d = 13 + 26 * 16 = 429:
//   wide_deep 429*1024 + 1024 + 1024*1024 + 1024 + 1024 + 1 + 13
//   deepfm    429*400 + 400 + 2 (400*400 + 400) + 400 + 1 + 13
//   dcn       6 * 2 * 429 + 429*1024 + 1024 + 1024*1024 + 1024 + (429 + 1024) + 1
TEST(CtrModel, CountsOfParametersAreThoseOfThePapersShapes) {
  EXPECT_EQ(dense_parameters("wide_deep"), 1'490'958U);
  EXPECT_EQ(dense_parameters("deepfm"), 493'214U);
  EXPECT_EQ(dense_parameters("dcn"), 1'496'522U);
  EXPECT_EQ(dense_parameters("wide_deep", "hidden=none"), 13U + 1);
  EXPECT_EQ(dense_parameters("deepfm", "hidden=none"), 13U + 1);
  EXPECT_EQ(dense_parameters("dcn", "hidden=none"), 6U * 2 * 429 + 429 + 1);
}

TEST(CtrModel, TablesHaveAWeightPerCategoryWhereThereIsALinearPart) {
  const DataShape data = DataShape::of(*random_fields(40, 5, 1));
  const auto table = [&](const std::string& model, const std::string& options) {
    const auto made = make_model<float>({"", Task::binary, {}, model, options}, data);
    const ParameterBlock& block = made->layout().blocks.front();
    EXPECT_TRUE(block.row_sparse());
    EXPECT_EQ(block.rows, 40U);
    EXPECT_EQ(made->layout().sparse, 1U);
    return block.cols;
  };
  EXPECT_EQ(table("wide_deep", ""), 17U);
  EXPECT_EQ(table("deepfm", "embedding_dim=4"), 5U);
  EXPECT_EQ(table("deepfm", "embedding_dim=4;hidden=none"), 5U);
  EXPECT_EQ(table("dcn", "embedding_dim=4"), 4U);
  EXPECT_EQ(table("wide_deep", "hidden=none"), 1U);  // logistic regression has no embeddings
}

TEST(CtrModel, EmbeddingsBeginAtRandomAndLinearWeightsAtZero) {
  const DataShape data = DataShape::of(*random_fields(4000, 5, 1));
  const auto model = make_model<float>({"", Task::binary, {}, "deepfm", "embedding_dim=4"}, data);
  const auto w = initial_parameters<double>(model->layout(), 3);
  double squares = 0;
  for (std::size_t row = 0; row < 4000; ++row) {
    for (std::size_t k = 0; k < 4; ++k) squares += w[5 * row + k] * w[5 * row + k];
    ASSERT_EQ(w[5 * row + 4], 0);
  }
  // Truncated at two standard deviations, which leaves 0.774 of the variance; 16,000 numbers.
  EXPECT_NEAR(squares / 16'000, 0.774e-4, 0.05e-4);
  for (const ParameterBlock& block : model->layout().blocks) {
    if (!block.name.ends_with(".bias") && block.name != "linear.weight") continue;
    for (std::size_t i = 0; i < block.size(); ++i) ASSERT_EQ(w[block.offset + i], 0) << block.name;
  }
}

// The scores of a model by its definition. Blocks are found by their names.
class Definition {
 public:
  Definition(const Problem<double>& p, std::string model) : p_(p), model_(std::move(model)) {}

  double score(Index row) const {
    const auto x0 = inputs(row);
    double z = at("output.bias")[0];
    if (model_ != "dcn") {
      const auto dense = p_.data->dense.row(row);
      for (std::size_t j = 0; j < dense.size(); ++j) {
        z += at("linear.weight")[j] * static_cast<double>(dense[j]);
      }
      for (const Index c : p_.data->fields.row(row)) z += table(c)[embedding()];
    }
    if (model_ == "deepfm") z += pairs(row);
    std::vector<double> last;
    if (model_ == "dcn") last = cross(x0);
    if (has("layer1.weight")) {
      const auto h = deep(x0);
      last.insert(last.end(), h.begin(), h.end());
    }
    if (!last.empty()) {
      z = std::inner_product(last.begin(), last.end(), at("output.weight"), z);
    }
    return z;
  }

 private:
  const ParameterBlock* find(const std::string& name) const {
    for (const ParameterBlock& block : p_.model->layout().blocks) {
      if (block.name == name) return &block;
    }
    return nullptr;
  }
  bool has(const std::string& name) const { return find(name) != nullptr; }
  const double* at(const std::string& name) const { return p_.w.data() + find(name)->offset; }
  std::size_t columns() const { return find("table")->cols; }
  std::size_t embedding() const { return model_ == "dcn" ? columns() : columns() - 1; }
  const double* table(Index c) const { return at("table") + c * columns(); }

  std::vector<double> inputs(Index row) const {
    const auto dense = p_.data->dense.row(row);
    std::vector<double> x(dense.begin(), dense.end());
    for (const Index c : p_.data->fields.row(row)) {
      x.insert(x.end(), table(c), table(c) + embedding());
    }
    return x;
  }
  double pairs(Index row) const {
    double sum = 0;
    const auto categories = p_.data->fields.row(row);
    for (std::size_t f = 0; f < categories.size(); ++f) {
      for (std::size_t g = f + 1; g < categories.size(); ++g) {
        const double* const v = table(categories[f]);
        sum += std::inner_product(v, v + embedding(), table(categories[g]), 0.0);
      }
    }
    return sum;
  }
  std::vector<double> cross(const std::vector<double>& x0) const {
    std::vector<double> x = x0;
    for (int layer = 1; has("cross" + std::to_string(layer) + ".weight"); ++layer) {
      const std::string name = "cross" + std::to_string(layer);
      const double s = std::inner_product(x.begin(), x.end(), at(name + ".weight"), 0.0);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += x0[i] * s + at(name + ".bias")[i];
    }
    return x;
  }
  std::vector<double> deep(std::vector<double> x) const {
    for (int layer = 1; has("layer" + std::to_string(layer) + ".weight"); ++layer) {
      const std::string name = "layer" + std::to_string(layer);
      const ParameterBlock& weight = *find(name + ".weight");
      std::vector<double> y(weight.rows);
      for (std::size_t o = 0; o < y.size(); ++o) {
        y[o] = std::max(
            0.0, std::inner_product(x.begin(), x.end(), at(name + ".weight") + o * weight.cols,
                                    at(name + ".bias")[o]));
      }
      x = y;
    }
    return x;
  }

  const Problem<double>& p_;
  std::string model_;
};

TEST(CtrModel, ScoresAreThoseOfTheDefinition) {
  for (const Kind& kind : all_kinds()) {
    if (!kind.fields()) continue;
    SCOPED_TRACE(kind.name);
    Problem<double> p(kind, 30);
    const Batch batch = batch_of(*p.data, 3, 20);
    std::vector<double> z(batch.size());
    p.model->scores(*p.context, batch, p.w.data(), z.data());
    const Definition definition(p, kind.model);
    for (std::size_t i = 0; i < z.size(); ++i) {
      const double expected = definition.score(batch.rows()[i]);
      ASSERT_NEAR(z[i], expected, 1e-12 * std::max(1.0, std::abs(expected)));
    }
  }
}

// A row that occurs several times in a batch moves once, by the sum of its gradients: a step of a
// row is fma(-lr, sum, w), and the gradient is that sum.
TEST(CtrModel, AStepOfATableRowIsOneFusedMultiplyAdd) {
  for (const Kind& kind : all_kinds()) {
    if (!kind.fields()) continue;
    SCOPED_TRACE(kind.name);
    Problem<float> p(kind, 30);
    const Batch batch = batch_of(*p.data, 0, 60);
    auto g = make_gradient(*p.model, *p.device);
    auto stepped = p.w;
    p.model->gradient(*p.context, batch, p.w.data(), g);
    p.model->step(*p.context, batch, 0.3F, stepped.data());
    for (std::size_t i = 0; i < p.model->layout().blocks.front().size(); ++i) {
      ASSERT_EQ(stepped[i], std::fma(-0.3F, g.flat.data()[i], p.w[i])) << i;
    }
  }
}

// Cross layers are computed in blocks of 256 rows, and a step moves their weights with the first
// block. The other blocks must read the old weights. A step is w - lr times the gradient, and the
// gradient of a mean over 600 rows is that of 256, 256 and 88 rows in their shares.
TEST(CtrModel, CrossLayersOfManyRowsAreOneGradient) {
  for (const Kind& kind : all_kinds()) {
    if (kind.model != "dcn") continue;
    SCOPED_TRACE(kind.name);
    constexpr std::size_t kRows = 600;
    Problem<double> p(kind, 30);
    const auto batch = [&](std::size_t first, std::size_t count) {
      std::vector<Index> rows(count);
      for (std::size_t i = 0; i < count; ++i) rows[i] = static_cast<Index>((first + i) * 7 % 60);
      return Batch(*p.data, std::move(rows));
    };
    const auto gradient = [&](std::size_t first, std::size_t rows) {
      auto g = make_gradient(*p.model, *p.device);
      p.model->gradient(*p.context, batch(first, rows), p.w.data(), g);
      return std::vector<double>(g.flat.data(), g.flat.data() + g.flat.size());
    };
    const auto all = gradient(0, kRows);
    const auto a = gradient(0, 256), b = gradient(256, 256), c = gradient(512, 88);
    auto stepped = p.w;
    p.model->step(*p.context, batch(0, kRows), 0.5, stepped.data());
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_NEAR(all[i], (256 * (a[i] + b[i]) + 88 * c[i]) / kRows, 1e-12) << i;
      ASSERT_NEAR(stepped[i], p.w[i] - 0.5 * all[i], 1e-12) << i;
    }
  }
}

TEST(CtrModel, IsForBinaryDataWithFields) {
  DataShape data = DataShape::of(*random_fields(40, 5, 1));
  data.task = Task::multilabel;
  EXPECT_THROW(make_model<float>({"", Task::binary, {}, "deepfm"}, data), CheckFailure);
  EXPECT_THROW(make_model<float>({"", Task::binary, {}, "deepfm"},
                                 {.feature_count = 4, .label_count = 1, .task = Task::binary}),
               CheckFailure);
}

}  // namespace
}  // namespace hetsgd::test
