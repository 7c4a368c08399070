// Small random problems of every model kind.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "data/batch.hpp"
#include "model/mlp.hpp"
#include "model/registry.hpp"

namespace hetsgd::test {

// Rows with few features and labels, among them rows without features and rows without labels.
inline DatasetPtr random_data(Task task, Index features, Index labels, std::size_t rows,
                              std::uint64_t seed) {
  DatasetBuilder data;
  data.task = task;
  data.feature_count = features;
  data.label_count = task == Task::binary ? 1 : labels;
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
    data.sparse.begin.push_back(data.sparse.index.size());
    data.targets.begin.push_back(data.targets.index.size());
  }
  for (std::size_t i = 0; i < data.sparse.index.size(); ++i) {
    data.sparse.value.push_back(static_cast<float>(random.uniform(-1, 2)));
  }
  return std::move(data).share();
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
};

template <class Real>
std::unique_ptr<BasicModel<Real>> make_model(const Kind& kind, const DataShape& data) {
  if (kind.model == "mlp") return make_mlp<Real>(data, {.hidden = kind.hidden});
  const auto factory = find_model(kind.model).make();
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
  return kinds;
}

// A kind with data, parameters (biases too, so that no ReLU sits at its kink) and room to compute.
template <class Real>
struct Problem {
  explicit Problem(const Kind& kind, Index features = 13, Index labels = 37, int cores = 1)
      : data(random_data(kind.task, features, labels, 60, 5)),
        shape{features, data->label_count, kind.task},
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
