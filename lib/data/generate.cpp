#include "data/generate.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "data/generate_ctr.hpp"
#include "data/generate_images.hpp"
#include "data/generate_language.hpp"
#include "data/generate_video.hpp"
#include "data/parallel.hpp"
#include "data/zipf.hpp"

namespace hetsgd {

namespace {

constexpr std::uint64_t kChunkRows = 512;
constexpr double kDecimals = 10000.0;
constexpr double kCountSigma = 0.5;

std::vector<Index> shuffled_ids(Index count, std::uint64_t seed, std::uint32_t round) {
  const Permutation permutation(count, seed, Purpose::generator, round);
  std::vector<Index> ids(count);
  for (Index rank = 0; rank < count; ++rank) ids[rank] = static_cast<Index>(permutation(rank));
  return ids;
}

std::vector<Index> identity(std::uint64_t count) {
  std::vector<Index> ids(count);
  std::iota(ids.begin(), ids.end(), Index{0});
  return ids;
}

// Many topics tell rows apart, but each topic needs enough labels to draw a row's labels from.
std::uint64_t topic_count(const GeneratorOptions& options) {
  const double by_size = 2.0 * std::sqrt(static_cast<double>(options.labels));
  const double by_row = options.labels / (2.5 * options.labels_per_sample);
  return static_cast<std::uint64_t>(std::clamp(std::min(by_size, by_row), 1.0, 1024.0));
}

// Rows of one chunk, before they are joined.
struct Piece {
  std::vector<std::uint64_t> feature_count, label_count;  // per row
  std::vector<Index> feature_index, label_index;
  std::vector<float> feature_value;
};

// Buffers of a thread that draws rows. An entry equal to `mark` means that the row has this column
// already.
struct Scratch {
  explicit Scratch(const GeneratorOptions& options)
      : feature_mark(options.features, 0), label_mark(options.labels, 0) {}
  std::vector<std::uint32_t> feature_mark, label_mark;
  std::uint32_t mark = 0;
  std::vector<Index> label_ranks;  // the labels that the row's features come from
  std::vector<std::pair<Index, double>> features;
};

class RowGenerator {
 public:
  explicit RowGenerator(const GeneratorOptions& options)
      : options_(options),
        topics_(topic_count(options)),
        signature_slots_(
            static_cast<std::uint64_t>(std::ceil(std::max(8.0, options.nonzeros_per_sample)))),
        label_id_(shuffled_ids(options.labels, options.seed, 1)),
        feature_law_(shuffled_ids(options.features, options.seed, 0), options.feature_zipf),
        topic_law_(identity(topics_), options.topic_zipf),
        label_law_(identity((options.labels + topics_ - 1) / topics_), options.label_zipf) {}

  void draw_row(DataPart part, std::uint64_t row, Scratch& scratch, Piece& piece) const {
    RandomStream stream = row_stream(options_, part, row, kSparseRow);
    ++scratch.mark;
    draw_labels(stream, scratch, piece);
    draw_features(stream, scratch, piece);
  }

 private:
  // Lognormal with the given mean, rounded, at least 1.
  static std::uint64_t draw_count(RandomStream& stream, double mean, std::uint64_t columns) {
    const double count =
        mean * std::exp(kCountSigma * stream.normal() - kCountSigma * kCountSigma / 2);
    const double limit = std::max(1.0, static_cast<double>(columns) / 2);
    return static_cast<std::uint64_t>(std::clamp(std::round(count), 1.0, limit));
  }

  static Index draw(const ZipfSampler& law, RandomStream& stream) {
    const std::uint32_t where = stream.next_u32();
    return law(where, stream.next_u32());
  }

  bool noisy(RandomStream& stream) const {
    return stream.next_u32() < static_cast<std::uint64_t>(options_.noise * 0x1.0p32);
  }

  void draw_labels(RandomStream& stream, Scratch& scratch, Piece& piece) const {
    const std::uint64_t wanted = draw_count(stream, options_.labels_per_sample, options_.labels);
    const std::uint64_t topic = draw(topic_law_, stream);
    const std::size_t first = piece.label_index.size();
    scratch.label_ranks.clear();
    for (std::uint64_t tries = 0; piece.label_index.size() - first < wanted && tries < 8 * wanted;
         ++tries) {
      const bool any = noisy(stream);
      const std::uint64_t from = any ? draw(topic_law_, stream) : topic;
      const std::uint64_t rank = from + draw(label_law_, stream) * topics_;
      if (rank >= options_.labels || scratch.label_mark[rank] == scratch.mark) continue;
      scratch.label_mark[rank] = scratch.mark;
      piece.label_index.push_back(label_id_[rank]);
      if (!any) scratch.label_ranks.push_back(static_cast<Index>(rank));
    }
    if (scratch.label_ranks.empty()) scratch.label_ranks.push_back(static_cast<Index>(topic));
    std::sort(piece.label_index.begin() + static_cast<std::ptrdiff_t>(first),
              piece.label_index.end());
    piece.label_count.push_back(piece.label_index.size() - first);
  }

  // A feature of the signature of one of the row's labels: half the slots belong to the topic.
  Index draw_from_signature(RandomStream& stream, const Scratch& scratch) const {
    const Index rank =
        scratch.label_ranks[(std::uint64_t{stream.next_u32()} * scratch.label_ranks.size()) >> 32];
    const std::uint64_t slot = (std::uint64_t{stream.next_u32()} * 2 * signature_slots_) >> 32;
    const bool own = slot >= signature_slots_;
    const RandomBlock block = random_block(
        options_.seed, Purpose::generator, own ? rank : static_cast<Index>(rank % topics_),
        own ? kLabelSignature : kTopicSignature, static_cast<std::uint32_t>(slot));
    return feature_law_(block[0], block[1]);
  }

  void draw_features(RandomStream& stream, Scratch& scratch, Piece& piece) const {
    const std::uint64_t wanted =
        draw_count(stream, options_.nonzeros_per_sample, options_.features);
    auto& features = scratch.features;
    features.clear();
    double squares = 0;
    for (std::uint64_t tries = 0; features.size() < wanted && tries < 8 * wanted; ++tries) {
      const Index index =
          noisy(stream) ? draw(feature_law_, stream) : draw_from_signature(stream, scratch);
      if (scratch.feature_mark[index] == scratch.mark) continue;
      scratch.feature_mark[index] = scratch.mark;
      const double u = stream.next_u32() * 0x1.0p-32;
      const double weight = 0.25 + 1.75 * u * u;  // a few strong entries, many weak ones
      squares += weight * weight;
      features.emplace_back(index, weight);
    }
    std::sort(features.begin(), features.end());
    const double factor = kDecimals * std::sqrt(options_.nonzeros_per_sample / squares);
    for (const auto& [index, weight] : features) {
      piece.feature_index.push_back(index);
      piece.feature_value.push_back(
          static_cast<float>(std::max(1.0, std::round(weight * factor)) / kDecimals));
    }
    piece.feature_count.push_back(features.size());
  }

  GeneratorOptions options_;
  std::uint64_t topics_;
  std::uint64_t signature_slots_;
  std::vector<Index> label_id_;
  ZipfSampler feature_law_;  // gives column numbers; the others give ranks
  ZipfSampler topic_law_;
  ZipfSampler label_law_;  // which label of a topic: label ranks are topic + k * topics
};

template <class T>
void copy_to(std::vector<T>& from, std::vector<T>& to, std::uint64_t place) {
  if (!from.empty()) std::memcpy(to.data() + place, from.data(), from.size() * sizeof(T));
  std::vector<T>().swap(from);
}

void join(std::vector<Piece>& pieces, std::optional<int> threads, DatasetBuilder& data) {
  std::vector<std::uint64_t> feature_place, label_place;
  for (const Piece& piece : pieces) {
    feature_place.push_back(data.sparse.begin.back());
    label_place.push_back(data.targets.begin.back());
    for (const std::uint64_t count : piece.feature_count) {
      data.sparse.begin.push_back(data.sparse.begin.back() + count);
    }
    for (const std::uint64_t count : piece.label_count) {
      data.targets.begin.push_back(data.targets.begin.back() + count);
    }
  }
  data.sparse.index.resize(data.sparse.begin.back());
  data.sparse.value.resize(data.sparse.begin.back());
  data.targets.index.resize(data.targets.begin.back());
  parallel_tasks(threads, pieces.size(), [&](std::size_t p) {
    copy_to(pieces[p].feature_index, data.sparse.index, feature_place[p]);
    copy_to(pieces[p].feature_value, data.sparse.value, feature_place[p]);
    copy_to(pieces[p].label_index, data.targets.index, label_place[p]);
  });
}

// Checks the memory for everything before anything is made: the laws that columns are drawn by, the
// marks of each thread, and the rows, which exist twice while they are joined.
void require_row_memory(const GeneratorOptions& o, std::uint64_t rows, std::uint64_t tasks) {
  const double columns = static_cast<double>(o.features) + static_cast<double>(o.labels);
  constexpr double kLawBytes = 4.0 * sizeof(Index);  // a slot of three words, and the column's name
  const double of_column = kLawBytes + sizeof(Index) * static_cast<double>(tasks);
  const double of_row = (sizeof(Index) + sizeof(float)) * o.nonzeros_per_sample +
                        sizeof(Index) * o.labels_per_sample + 2 * sizeof(std::uint64_t);
  require_memory(of_column * columns + 2 * of_row * static_cast<double>(rows), o.name,
                 "the rows and the laws of their columns", MemoryLimit::available,
                 "use a smaller scale, or fewer rows_train, rows_test, features and labels");
}

DatasetPtr generate_with(const RowGenerator& generator, const GeneratorOptions& o, DataPart part,
                         std::optional<int> threads) {
  constexpr int kVersion = 1;  // raise it when the bytes change
  DatasetBuilder data;
  data.name = o.name;
  data.content_hash = generated_hash(part, kVersion, o.rows_train, o.rows_test, o.features,
                                     o.labels, o.nonzeros_per_sample, o.labels_per_sample,
                                     o.feature_zipf, o.topic_zipf, o.label_zipf, o.noise, o.seed);
  data.task = Task::multilabel;
  data.feature_count = o.features;
  data.label_count = o.labels;
  const std::uint64_t rows = o.rows_of(part);
  std::vector<Piece> pieces((rows + kChunkRows - 1) / kChunkRows);
  parallel_rows(
      threads, rows, kChunkRows, [&] { return Scratch(o); },
      [&](std::uint64_t row, Scratch& scratch) {
        generator.draw_row(part, row, scratch, pieces[row / kChunkRows]);
      });
  join(pieces, threads, data);
  return std::move(data).share();
}

}  // namespace

DatasetPtr generate_part(const GeneratorOptions& options, DataPart part,
                         std::optional<int> threads) {
  check_generator_options(options);
  const std::uint64_t rows = options.rows_of(part);
  require_row_memory(options, rows, row_tasks(threads, rows, kChunkRows));
  return generate_with(RowGenerator(options), options, part, threads);
}

DatasetPair generate(const GeneratorOptions& options, std::optional<int> threads) {
  check_generator_options(options);
  const std::uint64_t rows = std::max(options.rows_train, options.rows_test);
  require_row_memory(options, options.rows(), row_tasks(threads, rows, kChunkRows));
  const RowGenerator generator(options);
  return {generate_with(generator, options, DataPart::train, threads),
          generate_with(generator, options, DataPart::test, threads)};
}

// --- specifications ------------------------------------------------------------------------------

namespace {

GeneratorOptions make(const char* name, std::uint64_t train, std::uint64_t test, Index features,
                      Index labels, double nonzeros, double labels_per_sample) {
  GeneratorOptions options;
  options.name = name;
  options.rows_train = train;
  options.rows_test = test;
  options.features = features;
  options.labels = labels;
  options.nonzeros_per_sample = nonzeros;
  options.labels_per_sample = labels_per_sample;
  return options;
}

const std::vector<GeneratorOptions>& presets() {
  static const std::vector<GeneratorOptions> all = [] {
    std::vector<GeneratorOptions> list = {
        make("amazon670k", 490449, 153025, 135909, 670091, 76, 5),
        make("delicious200k", 196606, 100095, 782585, 205443, 302, 75),
        make("tiny", 2000, 500, 500, 50, 20, 2),
    };
    // A row has 75 of a topic's some 200 labels. Under a steep law the topic's first label would be
    // in every row.
    list[1].label_zipf = 0.5;
    list[1].noise = 0.3;
    return list;
  }();
  return all;
}

template <class Count>
void scale_count(Count& count, double scale, double least) {
  count = static_cast<Count>(std::max(least, std::round(static_cast<double>(count) * scale)));
}

constexpr double kSmallestScale = 1e-9, kLargestScale = 100;

// The keys of a specification.
void declare(OptionSet& set, GeneratorOptions& o, double& scale) {
  set.add("scale", scale, "").range(kSmallestScale, kLargestScale);
  set.add("seed", o.seed, "");
  set.add("rows_train", o.rows_train, "").range(1, kMostGeneratedRows);
  set.add("rows_test", o.rows_test, "").range(1, kMostGeneratedRows);
  set.add("features", o.features, "").range(1, kMostGeneratedRows);
  set.add("labels", o.labels, "").range(1, 2147483648.0);
  set.add("nonzeros", o.nonzeros_per_sample, "").range(1, 1e6);
  set.add("labels_per_sample", o.labels_per_sample, "").range(1, 1e6);
  set.add("feature_zipf", o.feature_zipf, "").range(0, 10);
  set.add("topic_zipf", o.topic_zipf, "").range(0, 10);
  set.add("label_zipf", o.label_zipf, "").range(0, 10);
  set.add("noise", o.noise, "").range(0, 1);
}

}  // namespace

std::vector<std::string> generator_preset_names() {
  std::vector<std::string> names;
  for (const GeneratorOptions& preset : presets()) names.push_back(preset.name);
  return names;
}

GeneratorOptions generator_preset(std::string_view name, double scale) {
  const auto at = std::ranges::find(presets(), name, &GeneratorOptions::name);
  if (at == presets().end()) {
    const std::vector<std::string> names = generator_preset_names();
    refuse("generator", quote(name), alternatives(names), did_you_mean(name, names));
  }
  GeneratorOptions options = *at;
  if (scale == 1.0) return options;
  if (!(scale >= kSmallestScale && scale <= kLargestScale)) {
    refuse("generator: scale", fmt::format("{}", scale),
           fmt::format("a number from {} to {}", kSmallestScale, kLargestScale));
  }
  options.name = fmt::format("{}?scale={}", name, scale);
  scale_count(options.rows_train, scale, 1);
  scale_count(options.rows_test, scale, 1);
  scale_count(options.features, scale, 8);
  scale_count(options.labels, scale, 4);
  options.nonzeros_per_sample = std::min(options.nonzeros_per_sample, options.features / 4.0);
  options.labels_per_sample = std::min(options.labels_per_sample, options.labels / 4.0);
  return options;
}

GeneratorOptions parse_generator_spec(std::string_view spec) {
  const GeneratorParts parts = generator_parts(spec);
  double scale = 1.0;
  GeneratorOptions options = generator_preset(parts.preset);
  const auto read = [&] {
    OptionSet set;
    declare(set, options, scale);
    read_settings(spec, set, "scale=0.1&seed=1");
  };
  read();  // the preset depends on the scale, and the other keys change the preset
  options = generator_preset(parts.preset, scale);
  read();
  options.name = parts.name;
  return options;
}

void check_generator_options(const GeneratorOptions& options) {
  GeneratorOptions copy = options;
  double scale = 1;
  OptionSet set;
  declare(set, copy, scale);
  for (const Option& option : set.options()) {
    set.set_json(option.name, option.to_json(), OptionSource::flag, "generator: " + option.name);
  }
}

// --- all generators

namespace {

struct Generator {
  std::vector<std::string> presets;
  ParsedData (*load)(const std::string& spec, const LoadOptions& options);
};

const std::vector<Generator>& generators() {
  static const std::vector<Generator> all = {
      {generator_preset_names(),
       [](const std::string& spec, const LoadOptions& options) {
         ParsedData parsed;
         parsed.data = *generate_part(parse_generator_spec(spec), options.part, options.threads);
         parsed.report.format = DataFormat::generated;
         return parsed;
       }},
      {click_preset_names(), generate_clicks},
      {{std::string(kImagePreset)},
       [](const std::string& spec, const LoadOptions& options) {
         return generate_images(parse_image_spec(spec), options.part, options.threads);
       }},
      {{std::string(kVideoPreset)},
       [](const std::string& spec, const LoadOptions& options) {
         return generate_video(parse_video_spec(spec), options.part, options.threads);
       }},
      {{std::string(kLanguagePreset)}, [](const std::string& spec, const LoadOptions& options) {
         return generate_language(parse_language_spec(spec), options.part, options.threads);
       }}};
  return all;
}

}  // namespace

ParsedData load_generated(const std::string& spec, const LoadOptions& options) {
  const std::string preset(generator_parts(spec).preset);
  std::vector<std::string> known;
  for (const Generator& generator : generators()) {
    if (std::ranges::find(generator.presets, preset) != generator.presets.end()) {
      return generator.load(spec, options);
    }
    known.insert(known.end(), generator.presets.begin(), generator.presets.end());
  }
  refuse(spec, quote(preset), alternatives(known), did_you_mean(preset, known));
}

}  // namespace hetsgd
