#include "data/images.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/random.hpp"
#include "core/text.hpp"
#include "data/source.hpp"

namespace hetsgd {

namespace {

// The random change of an image: where its window begins, from -kCropPadding to kCropPadding, and
// whether it is mirrored.
struct ImageChange {
  std::int64_t down = 0, right = 0;
  bool mirrored = false;
};

ImageChange draw_change(const AugmentedBatch& augmentation, std::uint64_t place) {
  RandomStream stream(augmentation.seed, Purpose::augmentation, place);
  constexpr std::uint64_t kShifts = 2 * kCropPadding + 1;
  const auto shift = [&] {
    return static_cast<std::int64_t>(stream.below(kShifts)) - std::int64_t{kCropPadding};
  };
  const Augmentation change = augmentation.change;
  ImageChange drawn;
  if (change == Augmentation::crop || change == Augmentation::crop_flip) {
    drawn.down = shift();
    drawn.right = shift();
  }
  if (change == Augmentation::flip || change == Augmentation::crop_flip) {
    drawn.mirrored = stream.below(2) == 1;
  }
  return drawn;
}

// The normal form of each of the 256 bytes of a channel.
template <class Real>
using NormalForm = std::array<Real, 256>;

template <class Real>
std::vector<NormalForm<Real>> normal_forms(const Images<View>& images) {
  std::vector<NormalForm<Real>> forms(images.channels);
  for (std::size_t c = 0; c < forms.size(); ++c) {
    for (std::size_t byte = 0; byte < forms[c].size(); ++byte) {
      forms[c][byte] = (static_cast<Real>(byte) - Real{images.mean[c]}) / Real{images.deviation[c]};
    }
  }
  return forms;
}

template <class Real>
void copy_plane(const std::uint8_t* from, const ImageShape& shape, const ImageChange& change,
                const NormalForm<Real>& form, Real* to) {
  const std::int64_t height = shape.height, width = shape.width;
  if (change.down == 0 && change.right == 0 && !change.mirrored) {
    for (std::int64_t i = 0; i < height * width; ++i) to[i] = form[from[i]];
    return;
  }
  for (std::int64_t y = 0; y < height; ++y) {
    const std::int64_t row = y + change.down;
    for (std::int64_t x = 0; x < width; ++x, ++to) {
      const std::int64_t column = (change.mirrored ? width - 1 - x : x) + change.right;
      const bool inside = row >= 0 && row < height && column >= 0 && column < width;
      *to = inside ? form[from[row * width + column]] : Real(0);
    }
  }
}

// Sums are whole numbers, so that they do not depend on the order of summation.
void set_statistics(std::span<const std::uint8_t> pixels, Images<Owned>& to) {
  const ImageShape shape = to.shape();
  to.mean.clear();
  to.deviation.clear();
  const std::size_t plane = std::size_t{shape.height} * shape.width;
  for (Index c = 0; c < shape.channels; ++c) {
    std::array<std::uint64_t, 256> count{};
    for (std::size_t at = c * plane; at < pixels.size(); at += shape.size()) {
      for (const std::uint8_t byte : pixels.subspan(at, plane)) ++count[byte];
    }
    std::uint64_t sum = 0;
    double squares = 0;
    for (std::size_t byte = 0; byte < count.size(); ++byte) sum += byte * count[byte];
    const auto all = static_cast<double>(pixels.size() / shape.size() * plane);
    const double mean = static_cast<double>(sum) / all;
    for (std::size_t byte = 0; byte < count.size(); ++byte) {
      const double distance = static_cast<double>(byte) - mean;
      squares += static_cast<double>(count[byte]) * distance * distance;
    }
    to.mean.push_back(static_cast<float>(mean));
    to.deviation.push_back(squares > 0 ? static_cast<float>(std::sqrt(squares / all)) : 1.0F);
  }
}

// Gives `data` other images, or, if `images` has no pixels, the same pixels with other statistics.
// Other views stay as they are.
void set_images(Dataset& data, Images<Owned> images) {
  const Images<View> all = view_of(keep(data, std::move(images)));
  const std::span<const std::uint8_t> before = data.images.pixel;
  data.images = all;
  if (all.pixel.empty()) data.images.pixel = before;
}

// Images of this shape, without pixels or statistics.
Images<Owned> images_of(const ImageShape& shape) {
  return {shape.channels, shape.height, shape.width, {}, {}, {}};
}

// A feature's value as a byte. `full_scale` is the value that becomes 255.
std::uint8_t byte_of(float value, float full_scale, const std::string& path, std::uint64_t row) {
  const float byte = std::round(value / full_scale * 255);
  const bool whole = full_scale == 1 || value == byte;
  if (value >= 0 && value <= full_scale && whole) return static_cast<std::uint8_t>(byte);
  refuse(fmt::format("{}: row {}", path, row + 1), fmt::format("a pixel of {}", value),
         full_scale == 1 ? "a share from 0 to 1, as in the training data"
                         : "whole numbers from 0 to 255, or all from 0 to 1 in the training data",
         "scale the features of all files alike before they are images", ExitCode::data);
}

}  // namespace

template <class Real>
void copy_images(const Batch& batch, std::size_t first, std::size_t count, Real* to) {
  const Images<View>& images = batch.data().images;
  HETSGD_CHECK_LT(0U, images.size());
  HETSGD_CHECK_LE(first + count, batch.size());
  const AugmentedBatch& augmentation = batch.augmentation();
  const std::vector<NormalForm<Real>> forms = normal_forms<Real>(images);
  const std::size_t plane = std::size_t{images.height} * images.width;
  for (std::size_t i = first; i < first + count; ++i) {
    const std::span<const std::uint8_t> bytes = images.row(batch.rows()[i]);
    ImageChange change;
    if (augmentation.change != Augmentation::none) {
      change = draw_change(augmentation, augmentation.first + i);
    }
    for (std::size_t c = 0; c < forms.size(); ++c, to += plane) {
      copy_plane(bytes.data() + c * plane, images.shape(), change, forms[c], to);
    }
  }
}

template void copy_images(const Batch&, std::size_t, std::size_t, float*);
template void copy_images(const Batch&, std::size_t, std::size_t, double*);

ImageShape parse_image_shape(const std::string& option, std::string_view text) {
  const std::vector<std::string_view> parts = split(text, 'x');
  if (parts.size() != 3) {
    refuse(option, quote(text), "channels, height and width such as 1x28x28");
  }
  const auto number = [&](std::string_view part) {
    return static_cast<Index>(parse_integer(option, part, 1, kLargestSide));
  };
  return {number(parts[0]), number(parts[1]), number(parts[2])};
}

void set_image_statistics(DatasetBuilder& data) { set_statistics(data.images.pixel, data.images); }

void set_image_statistics(Dataset& data) {
  Images<Owned> images = images_of(data.images.shape());
  set_statistics(data.images.pixel, images);
  set_images(data, std::move(images));
}

void match_images(Dataset& data, const Dataset& training, const std::string& path) {
  const ImageShape found = data.images.shape(), expected = training.images.shape();
  if (found != expected) {
    throw data_error("{}: found images of {}x{}x{}, expected {}x{}x{} as in the training data",
                     path, found.channels, found.height, found.width, expected.channels,
                     expected.height, expected.width);
  }
  Images<Owned> images = images_of(found);
  images.mean.assign(training.images.mean.begin(), training.images.mean.end());
  images.deviation.assign(training.images.deviation.begin(), training.images.deviation.end());
  set_images(data, std::move(images));
}

float full_scale_of(const Dataset& data) {
  const std::span<const float> values = data.sparse.value;
  return values.empty() || *std::ranges::max_element(values) <= 1 ? 1.0F : 255.0F;
}

void scatter_to_images(Dataset& data, const ImageShape& shape, float full_scale,
                       const std::string& path) {
  if (data.images.size() > 0 || data.sparse.rows() == 0) {
    refuse("--image",
           fmt::format("{} without sparse rows{}", path,
                       data.images.size() > 0 ? ", with images already" : ""),
           "sparse rows, which become images");
  }
  const std::size_t size = shape.size();
  require_memory(static_cast<double>(data.rows()) * static_cast<double>(size), path,
                 "the rows as images", MemoryLimit::available, "use a smaller --image");
  Images<Owned> images = images_of(shape);
  images.pixel.resize(data.rows() * size);
  for (std::uint64_t row = 0; row < data.rows(); ++row) {
    const std::span<const Index> features = data.features(row);
    if (!features.empty() && features.back() >= size) {
      throw data_error(
          "{}: row {}: found feature {} (counted from 0), expected less than {}, the pixels of "
          "{}x{}x{}",
          path, row + 1, features.back(), size, shape.channels, shape.height, shape.width);
    }
    for (std::size_t k = 0; k < features.size(); ++k) {
      images.pixel[row * size + features[k]] = byte_of(data.values(row)[k], full_scale, path, row);
    }
  }
  set_statistics(images.pixel, images);
  set_images(data, std::move(images));
  data.sparse = {};
  data.feature_count = 0;
}

}  // namespace hetsgd
