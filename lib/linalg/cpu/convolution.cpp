// Convolutions of the CPU: tiles of sums over padded planes (planes.hpp), without windows copied
// out (im2col) and without a library. If channels fill registers, each has a lane
// (channel_lanes.hpp). Otherwise pixels have lanes:
//
//   forward             sums [filters x q]       over the filter's elements
//   input gradient      sums [channels x q]      over the filters, added to the planes; or the
//                                                forward pass from dY to dX with turned kernels
//   parameter gradient  sums [filters x elements] over q, in the lanes of vectors
//
// Work is split by samples. Parameter gradients are split by parts of the batch and of the filters,
// which depend on the shape alone, and are added up in their order. So no bit depends on the cores.
// Factors in BF16 are multiplied patch by patch instead (patches.hpp).
#include <algorithm>
#include <type_traits>
#include <utility>

#include "linalg/convolution_kernels.hpp"
#include "linalg/cores/memory.hpp"
#include "linalg/cpu/backend.hpp"
#include "linalg/cpu/channel_lanes.hpp"
#include "linalg/cpu/gradient_tile.hpp"
#include "linalg/cpu/patches.hpp"
#include "linalg/cpu/planes.hpp"
#include "linalg/cpu/tile.hpp"

namespace hetsgd::cpu {

namespace {

// Vectors of a tile. They divide PlaneLayout::kTile.
constexpr int kColumns = kRegisters == 1 ? 3 : 1;

// sum[i][v] += sum over k of w[i * row_stride + k] x[base[k] + v-th vector].
template <class Real, int rows>
HETSGD_INLINE void accumulate_windows(std::size_t depth, const Real* w, std::size_t row_stride,
                                      const Real* x, const std::size_t* base,
                                      Vec<Real> (&sum)[rows][kColumns]) {
  for (std::size_t k = 0; k < depth; ++k) {
    const Real* const b = x + base[k];
    Vec<Real> bk[kColumns];
#pragma GCC unroll 4
    for (int v = 0; v < kColumns; ++v) bk[v] = load(b + static_cast<std::size_t>(v) * kLanes<Real>);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const Vec<Real> wi = broadcast(w[static_cast<std::size_t>(i) * row_stride + k]);
#pragma GCC unroll 4
      for (int v = 0; v < kColumns; ++v) sum[i][v] = fused(wi, bk[v], sum[i][v]);
    }
  }
}

template <class Real>
struct ConvolutionScratch {
  Scratch<Real> samples;  // of each core: planes and rows
  Scratch<Real> sums;     // of each part of a batch: parameter gradients
  Scratch<Real> weights;  // transposed
};

// The division of a parameter gradient, which depends on the shape alone. Sums of several parts of
// the batch take memory, and several parts of the filters need the planes again.
struct GradientParts {
  GradientParts(const ConvolutionShape& s, std::size_t n) {
    constexpr std::size_t kMostNumbers = std::size_t{1} << 22, kMostParts = 16;
    const std::size_t room = std::clamp<std::size_t>(kMostNumbers / s.weights(), 1, kMostParts / 2);
    samples = std::clamp<std::size_t>(n, 1, room);
    filters = std::clamp<std::size_t>(s.out_channels / 8, 1, kMostParts / samples);
  }
  std::size_t samples, filters;
};

template <class Real>
class CpuConvolutionKernels final : public BasicConvolutionKernels<Real> {
 public:
  explicit CpuConvolutionKernels(const Backend& cores)
      : cores_(cores), scratch_(cores), channels_(cores) {}

  void forward(const ConvolutionShape& s, std::size_t n, const Real* X, const Real* W,
               const Real* bias, Real* Y) override {
    if (in_patches(s, n, [=](const PatchProducts& products, std::size_t i, auto* room) {
          products.forward(X + i * s.inputs(), W, bias, Y + i * s.outputs(), room);
        })) {
      return;
    }
    convolve(s, n, X, W, bias, Real(0), Y);
  }

  void input_gradient(const ConvolutionShape& s, std::size_t n, const Real* dY, const Real* W,
                      Real beta, Real* dX) override {
    if (in_patches(s, n, [=](const PatchProducts& products, std::size_t i, auto* room) {
          products.input_gradient(dY + i * s.outputs(), W, beta, dX + i * s.inputs(), room);
        })) {
      return;
    }
    if (turns(s)) {
      return convolve(backward_shape(s), n, dY, turn(s, W), nullptr, beta, dX);
    }
    if (in_lanes(s, s.in_channels)) {
      return channels_.input_gradient(s, n, dY, W, beta, dX);
    }
    const PlaneLayout layout(s);
    const std::vector<std::size_t> base = layout.bases(s, s.in_channels / s.groups);
    const Real* const transposed = transpose(s, W);
    const std::size_t planes = layout.template size<Real>(s.in_channels);
    const std::size_t rows = s.out_channels * layout.template row_length<Real>(layout.block_rows);
    for_items(cores_, scratch_.get().samples, n, planes + rows,
              [&](std::size_t sample, Real* mine) {
                std::fill_n(mine, planes, Real(0));
                for (std::size_t h = 0; h < s.out_height; h += layout.block_rows) {
                  spread_block(s, layout, base, h, dY + sample * s.outputs(), transposed,
                               mine + planes, mine);
                }
                read_planes(s, layout, mine, beta, dX + sample * s.inputs());
              });
  }

  void parameter_gradient(const ConvolutionShape& s, std::size_t n, const Real* X, const Real* dY,
                          Real alpha, Real beta, Real* G, Real* g) override {
    if (in_lanes(s, s.out_channels)) {
      return channels_.parameter_gradient(s, n, X, dY, alpha, beta, G, g);
    }
    const GradientParts parts(s, n);
    const std::size_t weights = s.weights(), each = weights + s.out_channels;
    Real* const sums = scratch_.get().sums.reserve(parts.samples * each);
    if (in_patches(s, parts.samples,
                   [=](const PatchProducts& products, std::size_t part, auto* room) {
                     Real* const to = sums + part * each;
                     std::fill_n(to, each, Real(0));
                     const Range samples = part_of(n, parts.samples, part);
                     for (std::size_t i = samples.begin; i < samples.end; ++i) {
                       products.parameter_gradient(X + i * s.inputs(), dY + i * s.outputs(), to,
                                                   to + weights, room);
                     }
                   })) {
      return finish_parts(parts.samples, s, sums, alpha, beta, G, g);
    }
    const PlaneLayout layout(s);
    std::vector<std::size_t> base = layout.bases(s, s.in_channels / s.groups);
    const int columns = s.depth() % kFewColumns == 0 ? kFewColumns : kManyColumns;
    while (base.size() % static_cast<std::size_t>(columns) != 0) base.push_back(base.back());
    const Panel panel(s, layout);
    for_items(cores_, scratch_.get().samples, parts.samples * parts.filters,
              panel.samples * panel.each, [&](std::size_t item, Real* mine) {
                const std::size_t part = item / parts.filters;
                const Range filters = part_of(s.out_channels, parts.filters, item % parts.filters);
                Real* const to = sums + part * each;
                std::fill(to + filters.begin * s.depth(), to + filters.end * s.depth(), Real(0));
                std::fill(to + weights + filters.begin, to + weights + filters.end, Real(0));
                const GradientTask task{s, layout, panel, base, columns, filters, X, dY, to};
                task.run(part_of(n, parts.samples, part), mine);
              });
    finish_parts(parts.samples, s, sums, alpha, beta, G, g);
  }

 private:
  bool in_bf16() const {
    return std::is_same_v<Real, float> && cores_.precision() == Precision::bf16;
  }
  bool in_lanes(const ConvolutionShape& s, std::size_t channels) const {
    return !in_bf16() && ChannelLanes<Real>::suit(s, channels / s.groups);
  }
  // With factors in BF16: calls f(products, item, room) for each item. Else it says false.
  template <class F>
  bool in_patches(const ConvolutionShape& s, std::size_t items, const F& f) {
    if constexpr (std::is_same_v<Real, float>) {
      if (in_bf16()) {
        const PatchProducts products(s);
        for_items(cores_, scratch_.get().samples, items, products.room(),
                  [&](std::size_t item, float* room) { f(products, item, room); });
      }
    }
    return in_bf16();
  }

  // Y = beta Y + the convolution of X.
  void convolve(const ConvolutionShape& s, std::size_t n, const Real* X, const Real* W,
                const Real* bias, Real beta, Real* Y) {
    if (in_lanes(s, s.out_channels)) {
      return channels_.forward(s, n, X, W, bias, beta, Y);
    }
    const PlaneLayout layout(s);
    const std::vector<std::size_t> base = layout.bases(s, s.in_channels / s.groups);
    const std::size_t planes = layout.template size<Real>(s.in_channels);
    const std::size_t rows = static_cast<std::size_t>(kProductRows) *
                             layout.template row_length<Real>(layout.block_rows);
    for_items(cores_, scratch_.get().samples, n, planes + rows,
              [&](std::size_t sample, Real* mine) {
                write_planes(s, layout, X + sample * s.inputs(), mine);
                for (std::size_t h = 0; h < s.out_height; h += layout.block_rows) {
                  forward_block(s, layout, base, h, mine, W, bias, beta, Y + sample * s.outputs(),
                                mine + planes);
                }
              });
  }

  // The samples whose windows a tile of parameter gradients sums over at once: as many as stay in
  // the second cache, or one if a sample has several blocks.
  struct Panel {
    Panel(const ConvolutionShape& s, const PlaneLayout& layout)
        : planes(layout.template size<Real>(s.in_channels)),
          each(planes + s.out_channels * layout.template row_length<Real>(layout.block_rows, 1)) {
      constexpr std::size_t kBytes = std::size_t{1} << 19;
      const std::size_t fitting = std::clamp<std::size_t>(kBytes / (each * sizeof(Real)), 1, 16);
      samples = layout.block_rows < s.out_height ? 1 : fitting;
    }
    std::size_t planes, each, samples;
  };

  // Parameter gradients of some samples and filters, added to `to`.
  struct GradientTask {
    const ConvolutionShape& s;
    const PlaneLayout& layout;
    const Panel& panel;
    const std::vector<std::size_t>& base;
    int columns;
    Range filters;
    const Real *X, *dY;
    Real* to;  // [weights, then biases] of all filters

    void run(Range samples, Real* scratch) const {
      std::vector<Segment<Real>> segments;
      for (std::size_t first = samples.begin; first < samples.end; first += panel.samples) {
        const std::size_t count = std::min(panel.samples, samples.end - first);
        for (std::size_t h = 0; h < s.out_height; h += layout.block_rows) {
          const std::size_t rows = std::min(layout.block_rows, s.out_height - h);
          const std::size_t length = layout.template row_length<Real>(rows, 1);
          segments.clear();
          for (std::size_t i = 0; i < count; ++i) {
            Real* const planes = scratch + i * panel.each;
            Real* const d = planes + panel.planes;
            if (h == 0) write_planes(s, layout, X + (first + i) * s.inputs(), planes);
            write_rows(s, layout, dY + (first + i) * s.outputs(), filters, h, rows, length, d);
            segments.push_back({planes + h * layout.pitch, d, length});
          }
          if (columns == kFewColumns) {
            add<kFewColumns>(segments);
          } else {
            add<kManyColumns>(segments);
          }
        }
      }
    }

    template <int width>
    void add(std::vector<Segment<Real>>& segments) const {
      const std::size_t each = s.out_channels / s.groups, depth = s.depth();
      const std::size_t group_planes = s.in_channels / s.groups * layout.phases * layout.plane;
      std::size_t group = 0;  // the group whose planes the segments point to
      for (std::size_t o = filters.begin; o < filters.end;) {
        for (; group < o / each; ++group) {
          for (Segment<Real>& segment : segments) segment.x += group_planes;
        }
        const std::size_t room = std::min(filters.end, (group + 1) * each) - o;
        const int rows = room >= 4 && kFilters == 4 ? 4 : room >= 2 ? 2 : 1;
        for (std::size_t k = 0; k < depth; k += width) {
          const std::size_t wanted = std::min<std::size_t>(width, depth - k);
          Real* const tile = to + o * depth + k;
          const std::size_t row = o - filters.begin;
          if (rows == 4) {
            gradient_tile<Real, kFilters, width>(segments, row, &base[k], wanted, tile, depth);
          } else if (rows == 2) {
            gradient_tile<Real, 2, width>(segments, row, &base[k], wanted, tile, depth);
          } else {
            gradient_tile<Real, 1, width>(segments, row, &base[k], wanted, tile, depth);
          }
        }
        for (int i = 0; i < rows; ++i, ++o) add_bias(segments, o);
      }
      for (; group > 0; --group) {
        for (Segment<Real>& segment : segments) segment.x -= group_planes;
      }
    }

    void add_bias(const std::vector<Segment<Real>>& segments, std::size_t o) const {
      Vec<Real> sum = {};
      for (const Segment<Real>& segment : segments) {
        const Real* const d = segment.d + (o - filters.begin) * segment.length;
        for (std::size_t q = 0; q < segment.length; q += kLanes<Real>) sum += load(d + q);
      }
      to[s.weights() + o] += horizontal_sum<Real>(sum);
    }
  };

  // Computes the output rows h and following of one sample; `rows` is room for a tile of filters.
  static void forward_block(const ConvolutionShape& s, const PlaneLayout& layout,
                            const std::vector<std::size_t>& base, std::size_t h, const Real* planes,
                            const Real* W, const Real* bias, Real beta, Real* Y, Real* rows) {
    const std::size_t count = std::min(layout.block_rows, s.out_height - h);
    const std::size_t length = layout.template row_length<Real>(count), depth = s.depth();
    const std::size_t filters = s.out_channels / s.groups;
    for (std::size_t group = 0; group < s.groups; ++group) {
      const Real* const x = planes + h * layout.pitch +
                            group * (s.in_channels / s.groups) * layout.phases * layout.plane;
      for_row_tiles<kProductRows>(filters, [&](std::size_t first, auto tile) {
        constexpr int kRows = decltype(tile)::value;
        const std::size_t o = group * filters + first;
        for (std::size_t q = 0; q < length; q += kColumns * kLanes<Real>) {
          Vec<Real> sum[kRows][kColumns] = {};
          accumulate_windows<Real, kRows>(depth, W + o * depth, depth, x + q, base.data(), sum);
          store_tile<Real, kRows, kColumns>(sum, rows + q, length);
        }
        for (std::size_t i = 0; i < kRows; ++i) {
          write_output(s, layout, count, rows + i * length, bias ? bias[o + i] : Real(0), beta,
                       Y + ((o + i) * s.out_height + h) * s.out_width);
        }
      });
    }
  }

  // Y = beta Y + row + b for some output rows of a filter; `row` has the planes' pitch. No part of
  // the loop around the sums, which then has registers for them.
  __attribute__((noinline)) static void write_output(const ConvolutionShape& s,
                                                     const PlaneLayout& layout, std::size_t count,
                                                     const Real* row, Real b, Real beta, Real* y) {
    for (std::size_t r = 0; r < count; ++r, y += s.out_width, row += layout.pitch) {
      if (beta == Real(0)) {
        for (std::size_t w = 0; w < s.out_width; ++w) y[w] = row[w] + b;
      } else {
        for (std::size_t w = 0; w < s.out_width; ++w) y[w] = beta * y[w] + (row[w] + b);
      }
    }
  }

  // Whether the convolution from dY to dX is one of these kernels and computes no pixels more.
  static bool turns(const ConvolutionShape& s) {
    return s.stride == 1 && s.padding_height < s.kernel_height &&
           s.padding_width < s.kernel_width && s.in_height <= s.out_height &&
           s.in_width <= s.out_width;
  }
  // The convolution from dY to dX of a convolution of stride 1.
  static ConvolutionShape backward_shape(const ConvolutionShape& s) {
    ConvolutionShape back = s;
    std::swap(back.in_channels, back.out_channels);
    std::swap(back.in_height, back.out_height);
    std::swap(back.in_width, back.out_width);
    back.padding_height = s.kernel_height - 1 - s.padding_height;
    back.padding_width = s.kernel_width - 1 - s.padding_width;
    return back;
  }

  // The filters of backward_shape(): [channel][filter of its group][element of the kernel] <- W,
  // elements in the opposite order.
  const Real* turn(const ConvolutionShape& s, const Real* W) {
    const std::size_t filters = s.out_channels / s.groups, channels = s.in_channels / s.groups;
    const std::size_t kernel = s.kernel_height * s.kernel_width;
    Real* const to = scratch_.get().weights.reserve(s.weights());
    cores_.split(s.in_channels, 1, 64, [&](Range range) {
      for (std::size_t c = range.begin; c < range.end; ++c) {
        for (std::size_t o = 0; o < filters; ++o) {
          const std::size_t filter = c / channels * filters + o;
          const Real* const from = W + (filter * channels + c % channels) * kernel;
          std::reverse_copy(from, from + kernel, to + (c * filters + o) * kernel);
        }
      }
    });
    return to;
  }

  // [group][element of the kernel][channel][filter of the group] <- W.
  const Real* transpose(const ConvolutionShape& s, const Real* W) {
    const std::size_t filters = s.out_channels / s.groups, channels = s.in_channels / s.groups;
    const std::size_t kernel = s.kernel_height * s.kernel_width;
    Real* const to = scratch_.get().weights.reserve(s.weights());
    cores_.split(s.groups * channels, 1, 64, [&](Range range) {
      for (std::size_t at = range.begin; at < range.end; ++at) {
        const std::size_t group = at / channels, c = at % channels;
        const Real* const from = W + (group * filters * channels + c) * kernel;
        for (std::size_t t = 0; t < kernel; ++t) {
          Real* const row = to + ((group * kernel + t) * channels + c) * filters;
          for (std::size_t o = 0; o < filters; ++o) row[o] = from[o * channels * kernel + t];
        }
      }
    });
    return to;
  }

  // Adds the contributions of the output rows h and following to the gradient by the planes.
  // Neighbouring rows of a tile belong to different channels, so that no row is read just after its
  // neighbour has been written.
  static void spread_block(const ConvolutionShape& s, const PlaneLayout& layout,
                           const std::vector<std::size_t>& base, std::size_t h, const Real* dY,
                           const Real* transposed, Real* rows, Real* planes) {
    const std::size_t count = std::min(layout.block_rows, s.out_height - h);
    const std::size_t length = layout.template row_length<Real>(count);
    const std::size_t filters = s.out_channels / s.groups, channels = s.in_channels / s.groups;
    const std::size_t kernel = s.kernel_height * s.kernel_width;
    write_rows(s, layout, dY, Range{0, s.out_channels}, h, count, length, rows);
    for (std::size_t group = 0; group < s.groups; ++group) {
      const Real* const d = rows + group * filters * length;
      Real* const x = planes + h * layout.pitch + group * channels * layout.phases * layout.plane;
      for (std::size_t t = 0; t < kernel; ++t) {
        const Real* const w = transposed + (group * kernel + t) * channels * filters;
        for_row_tiles<kProductRows>(channels, [&](std::size_t c, auto tile) {
          constexpr int kRows = decltype(tile)::value;
          for (std::size_t q = 0; q < length; q += kColumns * kLanes<Real>) {
            Vec<Real> sum[kRows][kColumns] = {};
            accumulate<Real, kRows, kColumns>(filters, w + c * filters, filters, 1, d + q, length,
                                              sum);
            for (std::size_t i = 0; i < kRows; ++i) {
              Real* const to = x + base[(c + i) * kernel + t] + q;
              for (std::size_t v = 0; v < kColumns; ++v) {
                Real* const at = to + v * kLanes<Real>;
                store(at, load(at) + sum[i][v]);
              }
            }
          }
        });
      }
    }
  }

  // The gradients by W and by the biases from the sums of the parts: [parts][weights, biases].
  void finish_parts(std::size_t parts, const ConvolutionShape& s, const Real* sums, Real alpha,
                    Real beta, Real* G, Real* g) const {
    const std::size_t weights = s.weights(), each = weights + s.out_channels;
    finish_sums(parts, each, sums, weights, alpha, beta, G);
    if (g) finish_sums(parts, each, sums + weights, s.out_channels, alpha, beta, g);
  }
  // to = beta to + alpha (the sums of the parts, in their order).
  void finish_sums(std::size_t parts, std::size_t each, const Real* sums, std::size_t count,
                   Real alpha, Real beta, Real* to) const {
    cores_.split(count, 16, std::size_t{1} << 12, [&](Range range) {
      add_parts(range.size(), parts, each, sums + range.begin, alpha, beta, to + range.begin);
    });
  }
  static void add_parts(std::size_t count, std::size_t parts, std::size_t each, const Real* sums,
                        Real alpha, Real beta, Real* to) {
    for (std::size_t i = 0; i < count; ++i) {
      Real sum = sums[i];
      for (std::size_t part = 1; part < parts; ++part) sum += sums[part * each + i];
      to[i] = beta == Real(0) ? alpha * sum : beta * to[i] + alpha * sum;
    }
  }

  const Backend& cores_;
  DeviceScratch<ConvolutionScratch<Real>> scratch_;
  ChannelLanes<Real> channels_;
};

const RegisterKernels<Backend, BasicConvolutionKernels, CpuConvolutionKernels> convolution_kernels;

}  // namespace

}  // namespace hetsgd::cpu
