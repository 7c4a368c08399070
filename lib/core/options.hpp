// Options, declared once: from one declaration come the command-line flag, --help, the environment
// variable, the config-file key, range checks, `hetsgd algorithms`, and the echo in the result's
// `config`.
//
//   struct AdaptiveOptions { double delta = 0.1; Bounds bounds = Bounds::skip; };
//   void declare(OptionSet& set) {
//     set.add("delta", delta, "Perturbation of the merge weights.").symbol("delta").range(0, 1);
//     set.add_choice("bounds", bounds, {{"skip", Bounds::skip}, {"clamp", Bounds::clamp}}, "...");
//   }
//
// A value that the program chooses unless it is given is an std::optional. It is spelled "auto" on
// the command line, in files and in the result.
//
// One name, three spellings: flag --batch-size, key batch_size, environment HETSGD_BATCH_SIZE.
// Precedence: flag > environment > configuration file > default; of several flags the last one
// counts, except for lists, which take them all. An OptionSet refers to the variables that it was
// given; these must outlive it. Defaults are the variables' values at the time of the declaration.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/units.hpp"

namespace hetsgd {

// --- limits ------------------------------------------------------------------------------------
// Bounds of counts that several options share. They exclude values that nobody means and runs that
// would not end.

// Upper bound of a count of steps, rounds or batches between two events. Its product with the
// samples of a batch still fits 64 bits.
inline constexpr double kLargestRound = 1e12;
// Upper bound of the samples of a batch. A step of a larger one takes minutes, and cannot be
// interrupted.
inline constexpr double kLargestBatch = 1 << 22;
// Upper bound of the threads of this process that a user asks for by number.
inline constexpr double kMostHostThreads = 4096;

// --- options -----------------------------------------------------------------------------------
// Where a value came from, weakest first.
enum class OptionSource { default_value, config_file, environment, flag };
std::string_view to_string(OptionSource source);

enum class OptionType {
  boolean,
  integer,
  number,
  count,
  duration,
  text,
  choice,
  number_list,
  text_list
};

// How a command uses the files that an option names (core/file_registry.hpp checks them).
enum class FileRole { none, read, written, appended };
struct OptionFiles {
  FileRole role = FileRole::none;
  std::string what = "";  // written: "the result", in messages
  // The files that one of the option's texts names; null: the text is the path.
  std::function<std::vector<std::string>(const std::string& text)> paths = nullptr;
  // written: how an existing file begins that may be replaced, so that no other kind ever is; "":
  // any file.
  std::string magic = "";
  bool to_streams = true;                 // written: also to pipes, devices and stdout
  std::string continued_by = "--resume";  // written: the option that goes on from such a file
};

// An option acts only if another one has one of these values (no values: if it was given). --help
// leaves out an option that cannot act, and says what it needs.
struct OptionNeed {
  std::string option;
  std::vector<std::string> values;
  std::string text() const;  // "--optimizer adam|lamb", "--charge"
};

// One declared option, with its value behind type-erased accessors.
struct Option {
  std::string name;    // snake_case
  std::string help;    // whole sentences or a noun phrase, clear without the option above
  std::string group;   // heading in --help
  std::string unit;    // "samples", "batches", "" ...
  std::string symbol;  // the paper's symbol, "" if none
  OptionType type = OptionType::text;
  std::vector<std::string> choices;
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool minimum_open = false;  // the minimum itself is excluded
  // The word for an empty std::optional ("auto"), or for an empty list. Empty if the option always
  // has a value. `absent_too` is a second such word, which results of earlier versions contain.
  std::string absent;
  std::string absent_too;
  std::string zero;      // a word for the value 0, where that switches something off; "": none
  std::string required;  // example value of a key that must be given (core/key_values.hpp)
  // Whether the option says what is run, not how it is carried out and reported. Only such options
  // stand in the result's config, and only they are taken from somebody else's result.
  bool in_config = true;
  // Whether the option concerns this call of the program alone (output, --overwrite, progress).
  // Runs of a sweep or a tuning share their options, but not these. Every option that writes a file
  // is one of them.
  bool of_call = false;
  OptionFiles files;
  std::string default_text;  // as --help shows it
  OptionSource source = OptionSource::default_value;
  // The source of the value: "--delta", "HETSGD_DELTA", "run.json: delta"; "" for a default.
  std::string place;
  std::vector<OptionNeed> needs;  // the option acts only if all of these hold
  bool is_first = false;          // one of the few options that --help shows a newcomer
  std::string excludes;           // the option that cannot be given beside this one; "": none

  // Access to the value, made by OptionSet::add. `parse` checks the range and throws usage errors
  // that open with the place. On an error the value stays as it was.
  std::function<void(const Option& self, const std::string& place,
                     const std::vector<std::string>& texts)>
      parse;
  std::function<nlohmann::json(const Option& self)> json_of;

  nlohmann::json to_json() const;

  std::string flag() const;         // "--batch-size"
  std::string environment() const;  // "HETSGD_BATCH_SIZE"
  std::string range_text() const;   // "[0, 1]", "(0, inf)", "skip|clamp", ""
  std::string type_text() const;    // the placeholder of --help: "NUMBER", "TIME", "a|b", ...
  bool is_list() const { return type == OptionType::number_list || type == OptionType::text_list; }
};

// Fluent refinement of the option just added.
class OptionRefiner {
 public:
  explicit OptionRefiner(Option& option) : option_(option) {}
  OptionRefiner& unit(std::string text) {
    option_.unit = std::move(text);
    return *this;
  }
  OptionRefiner& symbol(std::string text) {
    option_.symbol = std::move(text);
    return *this;
  }
  OptionRefiner& range(double minimum, double maximum) {
    option_.minimum = minimum;
    option_.maximum = maximum;
    return *this;
  }
  OptionRefiner& at_least(double minimum) {
    option_.minimum = minimum;
    return *this;
  }
  OptionRefiner& above(double minimum) {
    option_.minimum = minimum;
    option_.minimum_open = true;
    return *this;
  }
  // Sets the word for an empty std::optional, where "auto" would say the wrong thing, or for an
  // empty list.
  OptionRefiner& absent(std::string word) {
    option_.default_text = option_.default_text == option_.absent ? word : option_.default_text;
    option_.absent = std::move(word);
    return *this;
  }
  // Lets 0 stand for an empty std::optional, too.
  OptionRefiner& or_zero() {
    option_.absent_too = "0";
    return *this;
  }
  // Sets a word ("off", "never") that means 0. The result's config keeps the 0.
  OptionRefiner& zero_word(std::string word) {
    if (option_.default_text == "0" || option_.default_text == "0s") option_.default_text = word;
    option_.zero = std::move(word);
    return *this;
  }
  // Makes a key of KeyValues mandatory; messages show the example.
  OptionRefiner& required(std::string example) {
    option_.required = std::move(example);
    return *this;
  }
  // Marks an option that says how to report, not what to run. It is left out of the result's config
  // and of the configuration hash.
  OptionRefiner& not_in_config() {
    option_.in_config = false;
    return *this;
  }
  // Marks an option that concerns one call of the program alone. It is not in the config either.
  OptionRefiner& of_call() {
    option_.of_call = true;
    return not_in_config();
  }
  // Names the option that cannot be given beside this one. Both options must declare it.
  OptionRefiner& excludes(std::string name) {
    option_.excludes = std::move(name);
    return *this;
  }
  // The option acts only if the named one has one of these values (none: if it was given).
  OptionRefiner& needs(std::string option, std::vector<std::string> values = {}) {
    option_.needs.push_back({std::move(option), std::move(values)});
    return *this;
  }
  // --help shows this option before all others.
  OptionRefiner& first() {
    option_.is_first = true;
    return *this;
  }
  // Declares what a command does with the files that the texts name. An option that writes a file
  // is also of_call().
  using Paths = std::function<std::vector<std::string>(const std::string& text)>;
  OptionRefiner& reads_file(Paths paths = nullptr) {
    option_.files = {FileRole::read, "", std::move(paths)};
    return *this;
  }
  OptionRefiner& writes_file(std::string what, Paths paths = nullptr) {
    option_.files = {FileRole::written, std::move(what), std::move(paths)};
    return of_call();
  }
  OptionRefiner& appends_to_file(std::string what, Paths paths = nullptr) {
    option_.files = {FileRole::appended, std::move(what), std::move(paths)};
    return not_to_streams().of_call();
  }
  // Declares of an option that writes a file: neither a pipe nor a device will do.
  OptionRefiner& not_to_streams() {
    option_.files.to_streams = false;
    return *this;
  }
  // The same, and an existing file is replaced only if it begins with `magic` or is empty.
  OptionRefiner& replaces_only(std::string_view magic, std::string continued_by) {
    option_.files.magic = magic;
    option_.files.continued_by = std::move(continued_by);
    return not_to_streams();
  }

 private:
  Option& option_;
};

// The HETSGD_ variables of the environment that are no options: folders, the Python of the commands
// that judge results, and what these are told of the program.
std::span<const std::string> variables_of_no_option();

// The options of one command. The variables behind them must outlive it.
class OptionSet {
 public:
  // Options added from now on stand under this heading in --help.
  void group(std::string heading) { group(std::move(heading), {}); }
  // The same for options that all need `needs` in order to act.
  void group(std::string heading, std::vector<OptionNeed> needs) {
    group_ = std::move(heading);
    needs_of_group_ = std::move(needs);
  }

  // Adds an option for a variable of one of these types:
  //   bool, int, double, std::string
  //   std::uint64_t       also 10K, 1M; with unit "bytes" 64K, 64MiB (powers of two)
  //   std::uint32_t       if the range has a maximum that fits
  //   Seconds             50ms, 1.5h
  //   std::optional       of a number; the empty value is spelled "auto"
  //   std::vector         of double or std::uint64_t: "1,0.5"; of std::string: the flag is repeated
  //                       with one text each, and no comma splits
  template <class T>
  OptionRefiner add(const std::string& name, T& value, const std::string& help);

  template <class Enum>
  OptionRefiner add_choice(const std::string& name, Enum& value,
                           std::vector<std::pair<std::string, Enum>> choices,
                           const std::string& help) {
    std::vector<std::string> names;
    for (const auto& choice : choices) names.push_back(choice.first);
    return add_choice_raw(
        name, std::move(names), help,
        [&value, choices](std::size_t i) { value = choices[i].second; },
        [&value, choices] {
          for (std::size_t i = 0; i < choices.size(); ++i) {
            if (choices[i].second == value) return i;
          }
          return choices.size();
        });
  }

  const std::vector<Option>& options() const { return options_; }
  const Option* find(std::string_view name) const;  // by key; null: none
  // The need of the option that the present values do not meet; null if the option can act.
  const OptionNeed* missing_need(const Option& option) const;

  // Sets one value unless a stronger source has set it. Throws Error(usage), which opens with the
  // place ("--delta", "HETSGD_DELTA", "config.json: delta") and says what was found, what was
  // expected, the range and the nearest choice. The option must exist.
  void set(std::string_view name, const std::vector<std::string>& texts, OptionSource source,
           const std::string& place);
  // Sets another default for an option that nobody has set. Throws what set() throws.
  void set_default(std::string_view name, const std::string& text);
  // Sets a value from a configuration file, else as set(). Numbers, sizes and times may also be
  // texts ("10K", "50ms"); a list may be one value. set_json() restores exactly what to_json()
  // gave.
  void set_json(std::string_view name, const nlohmann::json& value, OptionSource source,
                const std::string& place);
  // Every variable HETSGD_<NAME> of the environment that names an option; an empty one counts as
  // unset. Returns the names of the HETSGD_ variables that name none, for a warning.
  std::vector<std::string> read_environment();

  // {key: value} of all options that are part of the configuration. Times are texts ("0.05s"), so
  // that the unit stands with the number. Texts are bytes: see json_text (core/text.hpp).
  nlohmann::json to_json() const;
  // One line per option: key, value, where it came from.
  std::string describe() const;

 private:
  OptionRefiner add_choice_raw(const std::string& name, std::vector<std::string> names,
                               const std::string& help, std::function<void(std::size_t)> set,
                               std::function<std::size_t()> get);
  OptionRefiner append(Option option);
  Option& required(std::string_view name);

  std::string group_;
  std::vector<OptionNeed> needs_of_group_;
  std::vector<Option> options_;
};

}  // namespace hetsgd
