// Convolutions with a channel in each lane: products without gaps and without windows copied out,
// for shapes with enough channels to fill registers. All three are tiles of channel_tile.hpp:
//
//                       rows               depth               lanes      b
//   forward             output pixels      filter's elements   filters    W, transposed
//   input gradient      output pixels      filters             channels   W, by tap of the kernel
//   parameter gradient  filter's elements  output pixels       filters    dY, transposed
//
// Input gradients that are no forward pass (convolution.cpp) are added, tap by tap, to an image
// whose channels are innermost. Images are the planes of planes.hpp, or X itself where it has their
// layout.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "linalg/convolution_kernels.hpp"
#include "linalg/cores/cores.hpp"
#include "linalg/cores/memory.hpp"
#include "linalg/cpu/channel_tile.hpp"
#include "linalg/cpu/lanes.hpp"
#include "linalg/cpu/planes.hpp"

namespace hetsgd::cpu {

// The places of the pixels of one sample.
template <class Real>
struct SampleImage {
  explicit SampleImage(const ConvolutionShape& s)
      : layout(s),
        plain(s.stride == 1 && s.padding_height == 0 && s.padding_width == 0),
        size(plain ? 0 : layout.template size<Real>(s.in_channels)),
        places(layout.phases * layout.plane),
        base(layout.bases(s, s.in_channels / s.groups)) {
    pixel.reserve(s.out_height * s.out_width);
    for (std::size_t h = 0; h < s.out_height; ++h) {
      for (std::size_t w = 0; w < s.out_width; ++w) pixel.push_back(h * layout.pitch + w);
    }
  }
  // The planes of X; `room` has space for `size` elements.
  const Real* planes(const ConvolutionShape& s, const Real* X, Real* room) const {
    if (plain) return X;
    write_planes(s, layout, X, room);
    return room;
  }

  PlaneLayout layout;
  bool plain;                      // X is its planes
  std::size_t size;                // elements of the planes of all channels, 0 if plain
  std::size_t places;              // elements of the planes of one channel
  std::vector<std::size_t> base;   // of a filter's elements
  std::vector<std::size_t> pixel;  // of the output's pixels
};

// Parameter gradients of a batch in parts. Each part holds the sums of each panel [depth x width],
// then of its biases.
template <class Real>
struct ChannelGradient {
  const ConvolutionShape& s;
  const SampleImage<Real>& image;
  ChannelPanels<Real> panels;
  const Real *X, *dY;

  std::size_t pixels() const { return image.pixel.size(); }
  std::size_t all_panels() const { return s.groups * panels.count(); }
  std::size_t sums() const { return s.groups * panels.lanes() * (s.depth() + 1); }
  // The number of samples whose windows a tile sums over at once: as many as stay in the second
  // cache.
  std::size_t together() const {
    constexpr std::size_t kBytes = std::size_t{1} << 18;
    const std::size_t each = s.inputs() + pixels() * panels.lanes();
    return std::clamp<std::size_t>(kBytes / (each * sizeof(Real)), 1, 16);
  }
  std::size_t scratch() const { return together() * (image.size + pixels() * panels.kPair); }

  // to <- the sums of some samples, for some panels.
  void run(Range samples, Range range, Real* mine, Real* to) const {
    if (samples.size() == 0) std::fill_n(to, sums(), Real(0));
    for (std::size_t first = samples.begin; first < samples.end; first += together()) {
      const std::size_t count = std::min(together(), samples.end - first);
      const Real* x = X + first * s.inputs();
      for (std::size_t i = 0; i < count && !image.plain; ++i) {
        image.planes(s, x + i * s.inputs(), mine + i * image.size);
      }
      if (!image.plain) x = mine;
      for (std::size_t panel = range.begin; panel < range.end; ++panel) {
        const std::size_t group = panel / panels.count();
        panels.visit(panel % panels.count(), [&](std::size_t lane, std::size_t wanted,
                                                 auto vectors) {
          add<decltype(vectors)::value>(group, lane, wanted, x, first, count,
                                        mine + together() * image.size, first == samples.begin, to);
        });
      }
    }
  }

  // The gradient by the elements k .. of a panel's filters: to = beta to + alpha (the sums of the
  // parts, in their order).
  void finish(std::size_t panel, std::size_t k, std::size_t parts, const Real* from, Real alpha,
              Real beta, Real* to) const {
    const std::size_t group = panel / panels.count(), depth = s.depth();
    const std::size_t count = std::min(kLanes<Real>, depth - k);
    panels.visit(panel % panels.count(), [&](std::size_t lane, std::size_t wanted, auto vectors) {
      constexpr std::size_t kWidth = decltype(vectors)::value * kLanes<Real>;
      const Real* const first = from + (group * panels.lanes() + lane) * (depth + 1) + k * kWidth;
      for (std::size_t f0 = 0; f0 < wanted; f0 += kLanes<Real>) {
        constexpr std::size_t kSide = kLanes<Real>;
        alignas(kVectorBytes) Real sum[kSide * kSide] = {}, turned[kSide * kSide];
        for (std::size_t i = 0; i < count; ++i) {
          Vec<Real> all{};
          for (std::size_t part = 0; part < parts; ++part) {
            all += load(first + part * sums() + i * kWidth + f0);
          }
          store(sum + i * kSide, all);
        }
        transpose<Real>(kSide, kSide, sum, kSide, turned, kSide);
        const std::size_t filters = std::min(kSide, wanted - f0);
        for (std::size_t f = 0; f < filters; ++f) {
          const std::size_t o = group * panels.channels + lane + f0 + f;
          write_some(load(turned + f * kSide) * alpha, beta, count, to + o * depth + k);
        }
      }
    });
  }

  // The sum of dY of filter o in one part.
  Real bias(const Real* from, std::size_t o) const {
    const std::size_t group = o / panels.channels, at = o % panels.channels;
    Real found = 0;
    panels.visit(at / panels.kPair, [&](std::size_t lane, std::size_t, auto vectors) {
      constexpr std::size_t kWidth = decltype(vectors)::value * kLanes<Real>;
      found =
          from[(group * panels.lanes() + lane) * (s.depth() + 1) + s.depth() * kWidth + at - lane];
    });
    return found;
  }

 private:
  // Adds `count` samples to the sums of one panel, or starts the sums. The first sample is
  // `sample`, with the planes x.
  template <int vectors>
  void add(std::size_t group, std::size_t lane, std::size_t wanted, const Real* x,
           std::size_t sample, std::size_t count, Real* d, bool begins, Real* to) const {
    constexpr std::size_t kWidth = vectors * kLanes<Real>;
    static constexpr Real kZeros[kWidth] = {};
    const std::size_t depth = s.depth(), maps = group * panels.channels + lane;
    Real* const sum = to + (group * panels.lanes() + lane) * (depth + 1);
    Real* const bias = sum + depth * kWidth;
    if (wanted < kWidth) std::fill_n(d, count * pixels() * kWidth, Real(0));
    if (begins) std::fill_n(bias, kWidth, Real(0));
    for (std::size_t i = 0; i < count; ++i) {
      transpose(wanted, pixels(), dY + ((sample + i) * s.out_channels + maps) * pixels(), pixels(),
                d + i * pixels() * kWidth, kWidth);
    }
    for (std::size_t lanes = 0; lanes < kWidth; lanes += kLanes<Real>) {
      Vec<Real> all = load(bias + lanes);
      for (std::size_t q = 0; q < count * pixels(); ++q) all += load(d + q * kWidth + lanes);
      store(bias + lanes, all);
    }
    const TileDepth<Real> terms{.depth = pixels(),
                                .step = image.pixel.data(),
                                .b = d,
                                .segments = count,
                                .from_stride = image.plain ? s.inputs() : image.size,
                                .b_stride = pixels() * kWidth};
    const Real* const planes = x + group * (s.in_channels / s.groups) * image.places;
    for_tiles<Real>(
        depth, [&](std::size_t k) { return planes + image.base[k]; },
        [&](std::size_t k) { return sum + k * kWidth; },
        [&](const TileRows<Real>& rows) {
          add_tile<Real, vectors>(rows, terms, begins ? kZeros : nullptr);
        });
  }

  static void write_some(Vec<Real> v, Real beta, std::size_t count, Real* to) {
    if (count == kLanes<Real>) return store(to, beta == Real(0) ? v : load(to) * beta + v);
    const Vec<Real> old = beta == Real(0) ? Vec<Real>{} : load_partial(to, count, Real(0)) * beta;
    store_partial(to, count, old + v);
  }
};

template <class Real>
class ChannelLanes {
 public:
  explicit ChannelLanes(const Cores& cores) : cores_(cores), scratch_(cores) {}

  // Whether the `channels` of a group fill registers better than output pixels do in rows of
  // planes. A tile of a single vector reads more than it multiplies, and takes 0.7 of the time of
  // two.
  static bool suit(const ConvolutionShape& s, std::size_t channels) {
    constexpr std::size_t kSingle = 14, kPair = 20;  // tenths of a vector's time in a pair
    const PlaneLayout layout(s);
    const std::size_t whole = (s.out_height - 1) / layout.block_rows;  // blocks before the last one
    const std::size_t by_pixels =
        whole * layout.template row_length<Real>(layout.block_rows) +
        layout.template row_length<Real>(s.out_height - whole * layout.block_rows);
    const std::size_t vectors = ChannelPanels<Real>{channels}.lanes() / kLanes<Real>;
    const std::size_t tenths = vectors / 2 * kPair + vectors % 2 * kSingle;
    return channels * by_pixels * 10 >= tenths * kLanes<Real> * s.out_height * s.out_width;
  }

  // Y = beta Y + the sums and the bias.
  void forward(const ConvolutionShape& s, std::size_t n, const Real* X, const Real* W,
               const Real* bias, Real beta, Real* Y) {
    const SampleImage<Real> image(s);
    const ChannelPanels<Real> panels{s.out_channels / s.groups};
    const std::size_t lanes = panels.lanes(), depth = s.depth(), pixels = image.pixel.size();
    const Real* const packed = pack_filters(s, panels, W, bias);
    constexpr std::size_t kPixels = 64;  // of a block: its sums stay in the first cache
    const std::size_t blocks = (pixels + kPixels - 1) / kPixels, room = kPixels + kTileRows;
    for_items(cores_, scratch_.get().samples, n, image.size + 2 * room * lanes,
              [&](std::size_t sample, Real* mine) {
                const Real* const planes = image.planes(s, X + sample * s.inputs(), mine);
                Real* const y = mine + image.size;
                for (std::size_t at = 0; at < s.groups * blocks; ++at) {
                  const std::size_t group = at / blocks;
                  const Range range = part_of(pixels, blocks, at % blocks, kTileRows);
                  forward_block(image, panels, depth, range,
                                planes + group * (s.in_channels / s.groups) * image.places,
                                packed + group * lanes * (depth + 1), y);
                  write_block(panels, range, y, y + room * lanes, beta,
                              Y + (sample * s.out_channels + group * panels.channels) * pixels,
                              pixels);
                }
              });
  }

  void input_gradient(const ConvolutionShape& s, std::size_t n, const Real* dY, const Real* W,
                      Real beta, Real* dX) {
    const SampleImage<Real> image(s);
    const ChannelPanels<Real> panels{s.in_channels / s.groups};
    const std::size_t filters = s.out_channels / s.groups, pixels = image.pixel.size();
    const std::size_t lanes = panels.lanes(), taps = s.kernel_height * s.kernel_width;
    const Real* const packed = pack_taps(s, panels, W);
    std::vector<std::size_t> step(filters);
    for (std::size_t o = 0; o < filters; ++o) step[o] = o * pixels;
    const std::size_t planes = image.layout.template size<Real>(s.in_channels);
    const bool direct = image.plain && beta == Real(0);
    for_items(cores_, scratch_.get().samples, n, planes + image.places * lanes,
              [&](std::size_t sample, Real* mine) {
                Real* const to = dX + sample * s.inputs();
                Real* const sums = mine + planes;
                for (std::size_t group = 0; group < s.groups; ++group) {
                  std::fill_n(sums, image.places * lanes, Real(0));
                  spread_group(image, panels, taps, step,
                               dY + (sample * s.out_channels + group * filters) * pixels,
                               packed + group * lanes * taps * filters, sums);
                  transpose(image.places, panels.channels, sums, lanes,
                            (direct ? to : mine) + group * panels.channels * image.places,
                            image.places);
                }
                if (!direct) read_planes(s, image.layout, mine, beta, to);
              });
  }

  void parameter_gradient(const ConvolutionShape& s, std::size_t n, const Real* X, const Real* dY,
                          Real alpha, Real beta, Real* G, Real* g) {
    const SampleImage<Real> image(s);
    const ChannelGradient<Real> gradient{s, image, {s.out_channels / s.groups}, X, dY};
    // Sums of several parts of the batch take memory. All limits depend on the shape alone.
    constexpr std::size_t kMostNumbers = std::size_t{1} << 22, kMostParts = 16;
    const std::size_t each = gradient.sums(), panels = gradient.all_panels();
    const std::size_t room = std::clamp<std::size_t>(kMostNumbers / each, 1, kMostParts / 2);
    const std::size_t parts = std::clamp<std::size_t>(n, 1, room);
    const std::size_t columns = std::clamp<std::size_t>(kMostParts / parts, 1, panels);
    Real* const sums = scratch_.get().sums.reserve(parts * each);
    for_items(cores_, scratch_.get().samples, parts * columns, gradient.scratch(),
              [&](std::size_t item, Real* mine) {
                const std::size_t part = item / columns;
                gradient.run(part_of(n, parts, part), part_of(panels, columns, item % columns),
                             mine, sums + part * each);
              });
    const std::size_t blocks = (s.depth() + kLanes<Real> - 1) / kLanes<Real>;
    cores_.split(panels * blocks, 1, 4, [&](Range range) {
      for (std::size_t at = range.begin; at < range.end; ++at) {
        gradient.finish(at / blocks, at % blocks * kLanes<Real>, parts, sums, alpha, beta, G);
      }
    });
    for (std::size_t o = 0; g && o < s.out_channels; ++o) {
      Real sum = 0;
      for (std::size_t part = 0; part < parts; ++part) sum += gradient.bias(sums + part * each, o);
      g[o] = beta == Real(0) ? alpha * sum : beta * g[o] + alpha * sum;
    }
  }

 private:
  struct ChannelScratch {
    Scratch<Real> samples;  // of each core
    Scratch<Real> sums;     // of each part of a batch: parameter gradients
    Scratch<Real> weights;  // packed
  };

  // Some pixels of the channels of a group: Y = beta Y + y, transposed.
  static void write_block(const ChannelPanels<Real>& panels, Range range, const Real* y, Real* room,
                          Real beta, Real* Y, std::size_t pixels) {
    if (beta == Real(0)) {
      return transpose(range.size(), panels.channels, y, panels.lanes(), Y + range.begin, pixels);
    }
    transpose(range.size(), panels.channels, y, panels.lanes(), room, range.size());
    for (std::size_t c = 0; c < panels.channels; ++c) {
      Real* const to = Y + c * pixels + range.begin;
      for (std::size_t q = 0; q < range.size(); ++q) {
        to[q] = beta * to[q] + room[c * range.size() + q];
      }
    }
  }

  // Sums y [pixels of `range` x lanes] of one group. The packed filters end with the initial values
  // of the sums.
  static void forward_block(const SampleImage<Real>& image, const ChannelPanels<Real>& panels,
                            std::size_t depth, Range range, const Real* planes, const Real* packed,
                            Real* y) {
    constexpr std::size_t kChunk = 192;  // of the depth: a panel's b takes half of the first cache
    const std::size_t lanes = panels.lanes();
    for (std::size_t k = 0; k < depth; k += kChunk) {
      for (std::size_t panel = 0; panel < panels.count(); ++panel) {
        panels.visit(panel, [&](std::size_t lane, std::size_t, auto vectors) {
          constexpr int kVectors = decltype(vectors)::value;
          const TileDepth<Real> terms{.depth = std::min(kChunk, depth - k),
                                      .step = image.base.data() + k,
                                      .b = packed + lane * depth + k * kVectors * kLanes<Real>};
          const Real* const start = k == 0 ? packed + lanes * depth + lane : nullptr;
          for_tiles<Real>(
              range.size(), [&](std::size_t q) { return planes + image.pixel[range.begin + q]; },
              [&](std::size_t q) { return y + q * lanes + lane; },
              [&](const TileRows<Real>& rows) { add_tile<Real, kVectors>(rows, terms, start); });
        });
      }
    }
  }

  // sums [places x lanes] += the contributions of the output's gradient d of one group.
  static void spread_group(const SampleImage<Real>& image, const ChannelPanels<Real>& panels,
                           std::size_t taps, const std::vector<std::size_t>& step, const Real* d,
                           const Real* packed, Real* sums) {
    const std::size_t lanes = panels.lanes(), filters = step.size();
    for (std::size_t panel = 0; panel < panels.count(); ++panel) {
      panels.visit(panel, [&](std::size_t lane, std::size_t, auto vectors) {
        constexpr int kVectors = decltype(vectors)::value;
        for (std::size_t t = 0; t < taps; ++t) {
          const TileDepth<Real> terms{
              .depth = filters,
              .step = step.data(),
              .b = packed + (lane * taps + t * kVectors * kLanes<Real>)*filters};
          for_tiles<Real>(
              image.pixel.size(), [&](std::size_t q) { return d + q; },
              [&](std::size_t q) { return sums + (image.pixel[q] + image.base[t]) * lanes + lane; },
              [&](const TileRows<Real>& rows) { add_tile<Real, kVectors>(rows, terms, nullptr); });
        }
      });
    }
  }

  // Packed filters. For each group: each panel [depth x width], then for all lanes the bias or 0.
  const Real* pack_filters(const ConvolutionShape& s, const ChannelPanels<Real>& panels,
                           const Real* W, const Real* bias) {
    const std::size_t lanes = panels.lanes(), depth = s.depth(), each = lanes * (depth + 1);
    Real* const to = scratch_.get().weights.reserve(s.groups * each);
    cores_.split(s.groups * panels.count(), 1, 2, [&](Range range) {
      for (std::size_t at = range.begin; at < range.end; ++at) {
        const std::size_t group = at / panels.count();
        panels.visit(at % panels.count(), [&](std::size_t lane, std::size_t wanted, auto vectors) {
          constexpr std::size_t kWidth = decltype(vectors)::value * kLanes<Real>;
          const std::size_t o = group * panels.channels + lane;
          Real* const b = to + group * each + lane * depth;
          Real* const start = to + group * each + lanes * depth + lane;
          if (wanted < kWidth) std::fill_n(b, depth * kWidth, Real(0));
          transpose(wanted, depth, W + o * depth, depth, b, kWidth);
          std::fill_n(start, kWidth, Real(0));
          if (bias) std::copy_n(bias + o, wanted, start);
        });
      }
    });
    return to;
  }

  // Packed filters by tap, for each group and panel: [tap of the kernel][filter][width].
  const Real* pack_taps(const ConvolutionShape& s, const ChannelPanels<Real>& panels,
                        const Real* W) {
    const std::size_t filters = s.out_channels / s.groups, lanes = panels.lanes();
    const std::size_t taps = s.kernel_height * s.kernel_width, each = lanes * taps * filters;
    Real* const to = scratch_.get().weights.reserve(s.groups * each);
    cores_.split(s.groups * panels.count(), 1, 2, [&](Range range) {
      for (std::size_t at = range.begin; at < range.end; ++at) {
        const std::size_t group = at / panels.count();
        panels.visit(at % panels.count(), [&](std::size_t lane, std::size_t wanted, auto vectors) {
          constexpr std::size_t kWidth = decltype(vectors)::value * kLanes<Real>;
          Real* const b = to + group * each + lane * taps * filters;
          if (wanted < kWidth) std::fill_n(b, taps * filters * kWidth, Real(0));
          for (std::size_t o = 0; o < filters; ++o) {
            transpose(wanted, taps, W + ((group * filters + o) * panels.channels + lane) * taps,
                      taps, b + o * kWidth, filters * kWidth);
          }
        });
      }
    });
    return to;
  }

  const Cores& cores_;
  DeviceScratch<ChannelScratch> scratch_;
};

}  // namespace hetsgd::cpu
