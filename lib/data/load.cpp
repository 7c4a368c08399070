#include "data/load.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/host.hpp"
#include "data/binary.hpp"
#include "data/cache.hpp"
#include "data/criteo.hpp"
#include "data/generate.hpp"
#include "data/generator.hpp"
#include "data/image_files.hpp"
#include "data/images.hpp"
#include "data/labels.hpp"
#include "data/manifest.hpp"
#include "data/select.hpp"
#include "data/source.hpp"
#include "data/text_parser.hpp"

namespace hetsgd {

namespace {

constexpr std::uint64_t kHeadBytes = 4096;  // the first line of Criteo's text has at most 600

// The bytes of a file, decompressed into `text` if necessary.
std::string_view plain_bytes(DataFile& file, const std::string& path, const LoadOptions& options,
                             std::string& text) {
  const std::string_view source = file.whole(options.threads);
  const Compression compression = detect_compression(source);
  if (compression == Compression::none) return source;
  text = decompress(source, compression, path);
  return text;
}

// One data file, and for IDX images a second one with their labels.
class SourceFiles {
 public:
  SourceFiles(DataFile& file, const std::string& path) : file_(file), path_(path) {
    if (const auto labels = label_file_of(path)) {
      labels_path_ = *labels;
      labels_.emplace(*labels);
    }
  }

  // The hash of all files that parse() may read.
  std::uint64_t hash() {
    if (!labels_) return file_.hash();
    const std::uint64_t both[] = {file_.hash(), labels_->hash()};
    return content_hash({reinterpret_cast<const char*>(both), sizeof both});
  }

  ParsedData parse(const LoadOptions& options) {
    std::string text;
    const std::string_view bytes = plain_bytes(file_, path_, options, text);
    const std::optional<DataFormat> images = image_format(bytes, options.format);
    if (!images) return parse_as_text(bytes, options);
    if (*images != DataFormat::idx) return parse_cifar(bytes, *images, path_);
    if (!labels_) {
      refuse(path_, "images without a file of labels beside them", "a pair of files",
             "keep the names of a pair: train-images-idx3-ubyte and train-labels-idx1-ubyte",
             ExitCode::data);
    }
    std::string label_text;
    return parse_idx(bytes, plain_bytes(*labels_, labels_path_, options, label_text), path_);
  }

 private:
  ParsedData parse_as_text(std::string_view bytes, const LoadOptions& options) const {
    const bool detect = options.format == DataFormat::detect;
    if (detect) refuse_other_idx(bytes, path_);
    try {
      return parse_text_alone(bytes, path_, options);
    } catch (const Error& error) {
      const std::string hint = detect ? hint_of_cifar(bytes) : "";
      if (hint.empty()) throw;
      throw with_hint(error, hint);
    }
  }

  DataFile& file_;
  std::string path_, labels_path_;
  std::optional<DataFile> labels_;
};

// Rows that become images are chosen after the conversion, since the statistics are those of all
// rows.
RowChoice choice_of(const LoadOptions& options) {
  if (options.image) return {};
  return options.part == DataPart::train ? options.train_rows : options.test_rows;
}

// Whether the file can be Criteo's text. The first bytes of a compressed file do not tell.
bool may_be_clicks(const DataFile& file, const LoadOptions& options) {
  if (options.format != DataFormat::detect) return options.format == DataFormat::criteo;
  std::string head(std::min<std::uint64_t>(file.size(), kHeadBytes), ' ');
  file.read(0, head);
  return detect_compression(head) != Compression::none || is_criteo_text(head);
}

ParsedData load_text(DataFile& file, const std::string& path, const LoadOptions& options) {
  std::string directory;
  if (options.cache == CacheMode::use) {
    directory =
        options.cache_directory.empty() ? default_cache_directory() : options.cache_directory;
  }
  SourceFiles source(file, path);
  if (directory.empty()) {
    ParsedData parsed = source.parse(options);
    parsed.data.content_hash = source.hash();
    return parsed;
  }
  // Another process may have cached it already, unless it can never fit.
  require_memory(static_cast<double>(file.size()), path, "the text", MemoryLimit::total);
  CacheEntry cache(directory, source.hash(), file.size(), options, may_be_clicks(file, options));
  std::optional<CacheEntry::Lock> building;
  for (const bool alone : {false, true}) {
    if (alone) building.emplace(cache);
    if (std::optional<ParsedData> cached = cache.read(choice_of(options))) {
      cached->report.from_cache = true;
      return std::move(*cached);
    }
  }
  ParsedData parsed = source.parse(options);
  parsed.data.content_hash = cache.source_hash();
  // A test file alone may have no label or no feature at all. Such data are not worth caching.
  const bool features = parsed.data.feature_count > 0 || parsed.data.fields.count() > 0 ||
                        parsed.data.images.size() > 0 || parsed.data.has_lengths();
  if (features && parsed.data.label_count > 0) cache.write(parsed);
  parsed.report.cache_note = cache.note();
  return parsed;
}

ParsedData load_file(const std::string& path, const LoadOptions& options) {
  const RowChoice choice = choice_of(options);
  DataFile file(path);
  ParsedData parsed;
  if (is_binary_dataset(file)) {
    try {
      parsed =
          (choice.rows ? decode_binary_rows(file, path, choice) : decode_binary(file, path)).parsed;
    } catch (const Error& error) {
      throw with_hint(error, error.hint().empty() ? "convert the source file again" : error.hint());
    }
    parsed.report.format = DataFormat::hsgd;
  } else {
    parsed = load_text(file, path, options);
  }
  parsed.report.file_bytes = file.size();
  return parsed;
}

void make_images(ParsedData& parsed, const LoadOptions& options, const std::string& path) {
  LoadReport& report = parsed.report;
  const float own = full_scale_of(parsed.data);
  report.full_scale = options.full_scale.value_or(own);
  if (own < report.full_scale) {
    report.warnings.push_back(fmt::format(
        "{}: no pixel is above 1, but those of the training data are bytes: so are these", path));
  }
  scatter_to_images(parsed.data, *options.image, report.full_scale, path);
}

}  // namespace

LoadedData load_dataset(const std::string& path, const LoadOptions& options) {
  const auto start = HostClock::now();
  ParsedData parsed;
  if (is_generator_spec(path)) {
    parsed = load_generated(path, options);
  } else if (is_manifest(path)) {
    const Manifest manifest = read_manifest(path);
    LoadOptions as_stated = options;
    if (options.format == DataFormat::detect) as_stated.format = manifest.format;
    parsed = load_file(fetched_file(manifest, options.part), as_stated);
    parsed.data.name = manifest.name;
  } else {
    parsed = load_file(path, options);
    parsed.data.name = file_name(path);
  }
  parsed.report.path = path;
  if (options.image) make_images(parsed, options, path);
  if (options.images_of) match_images(parsed.data, *options.images_of, path);
  const RowChoice& choice =
      options.part == DataPart::train ? options.train_rows : options.test_rows;
  if (choice.rows && !parsed.data.whole) {
    const std::vector<Index> rows = choice.rows(outline_of(parsed.data, choice.needs_labels));
    parsed.data = *shard_of(parsed.data, rows);
  }
  fit_to_training(parsed.data, parsed.report, options);
  parsed.report.seconds = seconds_since(start);
  return {std::make_shared<const Dataset>(std::move(parsed.data)), std::move(parsed.report)};
}

LoadOptions options_for_test(const LoadOptions& options, const LoadedData& train) {
  LoadOptions result = options;
  result.part = DataPart::test;
  result.base_is_stated = options.index_base != IndexBase::detect;
  if (!result.base_is_stated) result.index_base = train.report.index_base;
  if (options.image) result.full_scale = train.report.full_scale;
  result.trained_features = train.data->feature_count;
  result.trained_labels = train.data->label_count;
  result.task = train.data->task;
  result.label_names = train.report.label_names;
  if (train.data->fields.count() > 0) result.vocabulary_of = train.data;
  if (train.data->images.size() > 0) result.images_of = train.data;
  return result;
}

LoadedPair load_pair(const std::string& train_path, const std::string& test_path,
                     const LoadOptions& options) {
  LoadedPair pair;
  pair.train = load_dataset(train_path, options);
  pair.test = load_dataset(test_path, options_for_test(options, pair.train));
  const Dataset& test = *pair.test.data;
  if (test.images.size() > 0 && pair.train.data->images.size() == 0) {
    throw data_error("{}: found images, expected none as in the training data", test_path);
  }
  if (test.sequences.numbers != pair.train.data->sequences.numbers) {
    throw data_error("{}: found frames of {} elements, expected {} as in the training data",
                     test_path, test.sequences.numbers, pair.train.data->sequences.numbers);
  }
  return pair;
}

std::string default_cache_directory() {
  return user_folder("HETSGD_CACHE_DIR", "XDG_CACHE_HOME", ".cache");
}

std::string_view to_string(DataFormat format) {
  static constexpr std::array<std::string_view, 10> kNames = {
      "detect", "xc",  "libsvm",  "hsgd",     "generated",
      "criteo", "idx", "cifar10", "cifar100", "text"};
  return kNames[static_cast<std::size_t>(format)];
}

std::string_view to_string(IndexBase base) {
  static constexpr std::array<std::string_view, 3> kNames = {"detect", "0", "1"};
  return kNames[static_cast<std::size_t>(base)];
}

std::string_view to_string(Task task) {
  static constexpr std::array<std::string_view, 4> kNames = {"multilabel", "multiclass", "binary",
                                                             "tokens"};
  return kNames[static_cast<std::size_t>(task)];
}

std::vector<std::string> files_of_dataset(const std::string& path) {
  if (is_generator_spec(path)) return {};
  std::vector<std::string> files = {path};
  if (is_manifest(path)) {
    const Manifest manifest = read_manifest(path);
    files.push_back(fetched_path(manifest, DataPart::train));
    if (manifest.test) files.push_back(fetched_path(manifest, DataPart::test));
  }
  for (std::size_t i = 0, named = files.size(); i < named; ++i) {
    if (const auto labels = label_file_of(files[i])) files.push_back(*labels);
  }
  return files;
}

}  // namespace hetsgd
