// Images that a model can learn: `generate:images?classes=10&size=32&channels=3&noise=1.7`.
//
// Model  : a class is a template, a smooth random surface in each channel: normal numbers on a grid
//          of kTemplateCell pixels, interpolated linearly. An image is a window of its class's
//          template, up to size/7 pixels from the middle in both directions, plus normal noise. The
//          noise has the deviation `noise` sqrt(channels), in units of the grid's numbers. The sum
//          is scaled to bytes around 128 and clipped.
// Reach  : the shifts are longer than the template's details. So a model that adds up pixels sees
//          blurred classes, while one that finds details anywhere does not. On 40,000 images of
//          28x28 a linear model stays below 85 %, lenet-5 exceeds 97 % (results/image_models.md).
//          With shifts of 3 pixels no noise level gives both a margin; with 4 there is one.
// Every row is a pure function of (options, part, row): the same bytes for any number of threads.
#pragma once

#include <optional>
#include <string_view>

#include "data/generator.hpp"

namespace hetsgd {

struct ImageOptions : GeneratedRows {
  ImageOptions() : GeneratedRows{"images", 10000, 2000} {}

  Index classes = 10;
  Index size = 32;  // height and width
  Index channels = 3;
  double noise = 1.7;
};

inline constexpr std::string_view kImagePreset = "images";

// Throws Error(usage) naming what is wrong.
ImageOptions parse_image_spec(std::string_view spec);

// Generates one part with its own statistics, on `threads` threads (none: all cores).
ParsedData generate_images(const ImageOptions& options, DataPart part,
                           std::optional<int> threads = {});

}  // namespace hetsgd
