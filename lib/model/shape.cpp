// The layout and the work of a shape; model.hpp derives the formulas.
#include <fmt/format.h>

#include "model/model.hpp"

namespace hetsgd {

namespace {

constexpr double kBytes = 4;

double output_count(const ModelShape& shape) {
  return shape.task == Task::binary ? 1 : static_cast<double>(shape.label_count);
}

void add_layer(Layout& layout, std::size_t inputs, std::size_t outputs) {
  const std::size_t number = layout.layers.size() / 2;
  LayerView weight{.name = fmt::format("layer{}.weight", number),
                   .offset = layout.size,
                   .rows = number == 0 ? inputs : outputs,
                   .cols = number == 0 ? outputs : inputs,
                   .row_sparse = number == 0,
                   .fan_in = inputs,
                   .fan_out = outputs};
  LayerView bias = weight;
  bias.name = fmt::format("layer{}.bias", number);
  bias.offset = weight.offset + weight.size();
  bias.rows = 1;
  bias.cols = outputs;
  bias.row_sparse = false;
  layout.size = bias.offset + bias.size();
  layout.layers.push_back(std::move(weight));
  layout.layers.push_back(std::move(bias));
}

// The widths above the sparse input: hidden layers, then the outputs.
std::vector<std::size_t> widths(const ModelShape& shape) {
  std::vector<std::size_t> w = shape.hidden;
  w.push_back(shape.task == Task::binary ? 1 : shape.label_count);
  return w;
}

}  // namespace

Layout ModelShape::layout() const {
  Layout layout;
  std::size_t inputs = feature_count;
  for (const std::size_t outputs : widths(*this)) {
    add_layer(layout, inputs, outputs);
    inputs = outputs;
  }
  return layout;
}

Work ModelShape::gradient_work(const BatchShape& batch) const {
  const double n = batch.samples, z = batch.nonzeros;
  const std::vector<std::size_t> width = widths(*this);
  const auto first = static_cast<double>(width[0]);
  Work work{4 * z * first + n * first, 16 * z + kBytes * (3 * z * first + 3 * n * first), 3};
  for (std::size_t i = 1; i < width.size(); ++i) {
    const auto a = static_cast<double>(width[i - 1]), b = static_cast<double>(width[i]);
    work += {6 * n * a * b + n * b, kBytes * (4 * a * b + 3 * n * a + 4 * n * b), 4};
    // The hidden layer below: ReLU forward (a launch of its own above layer 0) and backward.
    work += {3 * n * a, kBytes * (i > 1 ? 5 : 3) * n * a, i > 1 ? 2.0 : 1.0};
  }
  const double outputs = output_count(*this);
  work += {5 * n * outputs, kBytes * (2 * n * outputs + batch.labels), 1};
  return work;
}

Work ModelShape::scoring_work(const BatchShape& batch) const {
  const double n = batch.samples, z = batch.nonzeros;
  const std::vector<std::size_t> width = widths(*this);
  const auto first = static_cast<double>(width[0]);
  Work work{2 * z * first, 8 * z + kBytes * (z * first + n * first), 1};
  for (std::size_t i = 1; i < width.size(); ++i) {
    const auto a = static_cast<double>(width[i - 1]), b = static_cast<double>(width[i]);
    work += {2 * n * a * b, kBytes * (a * b + n * a + n * b), 1};
    work += {2 * n * a, kBytes * (i > 1 ? 2 : 0) * n * a, i > 1 ? 1.0 : 0.0};
  }
  const double outputs = output_count(*this);
  work += {4 * n * outputs, kBytes * (3 * n * outputs + batch.labels), 2};
  return work;
}

double ModelShape::sample_bytes(const BatchShape& batch) const {
  // Two copies of index and value; sorted: number, row and value twice, and as much to work with.
  constexpr double kNonzero = 2 * 8 + 4 + 2 * 8 + 12, kLabel = 2 * 4, kOffsets = 2 * 2 * 8;
  double units = 0;
  for (const std::size_t width : hidden) units += static_cast<double>(width);
  return kOffsets + (kNonzero * batch.nonzeros + kLabel * batch.labels) / batch.samples +
         kBytes * (2 * units + output_count(*this));
}

}  // namespace hetsgd
