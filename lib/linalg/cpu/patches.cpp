#include "linalg/cpu/patches.hpp"

#include <algorithm>

#include "linalg/cpu/gemm.hpp"
#include "linalg/cpu/simd.hpp"

namespace hetsgd::cpu {

namespace {

constexpr std::size_t kPatchNumbers = std::size_t{1} << 17;  // of P, if one row does not need more

std::size_t divide_up(std::size_t n, std::size_t by) { return (n + by - 1) / by; }

}  // namespace

PatchProducts::PatchProducts(const ConvolutionShape& shape)
    : s_(shape),
      filters_(shape.out_channels / shape.groups),
      channels_(shape.in_channels / shape.groups),
      depth_(shape.depth()),
      positions_(shape.out_height * shape.out_width),
      block_rows_(std::clamp<std::size_t>(kPatchNumbers / (depth_ * shape.out_width), 1,
                                          shape.out_height)) {}

std::size_t PatchProducts::room() const { return kBf16Room + depth_ * block_rows_ * s_.out_width; }

template <class F>
void PatchProducts::for_blocks(const F& f) const {
  for (std::size_t group = 0; group < s_.groups; ++group) {
    for (std::size_t h = 0; h < s_.out_height; h += block_rows_) {
      f(Block{group, h, std::min(block_rows_, s_.out_height - h)});
    }
  }
}

template <class F>
void PatchProducts::for_runs(const Block& block, const F& f) const {
  std::size_t element = 0;
  for (std::size_t c = 0; c < channels_; ++c) {
    for (std::size_t i = 0; i < s_.kernel_height; ++i) {
      for (std::size_t j = 0; j < s_.kernel_width; ++j, ++element) {
        // The positions w with padding <= w stride + j < padding + width.
        const std::size_t left = s_.padding_width, right = left + s_.in_width;
        const std::size_t begin = j < left ? divide_up(left - j, s_.stride) : 0;
        const std::size_t end =
            j < right ? std::min(s_.out_width, divide_up(right - j, s_.stride)) : 0;
        if (begin >= end) continue;
        for (std::size_t h = 0; h < block.rows; ++h) {
          const std::size_t y = (block.first_row + h) * s_.stride + i;
          if (y < s_.padding_height || y >= s_.padding_height + s_.in_height) continue;
          const std::size_t plane = block.group * channels_ + c;
          const std::size_t row = plane * s_.in_height + y - s_.padding_height;
          f(element, h * s_.out_width + begin, row * s_.in_width + begin * s_.stride + j - left,
            end - begin);
        }
      }
    }
  }
}

void PatchProducts::gather(const Block& block, const float* X, float* P) const {
  const std::size_t positions = block.rows * s_.out_width;
  std::fill_n(P, depth_ * positions, 0.0F);
  for_runs(block, [&](std::size_t element, std::size_t at, std::size_t from, std::size_t count) {
    float* const to = P + element * positions + at;
    for (std::size_t w = 0; w < count; ++w) to[w] = X[from + w * s_.stride];
  });
}

void PatchProducts::forward(const float* X, const float* W, const float* bias, float* Y,
                            float* room) const {
  float* const P = room + kBf16Room;
  for_blocks([&](const Block& block) {
    const std::size_t positions = block.rows * s_.out_width, o = block.group * filters_;
    float* const y = Y + o * positions_ + block.first_row * s_.out_width;
    gather(block, X, P);
    gemm_bf16_here({filters_, positions, depth_, 1, W + o * depth_, depth_, 1, P, positions, 1, 0,
                    y, positions_},
                   room);
    for (std::size_t i = 0; bias && i < filters_; ++i) {
      for (std::size_t q = 0; q < positions; ++q) y[i * positions_ + q] += bias[o + i];
    }
  });
}

void PatchProducts::input_gradient(const float* dY, const float* W, float beta, float* dX,
                                   float* room) const {
  float* const P = room + kBf16Room;
  for (std::size_t i = 0; i < s_.inputs(); ++i) dX[i] = beta == 0 ? 0 : beta * dX[i];
  for_blocks([&](const Block& block) {
    const std::size_t positions = block.rows * s_.out_width, o = block.group * filters_;
    const float* const d = dY + o * positions_ + block.first_row * s_.out_width;
    gemm_bf16_here({depth_, positions, filters_, 1, W + o * depth_, 1, depth_, d, positions_, 1, 0,
                    P, positions},
                   room);
    for_runs(block, [&](std::size_t element, std::size_t at, std::size_t to, std::size_t count) {
      const float* const from = P + element * positions + at;
      for (std::size_t w = 0; w < count; ++w) dX[to + w * s_.stride] += from[w];
    });
  });
}

void PatchProducts::parameter_gradient(const float* X, const float* dY, float* G, float* g,
                                       float* room) const {
  float* const P = room + kBf16Room;
  for_blocks([&](const Block& block) {
    const std::size_t positions = block.rows * s_.out_width, o = block.group * filters_;
    const float* const d = dY + o * positions_ + block.first_row * s_.out_width;
    gather(block, X, P);
    gemm_bf16_here({filters_, depth_, positions, 1, d, positions_, 1, P, 1, positions, 1,
                    G + o * depth_, depth_},
                   room);
    for (std::size_t i = 0; i < filters_; ++i) {
      const float* const row = d + i * positions_;
      Vec<float> sum{};
      std::size_t q = 0;
      for (; q + kLanes<float> <= positions; q += kLanes<float>) sum += load(row + q);
      sum += load_partial(row + q, positions - q, 0.0F);
      g[o + i] += horizontal_sum<float>(sum);
    }
  });
}

}  // namespace hetsgd::cpu
