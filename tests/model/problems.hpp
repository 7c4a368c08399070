// Small random problems of every model kind.
#pragma once

#include "core/random.hpp"
#include "core/text.hpp"
#include "data/batch.hpp"
#include "model/mlp.hpp"
#include "model/registry.hpp"
#include "support/dataset.hpp"

namespace hetsgd::test {

// Rows with few features and labels, among them rows without features and rows without labels.
inline DatasetPtr random_data(Task task, Index features, Index labels, std::size_t rows,
                              std::uint64_t seed) {
  DatasetBuilder data = dataset_of(task, task == Task::binary ? 1 : labels, features);
  RandomStream random(seed, Purpose::test, 99);
  const auto draw = [&](std::size_t count, Index below, std::vector<Index>& to) {
    std::vector<Index> all(below);
    for (Index i = 0; i < below; ++i) all[i] = i;
    for (std::size_t i = 0; i < count; ++i) std::swap(all[i], all[i + random.below(below - i)]);
    std::sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
    to.insert(to.end(), all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
  };
  for (std::size_t r = 0; r < rows; ++r) {
    draw(r % 7 == 3 ? 0 : 1 + random.below(std::min<Index>(features, 6)), features,
         data.sparse.index);
    std::size_t count = 1;
    if (task == Task::binary) count = random.below(2);
    if (task == Task::multilabel)
      count = r % 5 == 2 ? 0 : 1 + random.below(std::min<Index>(labels, 4));
    draw(count, data.label_count, data.targets.index);
    end_row(data);
  }
  for (std::size_t i = 0; i < data.sparse.index.size(); ++i) {
    data.sparse.value.push_back(static_cast<float>(random.uniform(-1, 2)));
  }
  return std::move(data).share();
}

// Rows of two dense columns and three fields, which share the categories unevenly.
inline DatasetPtr random_fields(Index categories, std::size_t rows, std::uint64_t seed) {
  DatasetBuilder data = dataset_of(Task::binary, 1);
  data.dense.columns = 2;
  data.fields.first = {0, 2, 2 + (categories - 2) / 3, categories};
  RandomStream random(seed, Purpose::test, 98);
  for (std::size_t r = 0; r < rows; ++r) {
    for (int j = 0; j < 2; ++j)
      data.dense.value.push_back(static_cast<float>(random.uniform(-1, 2)));
    for (std::size_t f = 0; f < 3; ++f) {
      const Index first = data.fields.first[f];
      data.fields.category.push_back(
          first + static_cast<Index>(random.below(data.fields.first[f + 1] - first)));
    }
    if (random.below(2) == 1) data.targets.index.push_back(0);
    end_row(data);
  }
  return std::move(data).share();
}

// The rows of a row-sparse block that a sample touches.
inline std::span<const Index> touched_by(const Dataset& data, Index row) {
  return data.fields.count() > 0 ? data.fields.row(row) : data.features(row);
}

// Rows begin, begin + 1, ... in reverse order: a batch is not a prefix of the data.
inline Batch batch_of(const Dataset& data, std::size_t begin, std::size_t count) {
  std::vector<Index> rows(count);
  for (std::size_t i = 0; i < count; ++i) rows[i] = static_cast<Index>(begin + count - 1 - i);
  return Batch(data, std::move(rows));
}

struct Kind {
  std::string name;
  Task task;
  std::vector<std::uint64_t> hidden;  // of the mlp
  std::string model = "mlp";
  std::string options = {};  // of the others: "hidden=9;cross_layers=2"

  bool fields() const { return find_model(model).info.reads_fields; }
};

inline DatasetPtr data_of(const Kind& kind, Index features, Index labels, std::size_t rows,
                          std::uint64_t seed) {
  return kind.fields() ? random_fields(features, rows, seed)
                       : random_data(kind.task, features, labels, rows, seed);
}

template <class Real>
std::unique_ptr<BasicModel<Real>> make_model(const Kind& kind, const DataShape& data) {
  if (kind.model == "mlp") return make_mlp<Real>(data, {.hidden = kind.hidden});
  const auto factory = find_model(kind.model).make();
  OptionSet set;
  factory->declare(set);
  for (const std::string_view setting : split(kind.options, ';')) {
    if (setting.empty()) continue;
    const std::size_t equals = setting.find('=');
    set.set(setting.substr(0, equals), {std::string(setting.substr(equals + 1))},
            OptionSource::flag, "test");
  }
  if constexpr (std::is_same_v<Real, float>) {
    return factory->make(data);
  } else {
    return factory->make_double(data);
  }
}

inline std::vector<Kind> all_kinds() {
  std::vector<Kind> kinds;
  for (const auto& [task, name] : {std::pair{Task::multilabel, "multilabel"},
                                   {Task::multiclass, "multiclass"},
                                   {Task::binary, "binary"}}) {
    kinds.push_back({std::string(name) + "_linear", task, {}});
    kinds.push_back({std::string(name) + "_fm", task, {}, "fm"});
    kinds.push_back({std::string(name) + "_hidden1", task, {9}});
    kinds.push_back({std::string(name) + "_hidden2", task, {18, 7}});
  }
  for (const std::string model : {"wide_deep", "deepfm", "dcn"}) {
    for (const auto& [name, hidden] :
         {std::pair{"alone", "none"}, {"hidden1", "9"}, {"hidden2", "18,7"}}) {
      std::string options = "embedding_dim=5;hidden=" + std::string(hidden);
      if (model == "dcn") options += ";cross_layers=3";
      kinds.push_back({model + "_" + name, Task::binary, {}, model, options});
    }
  }
  return kinds;
}

// A kind with data, parameters (biases too, so that no ReLU sits at its kink) and room to compute.
template <class Real>
struct Problem {
  explicit Problem(const Kind& kind, Index features = 13, Index labels = 37, int cores = 1)
      : data(data_of(kind, features, labels, 60, 5)),
        shape(DataShape::of(*data)),
        model(make_model<Real>(kind, shape)),
        device(make_cpu_device<Real>(cores)),
        context(model->make_context(*device)) {
    RandomStream random(11, Purpose::test, 100);
    for (std::size_t i = 0; i < model->parameters(); ++i) {
      w.push_back(static_cast<Real>(random.uniform(-0.8, 0.8)));
    }
  }

  double loss(const Batch& batch, const std::vector<Real>& at) {
    std::vector<Real> logits(batch.size() * model->outputs());
    return model->scores(*context, batch, at.data(), logits.data()) /
           static_cast<double>(batch.size());
  }

  DatasetPtr data;
  DataShape shape;
  std::unique_ptr<BasicModel<Real>> model;
  std::unique_ptr<BasicDevice<Real>> device;
  std::unique_ptr<BasicModelContext<Real>> context;
  std::vector<Real> w;
};

class EveryKind : public ::testing::TestWithParam<Kind> {};

inline std::string kind_name(const ::testing::TestParamInfo<Kind>& info) { return info.param.name; }

}  // namespace hetsgd::test
