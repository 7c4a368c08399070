#include "data/generate_images.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "data/images.hpp"
#include "data/labels.hpp"
#include "data/parallel.hpp"

namespace hetsgd {

namespace {

constexpr Index kTemplateCell = 2;
constexpr Index kShiftShare = 7;  // of the size
constexpr double kMiddle = 128, kSpread = 48;
constexpr std::uint64_t kImageChunk = 64;

// The shift in pixels. A template exceeds an image by it on either side.
std::size_t shift_of(const ImageOptions& options) { return options.size / kShiftShare; }

class ImageGenerator {
 public:
  explicit ImageGenerator(const ImageOptions& options)
      : options_(options), shift_(shift_of(options)), side_(options.size + 2 * shift_) {
    const std::size_t planes = std::size_t{options_.classes} * options_.channels;
    surface_.reserve(planes * side_ * side_);
    for (std::size_t plane = 0; plane < planes; ++plane) add_template(plane);
  }

  // Writes the row's pixels and returns its label.
  Index draw(DataPart part, std::uint64_t row, std::uint8_t* to) const {
    RandomStream stream = row_stream(options_, part, row, kImageRow);
    const auto label = static_cast<Index>(stream.below(options_.classes));
    const std::size_t down = stream.below(2 * shift_ + 1), right = stream.below(2 * shift_ + 1);
    const double deviation = options_.noise * std::sqrt(options_.channels);
    const double scale = kSpread / std::sqrt(1 + deviation * deviation);
    for (std::size_t c = 0; c < options_.channels; ++c) {
      const double* const plane = &surface_[(label * options_.channels + c) * side_ * side_];
      for (std::size_t y = 0; y < options_.size; ++y) {
        for (std::size_t x = 0; x < options_.size; ++x) {
          const double signal = plane[(y + down) * side_ + x + right];
          const double value = kMiddle + scale * (signal + deviation * stream.normal());
          *to++ = static_cast<std::uint8_t>(std::clamp(std::round(value), 0.0, 255.0));
        }
      }
    }
    return label;
  }

 private:
  void add_template(std::size_t plane) {
    const std::size_t knots = side_ / kTemplateCell + 2;
    RandomStream stream(options_.seed, Purpose::generator, plane, kImageTemplate);
    std::vector<double> grid(knots * knots);
    for (double& value : grid) value = stream.normal();
    const auto between = [](double a, double b, double share) { return a + (b - a) * share; };
    for (std::size_t y = 0; y < side_; ++y) {
      const double down = static_cast<double>(y % kTemplateCell) / kTemplateCell;
      for (std::size_t x = 0; x < side_; ++x) {
        const double right = static_cast<double>(x % kTemplateCell) / kTemplateCell;
        const double* const knot = &grid[y / kTemplateCell * knots + x / kTemplateCell];
        surface_.push_back(between(between(knot[0], knot[1], right),
                                   between(knot[knots], knot[knots + 1], right), down));
      }
    }
  }

  ImageOptions options_;
  std::size_t shift_, side_;     // of a template, in pixels
  std::vector<double> surface_;  // [classes x channels x side x side]
};

// Checks the memory for everything before anything is made.
void require_image_memory(const ImageOptions& o, std::uint64_t rows) {
  const double planes = static_cast<double>(o.classes) * o.channels;
  const double side = static_cast<double>(o.size + 2 * shift_of(o));
  const double pixels = static_cast<double>(o.channels) * o.size * o.size;
  const double of_row = pixels + sizeof(Index) + sizeof(std::uint64_t);  // label, place of labels
  require_memory(sizeof(double) * planes * side * side + of_row * static_cast<double>(rows), o.name,
                 "the images and the templates of their classes", MemoryLimit::available,
                 "use fewer rows_train, rows_test or classes, or a smaller size");
}

}  // namespace

ImageOptions parse_image_spec(std::string_view spec) {
  ImageOptions options;
  options.name = generator_parts(spec).name;
  OptionSet set;
  set.add("rows_train", options.rows_train, "").range(1, kMostGeneratedRows);
  set.add("rows_test", options.rows_test, "").range(1, kMostGeneratedRows);
  set.add("classes", options.classes, "").range(2, 65536);
  set.add("size", options.size, "").range(1, 1024);
  set.add("channels", options.channels, "").range(1, 64);
  set.add("noise", options.noise, "").range(0, 1000);
  set.add("seed", options.seed, "");
  read_settings(spec, set, "classes=10&size=28&channels=1");
  return options;
}

ParsedData generate_images(const ImageOptions& o, DataPart part, std::optional<int> threads) {
  constexpr int kVersion = 2;  // raise it when the bytes change
  const std::uint64_t rows = o.rows_of(part);
  require_image_memory(o, rows);
  const ImageGenerator generator(o);
  DatasetBuilder data;
  data.name = o.name;
  data.content_hash = generated_hash(part, "images", kVersion, o.rows_train, o.rows_test, o.classes,
                                     o.size, o.channels, o.noise, o.seed);
  data.images.channels = o.channels;
  data.images.height = data.images.width = o.size;
  const std::size_t size = data.images.size();
  data.images.pixel.resize(rows * size);
  data.targets.index.resize(rows);
  parallel_rows(threads, rows, kImageChunk, [&](std::uint64_t row) {
    data.targets.index[row] = generator.draw(part, row, data.images.pixel.data() + row * size);
  });
  data.targets.begin.resize(rows + 1);
  std::iota(data.targets.begin.begin(), data.targets.begin.end(), std::uint64_t{0});
  set_image_statistics(data);
  return with_numbered_labels(std::move(data), o.classes, DataFormat::generated);
}

}  // namespace hetsgd
