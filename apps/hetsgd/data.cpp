// hetsgd data info|convert|generate|fetch|verify.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "data/fetch.hpp"
#include "data/generate.hpp"
#include "data/generate_ctr.hpp"
#include "data/images.hpp"
#include "data/load.hpp"
#include "data/source.hpp"
#include "data/summary.hpp"
#include "data/write.hpp"
#include "data_summary.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

namespace {

using nlohmann::json;

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
