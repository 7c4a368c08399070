#include "data/generate_video.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "data/labels.hpp"
#include "data/parallel.hpp"

namespace hetsgd {

namespace {

constexpr std::size_t kVideoKnots = 8;
constexpr std::uint64_t kVideoChunk = 16;

class VideoGenerator final : public FrameSource {
 public:
  VideoGenerator(const VideoOptions& options, DataPart part) : options_(options), part_(part) {
    path_.reserve(std::size_t{options.classes} * kVideoKnots * options.size);
    for (Index label = 0; label < options.classes; ++label) {
      RandomStream stream(options.seed, Purpose::generator, label, kClassPath);
      for (std::size_t i = 0; i < kVideoKnots * options.size; ++i) {
        path_.push_back(static_cast<float>(stream.normal()));
      }
    }
  }

  Index label(std::uint64_t row) const {
    RandomStream stream = row_stream(options_, part_, row, kClipRow);
    return label_from(stream);
  }

  void draw(std::uint64_t row, std::span<float> frames) const override {
    RandomStream stream = row_stream(options_, part_, row, kClipRow);  // the label, then the noise
    const float* const path = &path_[label_from(stream) * kVideoKnots * options_.size];
    const std::uint64_t length = frames.size() / options_.size;
    const double last = static_cast<double>(std::max<std::uint64_t>(length - 1, 1));
    float* to = frames.data();
    for (std::uint64_t frame = 0; frame < length; ++frame) {
      const double at = static_cast<double>(frame) / last * (kVideoKnots - 1);
      const std::size_t knot = std::min(static_cast<std::size_t>(at), kVideoKnots - 2);
      const double share = at - static_cast<double>(knot);
      const float* const from = path + knot * options_.size;
      for (std::size_t j = 0; j < options_.size; ++j) {
        const double a = static_cast<double>(from[j]);
        const double b = static_cast<double>(from[options_.size + j]);
        *to++ = static_cast<float>(a + (b - a) * share + options_.noise * stream.normal());
      }
    }
  }

 private:
  Index label_from(RandomStream& stream) const {
    return static_cast<Index>(stream.below(options_.classes));
  }

  VideoOptions options_;
  DataPart part_;
  std::vector<float> path_;  // [classes x knots x size]
};

constexpr const char* kLessVideo =
    "use frames=drawn, which makes frames when a batch reads them, or a smaller size, fewer clips "
    "or fewer classes";

// Checks the part of the memory that is known before lengths are drawn. Each clip has its label,
// its places in two lists, and, if stored, its frames.
void require_video_memory(const VideoOptions& o, std::uint64_t clips) {
  const double frame = sizeof(float) * static_cast<double>(o.size);
  const double paths = frame * static_cast<double>(kVideoKnots) * o.classes;
  const double frames =
      o.frames == VideoFrames::stored ? frame * static_cast<double>(o.shortest) : 0;
  const double of_clip = frames + sizeof(Index) + 2 * sizeof(std::uint64_t);
  require_memory(paths + of_clip * static_cast<double>(clips), o.name,
                 "the clips and the paths of their classes", MemoryLimit::available, kLessVideo);
}

void store_frames(const VideoGenerator& generator, const VideoOptions& options,
                  Sequences<Owned>& sequences, std::optional<int> threads) {
  const std::uint64_t rows = sequences.begin.size() - 1, size = options.size;
  require_memory(sizeof(float) * static_cast<double>(sequences.frames()) * options.size,
                 options.name, "the frames", MemoryLimit::available, kLessVideo);
  sequences.value.resize(sequences.frames() * size);
  parallel_rows(threads, rows, kVideoChunk, [&](std::uint64_t row) {
    generator.draw(
        row, {sequences.value.data() + sequences.begin[row] * size, sequences.length(row) * size});
  });
}

}  // namespace

VideoOptions parse_video_spec(std::string_view spec) {
  constexpr double kMostFrames = 1e6;
  VideoOptions options;
  options.name = generator_parts(spec).name;
  std::optional<std::uint64_t> clips_test;
  OptionSet set;
  set.add("clips", options.rows_train, "").range(1, kMostGeneratedRows);
  set.add("clips_test", clips_test, "").range(1, kMostGeneratedRows);
  set.add("classes", options.classes, "").range(2, 65536);
  set.add("size", options.size, "").range(1, 65536);
  set.add("median", options.median, "").range(1, kMostFrames);
  set.add("sigma", options.sigma, "").range(0, 10);
  set.add("shortest", options.shortest, "").range(1, kMostFrames);
  set.add("longest", options.longest, "").range(1, kMostFrames);
  set.add("noise", options.noise, "").range(0, 1000);
  set.add_choice("frames", options.frames,
                 {{"stored", VideoFrames::stored}, {"drawn", VideoFrames::drawn}}, "");
  set.add("seed", options.seed, "");
  read_settings(spec, set, "clips=500&classes=5&size=16&median=20");
  options.rows_test = clips_test.value_or(std::min(options.rows_test, options.rows_train));
  if (options.shortest > options.longest) {
    refuse(fmt::format("{}: longest", spec), fmt::format("{}", options.longest),
           fmt::format("at least {}, the shortest", options.shortest));
  }
  return options;
}

std::uint64_t video_length(const VideoOptions& options, DataPart part, std::uint64_t row) {
  RandomStream stream = row_stream(options, part, row, kClipLength);
  const double frames = std::round(stream.lognormal(std::log(options.median), options.sigma));
  return static_cast<std::uint64_t>(std::clamp(frames, static_cast<double>(options.shortest),
                                               static_cast<double>(options.longest)));
}

ParsedData generate_video(const VideoOptions& o, DataPart part, std::optional<int> threads) {
  constexpr int kVersion = 1;  // raise it when the bytes change
  const std::uint64_t rows = o.rows_of(part);
  require_video_memory(o, rows);
  DatasetBuilder data;
  data.name = o.name;
  data.content_hash =
      generated_hash(part, "video", kVersion, o.rows_train, o.rows_test, o.classes, o.size,
                     o.median, o.sigma, o.shortest, o.longest, o.noise, o.seed);
  Sequences<Owned>& sequences = data.sequences;
  sequences.numbers = o.size;
  sequences.begin.reserve(rows + 1);
  data.targets.begin.reserve(rows + 1);
  data.targets.index.reserve(rows);
  sequences.begin.push_back(0);
  const auto generator = std::make_shared<const VideoGenerator>(o, part);
  for (std::uint64_t row = 0; row < rows; ++row) {
    sequences.begin.push_back(sequences.begin.back() + video_length(o, part, row));
    data.targets.begin.push_back(row + 1);
    data.targets.index.push_back(generator->label(row));
  }
  if (o.frames == VideoFrames::drawn) {
    data.drawn = generator;
  } else {
    store_frames(*generator, o, sequences, threads);
  }
  return with_numbered_labels(std::move(data), o.classes, DataFormat::generated);
}

}  // namespace hetsgd
