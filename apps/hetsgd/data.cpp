// hetsgd data info|convert|generate|verify.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "data/generate.hpp"
#include "data/load.hpp"
#include "data/summary.hpp"
#include "data/write.hpp"
#include "result/result.hpp"
#include "result/table.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

// How to read, for all four.
void declare_reading(OptionSet& set, LoadOptions& options) {
  set.group("Reading");
  set.add_choice(
      "format", options.format,
      {{"detect", DataFormat::detect}, {"xc", DataFormat::xc}, {"libsvm", DataFormat::libsvm}},
      "text format of the file");
  set.add_choice("index_base", options.index_base,
                 {{"detect", IndexBase::detect}, {"0", IndexBase::zero}, {"1", IndexBase::one}},
                 "smallest feature index of libSVM text");
  set.add_choice("part", options.part, {{"train", DataPart::train}, {"test", DataPart::test}},
                 "which part of generate:...");
  set.add_choice("cache", options.cache, {{"use", CacheMode::use}, {"off", CacheMode::off}},
                 "the binary cache of parsed files");
  set.add("cache_directory", options.cache_directory,
          "where; empty: $XDG_CACHE_HOME/hetsgd or ~/.cache/hetsgd");
  set.add("threads", options.threads, "parsing threads; auto: all cores")
      .range(1, kMostHostThreads)
      .or_zero();
}

json summary_json(const DatasetSummary& s) {
  const auto counts = [](const RowCounts& c) {
    return json{{"total", c.total}, {"mean", c.mean}, {"min", c.min}, {"max", c.max}};
  };
  return {{"name", s.name},
          {"path", s.path},
          {"format", to_string(s.format)},
          {"index_base", to_string(s.index_base)},
          {"task", to_string(s.task)},
          {"content_hash", fmt::format("xxh3:{:016x}", s.content_hash)},
          {"file_bytes", s.file_bytes},
          {"memory_bytes", s.memory_bytes},
          {"rows", s.rows},
          {"features", s.feature_count},
          {"labels", s.label_count},
          {"features_per_row", counts(s.features)},
          {"labels_per_row", counts(s.labels)},
          {"density", s.density},
          {"value_min", s.value_min},
          {"value_max", s.value_max},
          {"features_seen", s.features_seen},
          {"labels_seen", s.labels_seen},
          {"rows_without_labels", s.rows_without_labels},
          {"rows_without_features", s.rows_without_features},
          {"label_names", s.label_names}};
}

std::string summary_text(const DatasetSummary& s, const LoadReport& report) {
  Table table({"property", "value"});
  const auto count = [](std::uint64_t n) { return fmt::format("{}", n); };
  const auto row_counts = [](const RowCounts& c) {
    return fmt::format("{} in all; {:.4g} per row ({} to {})", c.total, c.mean, c.min, c.max);
  };
  table.add({"path", s.path});
  table.add(
      {"format", fmt::format("{}, index base {}", to_string(s.format), to_string(s.index_base))});
  table.add({"task", std::string(to_string(s.task))});
  table.add({"rows", count(s.rows)});
  table.add({"features", fmt::format("{} ({} occur)", s.feature_count, s.features_seen)});
  table.add({"labels", fmt::format("{} ({} occur)", s.label_count, s.labels_seen)});
  table.add({"nonzeros", row_counts(s.features)});
  table.add({"true labels", row_counts(s.labels)});
  table.add({"density", fmt::format("{:.3g}", s.density)});
  table.add({"values", fmt::format("{:.6g} to {:.6g}", s.value_min, s.value_max)});
  table.add({"rows without labels", count(s.rows_without_labels)});
  table.add({"rows without features", count(s.rows_without_features)});
  table.add({"content hash", fmt::format("xxh3:{:016x}", s.content_hash)});
  table.add({"size", fmt::format("{} on disk, {} in memory",
                                 format_bytes(static_cast<double>(s.file_bytes)),
                                 format_bytes(static_cast<double>(s.memory_bytes)))});
  table.add({"loaded", fmt::format("in {}{}", format_seconds(Seconds(report.seconds)),
                                   report.from_cache ? " from the cache" : "")});
  return table.format(TableFormat::text);
}

class DataInfo final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "data info",
            .summary = "what a data file holds",
            .examples = {"hetsgd data info train.txt", "hetsgd data info --json train.svm.gz",
                         "hetsgd data info 'generate:amazon670k?scale=0.01'"},
            .operands = "FILE",
            .minimum_operands = 1,
            .maximum_operands = 1};
  }
  void declare(OptionSet& set) override {
    set.add("json", json_, "print JSON");
    declare_reading(set, options_);
  }
  int run(OptionSet&, const std::vector<std::string>& operands) override {
    const LoadedData loaded = load_dataset(operands[0], options_);
    if (!loaded.report.cache_note.empty()) warn("{}", loaded.report.cache_note);
    const DatasetSummary summary = summarise(*loaded.data, loaded.report);
    if (json_) {
      json document = summary_json(summary);
      escape_bytes(document);
      fmt::print("{}\n", document.dump(2));
    } else {
      print_text(summary_text(summary, loaded.report));
    }
    return 0;
  }

 private:
  bool json_ = false;
  LoadOptions options_;
};

class DataVerify final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "data verify",
        .summary = "read a data file completely and check what it promises",
        .examples = {"hetsgd data verify train.txt", "hetsgd data verify --cache off train.hsgd"},
        .operands = "FILE...",
        .minimum_operands = 1,
        .maximum_operands = 100000};
  }
  void declare(OptionSet& set) override { declare_reading(set, options_); }
  int run(OptionSet&, const std::vector<std::string>& operands) override {
    std::size_t findings = 0;
    for (const std::string& path : operands) {
      const LoadedData loaded = load_dataset(path, options_);
      const std::vector<std::string> broken = verify(*loaded.data);
      for (const std::string& text : broken) say("{}: {}\n", path, text);
      if (broken.empty()) say("{}: {} rows, all right\n", path, loaded.data->rows());
      findings += broken.size();
    }
    if (findings > 0) throw data_error("found {} broken promises", findings);
    return 0;
  }

 private:
  LoadOptions options_;
};

enum class Target { xc, libsvm, hsgd };

class DataConvert final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "data convert",
            .summary = "write a data file in another format",
            .examples = {"hetsgd data convert train.txt.bz2 train.hsgd",
                         "hetsgd data convert --to libsvm train.txt train.svm"},
            .operands = "FROM TO",
            .minimum_operands = 2,
            .maximum_operands = 2};
  }
  void declare(OptionSet& set) override {
    set.add_choice("to", to_,
                   {{"hsgd", Target::hsgd}, {"xc", Target::xc}, {"libsvm", Target::libsvm}},
                   "format to write; hsgd is binary and loads without parsing");
    set.add_choice("to_index_base", to_base_, {{"0", IndexBase::zero}, {"1", IndexBase::one}},
                   "smallest feature index of the libSVM text to write");
    set.add("overwrite", overwrite_, "replace an existing file");
    declare_reading(set, options_);
  }
  void add_operands(const std::vector<std::string>& operands, FileRegistry& files) const override {
    files.add_input("FROM", operands[0]);
    files.add_output("TO", operands[1], "the data");
  }
  int run(OptionSet&, const std::vector<std::string>& operands) override {
    const LoadedData loaded = load_dataset(operands[0], options_);
    switch (to_) {
      case Target::xc:
        write_xc(operands[1], *loaded.data);
        break;
      case Target::libsvm:
        write_libsvm(operands[1], *loaded.data, loaded.report, to_base_);
        break;
      case Target::hsgd:
        save_dataset(operands[1], *loaded.data, loaded.report);
        break;
    }
    log_info("{}: {} rows written", operands[1], loaded.data->rows());
    return 0;
  }

 private:
  Target to_ = Target::hsgd;
  IndexBase to_base_ = IndexBase::one;
  bool overwrite_ = false;
  LoadOptions options_;
};

class DataGenerate final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "data generate",
            .summary = "write made-up sparse multi-label data that a model can learn",
            .examples = {"hetsgd data generate tiny tiny",
                         "hetsgd data generate amazon670k --scale 0.1 --seed 2 amazon-small"},
            .operands = fmt::format("{} PREFIX", fmt::join(generator_preset_names(), "|")),
            .minimum_operands = 2,
            .maximum_operands = 2};
  }
  void declare(OptionSet& set) override {
    set.add("scale", scale_, "multiplies rows, features and labels").above(0);
    set.add("seed", seed_, "seed of everything random");
    set.add("threads", threads_, "auto: all cores").range(1, kMostHostThreads).or_zero();
    set.add("overwrite", overwrite_, "replace existing files");
  }
  void add_operands(const std::vector<std::string>& operands, FileRegistry& files) const override {
    for (const char* ending : {kTrain, kTest}) {
      files.add_output("PREFIX", operands[1] + ending, "the data");
    }
  }
  int run(OptionSet&, const std::vector<std::string>& operands) override {
    GeneratorOptions options = generator_preset(operands[0], scale_);
    options.seed = seed_;
    const std::string train = operands[1] + kTrain, test = operands[1] + kTest;
    const DatasetPair pair = generate(options, threads_);
    write_xc(train, *pair.train);
    write_xc(test, *pair.test);
    log_info("{}: {} rows; {}: {} rows; {} features, {} labels", train, pair.train->rows(), test,
             pair.test->rows(), pair.train->feature_count, pair.train->label_count);
    return 0;
  }

 private:
  static constexpr const char *kTrain = "_train.txt", *kTest = "_test.txt";
  double scale_ = 1;
  std::uint64_t seed_ = 1;
  std::optional<int> threads_;
  bool overwrite_ = false;
};

}  // namespace

std::unique_ptr<Command> make_data_info() { return std::make_unique<DataInfo>(); }
std::unique_ptr<Command> make_data_verify() { return std::make_unique<DataVerify>(); }
std::unique_ptr<Command> make_data_convert() { return std::make_unique<DataConvert>(); }
std::unique_ptr<Command> make_data_generate() { return std::make_unique<DataGenerate>(); }

}  // namespace hetsgd
