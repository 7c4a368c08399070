#include "linalg/cpu/softmax_bf16.hpp"

#include <algorithm>

namespace hetsgd::cpu {

namespace {

constexpr std::size_t kBf16Panel = kPanel<float>;  // samples or inputs side by side

std::size_t padded(std::size_t n) { return (n + kBf16Padding - 1) / kBf16Padding * kBf16Padding; }

}  // namespace

void SoftmaxBf16::plan(const Shape& shape, std::size_t parts) {
  shape_ = shape;
  slabs_ = (shape.inputs + kBf16Panel - 1) / kBf16Panel;
  panel_size_ = padded(shape.inputs) * kBf16Panel;
  slab_size_ = padded(shape.rows) * kBf16Panel;
  block_slab_ = padded(shape.block_size) * kBf16Panel;
  const std::size_t labels = padded(shape.block_size), samples = padded(shape.rows);
  places_.weights = 0;  // of Z, later of dA
  places_.values = std::max(labels * padded(shape.inputs), slabs_ * block_slab_);
  places_.copy = places_.values + std::max(labels * samples, padded(kBf16Panel) * labels);
  places_.sums = places_.copy + labels * samples;
  places_.all = places_.sums + labels * kBf16Panel;
  by_panel_ =
      numbers_.reserve(shape.panels * panel_size_ + slabs_ * slab_size_ + parts * places_.all);
  by_slab_ = by_panel_ + shape.panels * panel_size_;
  parts_ = by_slab_ + slabs_ * slab_size_;
}

std::size_t SoftmaxBf16::columns_in(std::size_t slab) const {
  return std::min(kBf16Panel, shape_.inputs - slab * kBf16Panel);
}

std::size_t SoftmaxBf16::samples_in(std::size_t panel) const {
  return std::min(kBf16Panel, shape_.rows - panel * kBf16Panel);
}

void SoftmaxBf16::pack_panel(std::size_t panel, const float* input) const {
  pack_bf16_right(shape_.inputs, kBf16Panel, input, kBf16Panel, 1, by_panel_ + panel * panel_size_);
}

void SoftmaxBf16::pack_slab(std::size_t slab, const float* input) const {
  pack_bf16_right(shape_.rows, kBf16Panel, input, kBf16Panel, 1, by_slab_ + slab * slab_size_);
}

void SoftmaxBf16::pack_left(std::size_t part, std::size_t labels, const float* W) const {
  pack_bf16_left(labels, shape_.inputs, W, shape_.inputs, 1, room(part) + places_.weights);
}

void SoftmaxBf16::pack_right(std::size_t part, std::size_t labels, const float* W) const {
  for (std::size_t slab = 0; slab < slabs_; ++slab) {
    pack_bf16_right(labels, columns_in(slab), W + slab * kBf16Panel, shape_.inputs, 1,
                    room(part) + places_.weights + slab * block_slab_);
  }
}

void SoftmaxBf16::scores(std::size_t part, std::size_t labels, std::size_t panel, float* Z) const {
  multiply_bf16(labels, samples_in(panel), shape_.inputs, room(part) + places_.weights,
                by_panel_ + panel * panel_size_, true, Z);
}

void SoftmaxBf16::add_input_gradient(std::size_t part, std::size_t labels, std::size_t panel,
                                     const float* D, float* dA) const {
  float* const values = room(part) + places_.values;
  const std::size_t samples = samples_in(panel);
  pack_bf16_left(samples, labels, D, 1, kBf16Panel, values);
  for (std::size_t slab = 0; slab < slabs_; ++slab) {
    multiply_bf16(samples, columns_in(slab), labels, values,
                  room(part) + places_.weights + slab * block_slab_, false,
                  dA + (slab * shape_.panels + panel) * kBf16Panel * kBf16Panel);
  }
}

void SoftmaxBf16::pack_values(std::size_t part, std::size_t labels, const float* D,
                              std::size_t next_panel) const {
  float* const copy = room(part) + places_.copy;
  for (std::size_t panel = 0; panel < shape_.panels; ++panel, D += next_panel) {
    for (std::size_t l = 0; l < labels; ++l) {
      std::copy_n(D + l * kBf16Panel, samples_in(panel),
                  copy + l * shape_.rows + panel * kBf16Panel);
    }
  }
  pack_bf16_left(labels, shape_.rows, copy, shape_.rows, 1, room(part) + places_.values);
}

const float* SoftmaxBf16::weight_gradient(std::size_t part, std::size_t labels,
                                          std::size_t slab) const {
  float* const sums = room(part) + places_.sums;
  multiply_bf16(labels, columns_in(slab), shape_.rows, room(part) + places_.values,
                by_slab_ + slab * slab_size_, true, sums);
  return sums;
}

}  // namespace hetsgd::cpu
