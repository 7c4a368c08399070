// hetsgd data info|convert|generate|fetch|verify.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "command.hpp"
#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/options.hpp"
#include "core/text.hpp"
#include "data/fetch.hpp"
#include "data/generate.hpp"
#include "data/generate_ctr.hpp"
#include "data/generate_language.hpp"
#include "data/images.hpp"
#include "data/load.hpp"
#include "data/source.hpp"
#include "data/summary.hpp"
#include "data/write.hpp"
#include "printer.hpp"
#include "training/train_options.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

// Limits that no model can beat on synthetic data of a known law.
struct KnownLimits {
  std::optional<ClickCeilings> clicks;
  std::optional<LanguageBounds> language;
};

json counts_json(const RowCounts& c) {
  return {{"total", c.total}, {"mean", c.mean}, {"min", c.min}, {"max", c.max}};
}
std::string counts_text(const RowCounts& c) {
  return fmt::format("{} in all; {:.4g} per row ({} to {})", c.total, c.mean, c.min, c.max);
}

std::string share_text(double share) { return fmt::format("{:.2f} %", 100 * share); }

std::vector<Row> field_rows(const DatasetSummary& s) {
  std::vector<Row> rows;
  for (const FieldSummary& field : s.fields) {
    const bool known = field.distinct > 0;
    rows.emplace_back()
        .show("field", fmt::format("C{}", rows.size()))
        .both("categories", "categories", field.categories)
        .both("of them seen", "categories_seen", field.seen)
        .show("distinct values", known ? fmt::format("{}", field.distinct) : "")
        .keep("distinct_values", known ? json(field.distinct) : json())
        .show("missing", share_text(field.missing))
        .keep("missing_share", field.missing)
        .show("rare", share_text(field.rare))
        .keep("rare_share", field.rare);
  }
  return rows;
}

void add_fields(const DatasetSummary& s, Row& facts) {
  std::uint64_t categories = 0, distinct = 0;
  for (const FieldSummary& field : s.fields) {
    categories += field.categories;
    distinct += field.distinct;
  }
  facts.both("dense columns", "dense_columns", s.dense_columns)
      .show("fields", fmt::format("{}, {} categories; {} distinct values in the training part",
                                  s.fields.size(), categories,
                                  distinct > 0 ? fmt::format("{}", distinct) : "unknown"))
      .keep("fields", s.fields.size())
      .keep("categories", categories)
      .keep("per_field", json_of(field_rows(s)));
}

void add_images(const DatasetSummary& s, Row& facts) {
  facts
      .show("images", fmt::format("{}x{}x{} bytes: channels, height, width", s.images.channels,
                                  s.images.height, s.images.width))
      .show("channels",
            fmt::format("means {:.2f}, deviations {:.2f}", fmt::join(s.channel_means, " "),
                        fmt::join(s.channel_deviations, " ")))
      .keep("images", {{"channels", s.images.channels},
                       {"height", s.images.height},
                       {"width", s.images.width},
                       {"channel_means", s.channel_means},
                       {"channel_deviations", s.channel_deviations}});
}

void add_frames(const DatasetSummary& s, Row& facts) {
  facts.show("numbers of a frame", fmt::format("{}", s.frame_numbers))
      .show("frames", counts_text(s.frames))
      .keep("sequences",
            {{"numbers_per_frame", s.frame_numbers}, {"frames_per_row", counts_json(s.frames)}});
}

void add_tokens(const DatasetSummary& s, const TextCounts& counts, Row& facts) {
  facts.show("tokens", fmt::format("{} of {} kinds", s.tokens, s.token_kinds))
      .show("targets", counts_text(s.token_targets))
      .keep("tokens", {{"kinds", s.token_kinds},
                       {"text", s.tokens},
                       {"targets_per_row", counts_json(s.token_targets)},
                       {"bytes_of_targets", s.token_bytes},
                       {"empty_lines", counts.empty_lines},
                       {"split_lines", counts.split_lines},
                       {"unknown_words", counts.unknown},
                       {"dropped_returns", counts.returns}});
  for (const std::string& remark : remarks_on(counts)) facts.show("reading", remark);
}

// Losses in nats per target.
void add_bounds(const LanguageBounds& bounds, std::uint64_t kinds, Row& facts) {
  const double uniform = std::log(static_cast<double>(kinds));
  facts.show("best loss", fmt::format("{:.4f} nats per target on the test part", bounds.truth))
      .show("loss without context",
            fmt::format("{:.4f}; {:.4f} if all tokens are taken as equally likely",
                        bounds.context[0], uniform))
      .show("with 1 and 2 tokens of context",
            fmt::format("at least {:.4f} and {:.4f}", bounds.context[1], bounds.context[2]))
      .keep("bounds", {{"truth", bounds.truth},
                       {"uniform", uniform},
                       {"context_0", bounds.context[0]},
                       {"context_1", bounds.context[1]},
                       {"context_2", bounds.context[2]}});
}

void add_ceilings(const ClickCeilings& ceilings, Row& facts) {
  const auto add = [&](const char* heading, const char* key, const Ceiling& c) {
    facts
        .show(heading,
              fmt::format("AUC {:.4f}, log loss {:.4f} on the test part", c.auc, c.logloss))
        .keep(key, {{"auc", c.auc}, {"log_loss", c.logloss}});
  };
  add("ceiling", "ceiling", ceilings.all);
  add("ceiling without pairs", "ceiling_without_pairs", ceilings.linear);
  if (ceilings.vocabulary) {
    add("ceiling of the vocabulary", "ceiling_of_vocabulary", *ceilings.vocabulary);
  }
}

// The facts of a data set. The table leaves out facts that do not apply to its kind (fields,
// images, sequences, tokens); the JSON has all.
Row facts_of(const DatasetSummary& s, const LoadReport& report) {
  const bool labels = s.token_kinds == 0;
  const bool sparse = labels && s.fields.empty() && s.images.size() == 0 && s.frame_numbers == 0;
  const std::string hash = fmt::format("xxh3:{:016x}", s.content_hash);
  Row facts;
  const auto show_if = [&](bool applies, const char* heading, std::string text) {
    if (applies) facts.show(heading, std::move(text));
  };
  facts.keep("name", s.name)
      .both("path", "path", s.path)
      .show("format",
            fmt::format("{}, index base {}", to_string(s.format), to_string(s.index_base)))
      .keep("format", to_string(s.format))
      .keep("index_base", to_string(s.index_base))
      .both("task", "task", to_string(s.task))
      .both("rows", "rows", s.rows);
  if (!s.fields.empty()) add_fields(s, facts);
  if (s.images.size() > 0) add_images(s, facts);
  if (s.frame_numbers > 0) add_frames(s, facts);
  if (s.token_kinds > 0) add_tokens(s, report.text, facts);
  show_if(sparse, "features", fmt::format("{} ({} occur)", s.feature_count, s.features_seen));
  show_if(labels, "labels", fmt::format("{} ({} occur)", s.label_count, s.labels_seen));
  facts.keep("features", s.feature_count)
      .keep("features_seen", s.features_seen)
      .keep("labels", s.label_count)
      .keep("labels_seen", s.labels_seen);
  show_if(sparse, "nonzeros", counts_text(s.features));
  show_if(labels, "true labels", counts_text(s.labels));
  facts.keep("features_per_row", counts_json(s.features))
      .keep("labels_per_row", counts_json(s.labels));
  show_if(sparse, "density", fmt::format("{:.3g}", s.density));
  show_if(sparse, "values", fmt::format("{:.6g} to {:.6g}", s.value_min, s.value_max));
  facts.keep("density", s.density)
      .keep("value_min", s.value_min)
      .keep("value_max", s.value_max)
      .keep("rows_without_labels", s.rows_without_labels);
  show_if(labels, "rows without labels", fmt::format("{}", s.rows_without_labels));
  show_if(sparse, "rows without features", fmt::format("{}", s.rows_without_features));
  return facts.keep("rows_without_features", s.rows_without_features)
      .keep("label_names", s.label_names)
      .both("content hash", "content_hash", hash)
      .show("size",
            fmt::format("{} on disk, {} in memory", format_bytes(static_cast<double>(s.file_bytes)),
                        format_bytes(static_cast<double>(s.memory_bytes))))
      .keep("file_bytes", s.file_bytes)
      .keep("memory_bytes", s.memory_bytes)
      .show("loaded", fmt::format("in {}{}", format_seconds(Seconds(report.seconds)),
                                  report.from_cache ? " from the cache" : ""));
}

void print_summary(const DatasetSummary& s, const LoadReport& report, const KnownLimits& limits,
                   const Printer& printer) {
  Row facts = facts_of(s, report);
  if (limits.clicks) add_ceilings(*limits.clicks, facts);
  if (limits.language) add_bounds(*limits.language, s.token_kinds, facts);
  if (printer.json()) return printer.print(facts.kept());
  std::string text = property_table(facts).format(OutputFormat::text);
  if (!s.fields.empty()) text += "\n" + table_of(field_rows(s)).format(OutputFormat::text);
  printer.print(text);
}

// A command that reads data files.
class ReadingCommand : public Command {
 protected:
  void declare_reading(OptionSet& set) {
    set.group("Reading");
    declare_file_format(set, options_.format, options_.index_base);
    declare_text(set, options_.text);
    declare_vocabulary(set, options_.vocabulary);
    set.add("image", image_,
            "Treat each sparse row as an image of this shape (channels x height x width, for "
            "example 1x28x28).");
    set.add_choice("part", options_.part, {{"train", DataPart::train}, {"test", DataPart::test}},
                   "Part of synthetic data (generate:...) that is read.");
    set.add_choice(
        "cache", options_.cache, {{"use", CacheMode::use}, {"off", CacheMode::off}},
        "Whether parsed files are read from a binary cache and kept there. Its directory "
        "is $HETSGD_CACHE_DIR, $XDG_CACHE_HOME/hetsgd or ~/.cache/hetsgd.");
    set.add("threads", options_.threads, "Number of parsing threads. auto: all cores.")
        .range(1, kMostHostThreads)
        .or_zero();
  }
  LoadOptions reading() const {
    LoadOptions options = options_;
    if (!image_.empty()) options.image = parse_image_shape("--image", image_);
    return options;
  }

 private:
  LoadOptions options_;
  std::string image_;
};

class DataInfo final : public ReadingCommand {
 public:
  CommandInfo info() const override {
    return {.name = "data info",
            .summary = "describe a data file: rows, features, labels",
            .examples = {"hetsgd data info train.txt", "hetsgd data info --json train.svm.gz",
                         "hetsgd data info 'generate:amazon670k?scale=0.01'",
                         "hetsgd data info --min-frequency 1 'generate:criteo?scale=0.01'",
                         "hetsgd data info 'generate:language?vocabulary=32&copy=0.8'",
                         "hetsgd data info --format text --tokens words book.txt",
                         "hetsgd data info train-images-idx3-ubyte.gz"},
            .operands = "FILE"};
  }
  void declare(OptionSet& set) override {
    printer_.declare_json(set);
    declare_reading(set);
  }
  int run(OptionSet&, const std::vector<std::string>& operands) override {
    const LoadedData loaded = load_dataset(operands[0], reading());
    if (!loaded.report.cache_note.empty()) warn("{}", loaded.report.cache_note);
    const DatasetSummary summary = summarise(*loaded.data, loaded.report);
    const std::optional<int> threads = reading().threads;
    KnownLimits limits;
    if (is_click_spec(operands[0])) {
      limits.clicks = ClickGenerator(parse_click_spec(operands[0]), threads)
                          .ceilings(loaded.data->fields, threads);
    } else if (is_language_spec(operands[0])) {
      limits.language = language_bounds(parse_language_spec(operands[0]), threads);
    }
    print_summary(summary, loaded.report, limits, printer_);
    return 0;
  }

 private:
  Printer printer_;
};

class DataVerify final : public ReadingCommand {
 public:
  CommandInfo info() const override {
    return {
        .name = "data verify",
        .summary = "read a data file completely and check that it is consistent",
        .examples = {"hetsgd data verify train.txt", "hetsgd data verify --cache off train.hsgd"},
        .operands = "FILE..."};
  }
  void declare(OptionSet& set) override { declare_reading(set); }
  int run(OptionSet&, const std::vector<std::string>& operands) override {
    std::size_t findings = 0;
    for (const std::string& path : operands) {
      const LoadedData loaded = load_dataset(path, reading());
      const std::vector<std::string> broken = verify(*loaded.data);
      for (const std::string& text : broken) say("{}: {}\n", path, text);
      if (broken.empty()) say("{}: {} rows, no fault found\n", path, loaded.data->rows());
      findings += broken.size();
    }
    if (findings > 0) throw data_error("data verify: found {} faults, expected none", findings);
    return 0;
  }
};

enum class FileFormat { xc, libsvm, hsgd };

class DataConvert final : public ReadingCommand {
 public:
  CommandInfo info() const override {
    return {.name = "data convert",
            .summary = "write a data file in another format",
            .examples = {"hetsgd data convert train.txt.bz2 train.hsgd",
                         "hetsgd data convert --to libsvm train.txt train.svm",
                         "hetsgd data convert --format text --tokens words book.txt book.hsgd"},
            .operands = "FROM TO"};
  }
  void declare(OptionSet& set) override {
    set.add_choice(
        "to", to_,
        {{"hsgd", FileFormat::hsgd}, {"xc", FileFormat::xc}, {"libsvm", FileFormat::libsvm}},
        "Format to write. hsgd is binary and loads without parsing.");
    set.add_choice("to_index_base", to_base_, {{"0", IndexBase::zero}, {"1", IndexBase::one}},
                   "Smallest feature index to write. It has an effect with --to libsvm.");
    set.add(
           "vocabulary", vocabulary_,
           "Training data whose vocabulary, index base, columns and scale of pixels are taken over "
           "if FROM is a test file.")
        .reads_file(files_of_dataset);
    set.add("overwrite", overwrite_, "Replace an existing file.");
    declare_reading(set);
  }
  void add_operands(const std::vector<std::string>& operands, FileRegistry& files) const override {
    for (const std::string& file : files_of_dataset(operands[0])) files.add_input("FROM", file);
    files.add_output("TO", operands[1], "the data");
  }
  int run(OptionSet&, const std::vector<std::string>& operands) override {
    const LoadOptions options = reading();
    const LoadedData loaded =
        vocabulary_.empty()
            ? load_dataset(operands[0], options)
            : load_dataset(operands[0],
                           options_for_test(options, load_dataset(vocabulary_, options)));
    for (const std::string& text : loaded.report.warnings) warn("{}", text);
    if (options.image && vocabulary_.empty() && loaded.report.full_scale == 1) {
      log_info("{}: no pixel is above 1, so they are shares; --vocabulary takes over another scale",
               operands[0]);
    }
    switch (to_) {
      case FileFormat::xc:
        write_xc(operands[1], *loaded.data);
        break;
      case FileFormat::libsvm:
        write_libsvm(operands[1], *loaded.data, loaded.report, to_base_);
        break;
      case FileFormat::hsgd:
        save_dataset(operands[1], *loaded.data, loaded.report);
        break;
    }
    log_info("{}: {} rows written", operands[1], loaded.data->rows());
    return 0;
  }

 private:
  FileFormat to_ = FileFormat::hsgd;
  IndexBase to_base_ = IndexBase::one;
  std::string vocabulary_;
  bool overwrite_ = false;
};

class DataGenerate final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "data generate",
            .summary =
                "write synthetic data that a model can learn: sparse multi-label data as XC "
                "text, click data as Criteo text",
            .examples = {"hetsgd data generate tiny tiny",
                         "hetsgd data generate amazon670k --scale 0.1 --seed 2 amazon-small",
                         "hetsgd data generate criteo --scale 0.001 clicks"},
            .operands = fmt::format("{} PREFIX", fmt::join(preset_names(), "|"))};
  }
  void declare(OptionSet& set) override {
    set.add("scale", scale_,
            "Factor on the numbers of rows, features and labels. For click data it multiplies only "
            "the rows.")
        .above(0);
    set.add_choice(
        "format", format_,
        {{"auto", DataFormat::detect}, {"xc", DataFormat::xc}, {"criteo", DataFormat::criteo}},
        "Text format to write. auto: criteo for click data, xc for all others.");
    set.add("seed", seed_, "Seed of all random numbers.");
    set.add("threads", threads_, "Number of generating threads. auto: all cores.")
        .range(1, kMostHostThreads)
        .or_zero();
    set.add("overwrite", overwrite_, "Replace existing files.");
  }
  void add_operands(const std::vector<std::string>& operands, FileRegistry& files) const override {
    for (const char* ending : {kTrain, kTest}) {
      files.add_output("PREFIX", operands[1] + ending, "the data");
    }
  }
  int run(OptionSet&, const std::vector<std::string>& operands) override {
    const std::vector<std::string> clicks = click_preset_names();
    const bool is_click = std::ranges::find(clicks, operands[0]) != clicks.end();
    const DataFormat format = is_click ? DataFormat::criteo : DataFormat::xc;
    if (format_ != DataFormat::detect && format_ != format) {
      refuse("--format", to_string(format_),
             fmt::format("{} for {}", to_string(format), operands[0]));
    }
    if (is_click) {
      write_clicks(operands);
    } else {
      write_sparse(operands);
    }
    return 0;
  }

 private:
  static std::vector<std::string> preset_names() {
    std::vector<std::string> names = generator_preset_names();
    for (const std::string& name : click_preset_names()) names.push_back(name);
    return names;
  }
  void write_clicks(const std::vector<std::string>& operands) const {
    const ClickGenerator generator(
        parse_click_spec(fmt::format("generate:{}?scale={}&seed={}", operands[0], scale_, seed_)),
        threads_);
    const std::string train = operands[1] + kTrain, test = operands[1] + kTest;
    write_criteo(train, generator, DataPart::train, threads_);
    write_criteo(test, generator, DataPart::test, threads_);
    log_info("{}: {} rows; {}: {} rows", train, generator.options().rows_train, test,
             generator.options().rows_test);
  }
  void write_sparse(const std::vector<std::string>& operands) const {
    GeneratorOptions options = generator_preset(operands[0], scale_);
    options.seed = seed_;
    const std::string train = operands[1] + kTrain, test = operands[1] + kTest;
    const DatasetPair pair = generate(options, threads_);
    write_xc(train, *pair.train);
    write_xc(test, *pair.test);
    log_info("{}: {} rows; {}: {} rows; {} features, {} labels", train, pair.train->rows(), test,
             pair.test->rows(), pair.train->feature_count, pair.train->label_count);
  }

  static constexpr const char *kTrain = "_train.txt", *kTest = "_test.txt";
  double scale_ = 1;
  DataFormat format_ = DataFormat::detect;
  std::uint64_t seed_ = 1;
  std::optional<int> threads_;
  bool overwrite_ = false;
};

class DataFetch final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "data fetch",
        .summary = "download a data set and check it; --train NAME then reads it",
        .examples = {"hetsgd data fetch a9a", "hetsgd data fetch amazon-670k --from ~/Downloads",
                     "HETSGD_DATASETS_DIR=/data hetsgd data fetch my-data.json"},
        .operands = fmt::format("{}|MANIFEST.json", fmt::join(manifest_names(), "|"))};
  }
  void declare(OptionSet& set) override {
    set.add("from", options_.from,
            "File, or folder with the files, to take instead of downloading. Repeat the option for "
            "several.");
    set.add("overwrite", options_.overwrite, "Fetch files again that are already here.");
    set.add("threads", options_.threads, "Number of reading threads. auto: all cores.")
        .range(1, kMostHostThreads);
  }
  int run(OptionSet&, const std::vector<std::string>& operands) override {
    const Manifest manifest = read_manifest(operands[0]);
    if (std::filesystem::is_regular_file(operands[0])) options_.manifest = operands[0];
    for (const FetchedFile& file : fetch(manifest, options_)) {
      log_info("{}: {}, SHA-256 {}, from {}", file.path,
               format_bytes(static_cast<double>(file.bytes)), file.sha256, file.source);
    }
    return 0;
  }

 private:
  FetchOptions options_;
};

}  // namespace

const bool data_info_registered = register_command<DataInfo>(CommandGroup::data, 1);
const bool data_convert_registered = register_command<DataConvert>(CommandGroup::data, 2);
const bool data_generate_registered = register_command<DataGenerate>(CommandGroup::data, 3);
const bool data_fetch_registered = register_command<DataFetch>(CommandGroup::data, 4);
const bool data_verify_registered = register_command<DataVerify>(CommandGroup::data, 5);

}  // namespace hetsgd
