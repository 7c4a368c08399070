// Options, declared once: from one declaration come the command-line flag, --help, the environment
// variable, the config-file key, range checks, `hetsgd algorithms`, and the echo in the result's
// `config`.
//
//   struct AdaptiveOptions { double delta = 0.1; Bounds bounds = Bounds::skip; };
//   void declare(OptionSet& set) {
//     set.add("delta", delta, "perturbation of the merge weights").symbol("delta").range(0, 1);
//     set.add_choice("bounds", bounds, {{"skip", Bounds::skip}, {"clamp", Bounds::clamp}}, "...");
//   }
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
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/units.hpp"

namespace hetsgd {

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

// What a command does with the files that an option names (core/file_registry.hpp checks them).
enum class FileRole { none, read, written, appended };
struct OptionFiles {
  FileRole role = FileRole::none;
  std::string what;  // written: "the result", in messages
  // The files that one of the option's texts names; null: the text is the path.
  std::function<std::vector<std::string>(const std::string& text)> paths = nullptr;
};

// One declared option, with its value behind type-erased accessors.
struct Option {
  std::string name;    // snake_case
  std::string help;    // one sentence, lower case, no full stop
  std::string group;   // heading in --help
  std::string unit;    // "samples", "batches", "" ...
  std::string symbol;  // the paper's symbol, "" if none
  OptionType type = OptionType::text;
  std::vector<std::string> choices;
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool minimum_open = false;  // the minimum itself is excluded
  bool in_config = true;  // false: how to talk, not what to run (progress, output path); not echoed
  OptionFiles files;
  std::string default_text;  // as --help shows it
  OptionSource source = OptionSource::default_value;
  std::string place;  // what set it: "--delta", "HETSGD_DELTA", "run.json: delta"; "" for a default

  // The value's access, made by OptionSet::add. `parse` checks the range and throws usage errors
  // that open with the place; on an error the value stays as it was.
  std::function<void(const Option& self, const std::string& place,
                     const std::vector<std::string>& texts)>
      parse;
  std::function<nlohmann::json()> to_json;

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
  // How to talk, not what to run: left out of the result's config and of the configuration hash.
  OptionRefiner& not_in_config() {
    option_.in_config = false;
    return *this;
  }
  // What a command does with the files that the texts name.
  using Paths = std::function<std::vector<std::string>(const std::string& text)>;
  OptionRefiner& reads_file(Paths paths = nullptr) {
    option_.files = {FileRole::read, "", std::move(paths)};
    return *this;
  }
  OptionRefiner& writes_file(std::string what, Paths paths = nullptr) {
    option_.files = {FileRole::written, std::move(what), std::move(paths)};
    return *this;
  }
  OptionRefiner& appends_to_file(std::string what, Paths paths = nullptr) {
    option_.files = {FileRole::appended, std::move(what), std::move(paths)};
    return *this;
  }

 private:
  Option& option_;
};

class OptionSet {
 public:
  // Options added from now on stand under this heading.
  void group(std::string heading) { group_ = std::move(heading); }

  OptionRefiner add(const std::string& name, bool& value, const std::string& help);
  OptionRefiner add(const std::string& name, int& value, const std::string& help);
  OptionRefiner add(const std::string& name, std::uint64_t& value,
                    const std::string& help);  // takes 10K, 1M
  OptionRefiner add(const std::string& name, double& value, const std::string& help);
  OptionRefiner add(const std::string& name, Seconds& value,
                    const std::string& help);  // takes 50ms, 1.5h
  OptionRefiner add(const std::string& name, std::string& value, const std::string& help);
  OptionRefiner add(const std::string& name, std::vector<double>& value,
                    const std::string& help);  // 1,0.5
  OptionRefiner add(const std::string& name, std::vector<std::uint64_t>& value,
                    const std::string& help);
  // Repeated flags, one text each; a comma does not split.
  OptionRefiner add(const std::string& name, std::vector<std::string>& value,
                    const std::string& help);

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

  // Sets one value unless a stronger source has set it. Errors: usage, named after the place
  // ("--delta", "HETSGD_DELTA", "config.json: delta"): what was found, what was expected, the
  // range, the nearest choice. The option must exist.
  void set(std::string_view name, const std::vector<std::string>& texts, OptionSource source,
           const std::string& place);
  // The same from a configuration file. Numbers, sizes and times may also be texts ("10K", "50ms");
  // a list may be one value. to_json() and set_json() are inverse to each other, to the bit.
  void set_json(std::string_view name, const nlohmann::json& value, OptionSource source,
                const std::string& place);
  // Every variable HETSGD_<NAME> of the environment that names an option; an empty one counts as
  // unset. Returns the names of the HETSGD_ variables that name none, for a warning.
  std::vector<std::string> read_environment();

  // {key: value} of all options that are part of the configuration. Times are texts ("0.05s"), so
  // that the unit stands with the number. Texts are bytes: see json_text (core/bytes.hpp).
  nlohmann::json to_json() const;
  // One line per option: key, value, where it came from.
  std::string describe() const;

 private:
  OptionRefiner add_choice_raw(const std::string& name, std::vector<std::string> names,
                               const std::string& help, std::function<void(std::size_t)> set,
                               std::function<std::size_t()> get);
  template <class T, class Parse>
  OptionRefiner append(const std::string& name, const std::string& help, OptionType type, T& value,
                       Parse parse);
  OptionRefiner append(Option option);
  Option& required(std::string_view name);

  std::string group_;
  std::vector<Option> options_;
};

}  // namespace hetsgd
