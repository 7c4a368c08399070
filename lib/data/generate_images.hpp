// Images that a model can learn: `generate:images?classes=10&size=32&channels=3&noise=1.7`.
//
// Model  : a class is a template, a smooth random surface in each channel: normal numbers on a
//          grid of kTemplateCell pixels, interpolated linearly. An image is the window of its
//          class's template at a random place, up to size/7 pixels from the middle in both
//          directions, plus normal noise of deviation noise sqrt(channels), in units of the grid's
//          numbers. The sum is scaled to bytes around 128; what is beyond them is cut off.
// Reach  : the shifts are longer than the template's details, so that a model that adds up pixels
//          sees blurred classes, where one that finds details wherever they are does not: on 40,000
//          images of 28x28 a linear model stays below 85 %, lenet-5 passes 97 % (results/
//          image_models.md). With shifts of 3 pixels no noise gives both a margin; 4 do.
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

// Errors: usage, naming what is wrong.
ImageOptions parse_image_spec(std::string_view spec);

// Generates one part with its own statistics, on `threads` threads (none: all cores).
ParsedData generate_images(const ImageOptions& options, DataPart part,
                           std::optional<int> threads = {});

}  // namespace hetsgd
