// hetsgd algorithms [NAME], hetsgd models [NAME], hetsgd stragglers [NAME]: the table of all, or
// one entry in detail, from the declarations.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "algorithm/algorithm.hpp"
#include "cluster/straggler_kinds.hpp"
#include "command.hpp"
#include "help.hpp"
#include "model/registry.hpp"
#include "printer.hpp"
#include "train_session.hpp"

namespace hetsgd {
namespace {

using Json = nlohmann::json;

// An algorithm, a model or a kind of straggler, with its options as declared.
struct Described {
  std::string name, title, idea;
  Row columns;  // columns of the text table
  // The heading and text of the Markdown table's last column before the options.
  std::pair<std::string, std::string> origin;
  bool keys = false;            // the options are keys of one text
  Row facts;                    // shown before the options; the kept cells are the JSON
  std::shared_ptr<void> owner;  // owns the options' variables
  OptionSet set;
};

template <class Registered>
Described described_options(const Registered& registered) {
  const auto& info = registered.info;
  Described one;
  one.name = info.name;
  one.title = info.title;
  one.idea = info.idea;
  one.columns.show("name", info.name).show("title", info.title);
  one.facts.keep("name", info.name).keep("title", info.title).keep("idea", info.idea);
  auto owner = registered.make();
  owner->declare(one.set);
  one.owner = std::move(owner);
  return one;
}

std::string defaults_of(const AlgorithmInfo& info) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : info.defaults) {
    Option option;
    option.name = name;
    texts.push_back(fmt::format("{} {}", option.flag(), value));
  }
  return texts.empty() ? "the general ones" : fmt::format("{}", fmt::join(texts, ", "));
}

std::string optimizers_of(const AlgorithmInfo& info) {
  if (!info.plain_sgd_only.empty()) return "sgd alone: " + info.plain_sgd_only;
  return info.optimizers_only.empty() ? "all"
                                      : fmt::format("{}", fmt::join(info.optimizers_only, ", "));
}

std::string models_of(const AlgorithmInfo& info) {
  if (!info.one_hidden_layer_only.empty()) {
    return "mlp with one hidden layer: " + info.one_hidden_layer_only;
  }
  if (!info.sharded_tables_only.empty()) {
    return "click-through models with --tables sharded: " + info.sharded_tables_only;
  }
  if (!info.replicated_tables_only.empty()) {
    return "all, with --tables replicated: " + info.replicated_tables_only;
  }
  return "all";
}

Described described(const RegisteredAlgorithm& registered) {
  const AlgorithmInfo& info = registered.info;
  Described one = described_options(registered);
  one.columns.show("kind", info.synchronous ? "sync" : "async").show("paper", info.paper);
  one.origin = {"paper", info.paper};
  const bool any_number = info.max_workers >= AlgorithmInfo().max_workers;
  one.facts.both("Paper", "paper", info.paper)
      .show("Kind", info.synchronous ? "synchronous: all workers go from round to round together"
                                     : "asynchronous: every worker goes at its own pace")
      .keep("synchronous", info.synchronous)
      .both("Result", "result", info.result)
      .both("Cost", "cost", info.cost)
      .both("Identities", "identities", info.identities)
      .show("Workers", any_number ? "any number" : fmt::format("at most {}", info.max_workers))
      .keep("max_workers", info.max_workers)
      .show("Optimizers", optimizers_of(info))
      .keep("plain_sgd_only", info.plain_sgd_only)
      .keep("optimizers_only", info.optimizers_only)
      .show("Defaults", defaults_of(info))
      .keep("defaults", info.defaults)
      .show("Rate", info.rate_over_workers ? "the default is divided by the number of workers"
                                           : "the default is the same for any number of workers")
      .keep("rate_over_workers", info.rate_over_workers)
      .show("Models", models_of(info))
      .keep("one_hidden_layer_only", info.one_hidden_layer_only)
      .keep("sharded_tables_only", info.sharded_tables_only)
      .keep("replicated_tables_only", info.replicated_tables_only)
      .show("Devices", info.cpu_only.empty() ? "all" : "CPUs alone: " + info.cpu_only)
      .keep("cpu_only", info.cpu_only)
      .show("Clusters", info.one_process_only.empty()
                            ? "all"
                            : "workers in one process: " + info.one_process_only)
      .keep("one_process_only", info.one_process_only);
  return one;
}

Described described(const RegisteredModel& registered) {
  const ModelInfo& info = registered.info;
  Described one = described_options(registered);
  one.columns.show("paper", info.paper);
  one.origin = {"paper", info.paper};
  one.facts.both("Paper", "paper", info.paper)
      .both("Objective", "objective", info.objective)
      .both("Blocks", "blocks", info.blocks)
      .both("Cost", "cost", info.cost);
  return one;
}

Described described(const RegisteredStraggler& registered) {
  const StragglerInfo& info = registered.info;
  Described one = described_options(registered);
  one.columns.show("example", info.example);
  one.origin = {"example", fmt::format("`{}`", info.example)};
  one.keys = true;
  one.facts.show("Example", fmt::format("--straggler '{}'", info.example))
      .keep("example", info.example)
      .show("Workers", "workers=0-3;5 or worker=2 chooses workers; default: all of them");
  return one;
}

std::string detail_text(const Described& one) {
  std::string text = fmt::format("{} ({})\n\n{}\n\n", one.title, one.name, wrapped(one.idea, 0));
  for (const auto& [heading, fact] : one.facts.shown()) {
    if (!fact.empty()) text += fmt::format("{:<12}{}\n", heading, wrapped(fact, 12));
  }
  if (one.set.options().empty()) return text + "\nNo options of its own.\n";
  text += one.keys ? "\nKeys:\n" : "\nOptions:\n";
  for (const Option& option : one.set.options()) {
    text += one.keys ? key_help(option) : option_help(option);
  }
  return text;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) {
    row += ' ';
    for (const char c : cell) row += c == '|' ? std::string("\\|") : std::string(1, c);
    row += " |";
  }
  return row + "\n";
}

std::string code(const std::string& text) { return text.empty() ? "" : "`" + text + "`"; }

// "--batch-size", or "min" if options are keys.
std::string spelling(const Described& one, const Option& option) {
  return one.keys ? option.name : option.flag();
}

std::string default_of(const Option& option) {
  return option.required.empty() ? code(option.default_text) : "required";
}

std::string detail_markdown(const Described& one) {
  std::string text = fmt::format("# {} (`{}`)\n\n{}\n\n", one.title, one.name, one.idea);
  for (const auto& [heading, fact] : one.facts.shown()) {
    if (!fact.empty()) text += fmt::format("- {}: {}\n", heading, fact);
  }
  if (one.set.options().empty()) return text + "\nNo options of its own.\n";
  text += "\n| option | default | range | unit | symbol | meaning |\n|---|---|---|---|---|---|\n";
  for (const Option& option : one.set.options()) {
    text += markdown_row({code(spelling(one, option)), default_of(option),
                          code(option.range_text()), option.unit, option.symbol, option.help});
  }
  return text;
}

Json detail_json(const Described& one) {
  Json options = Json::array();
  for (const Option& option : one.set.options()) {
    options.push_back({{"name", option.name},
                       {one.keys ? "key" : "flag", spelling(one, option)},
                       {"required", !option.required.empty()},
                       {"help", option.help},
                       {"default", option.to_json()},
                       {"choices", option.choices},
                       {"range", option.range_text()},
                       {"unit", option.unit},
                       {"symbol", option.symbol}});
  }
  Json result = one.facts.kept();
  result["options"] = std::move(options);
  return result;
}

std::string text_table(const std::vector<Described>& all) {
  std::vector<Row> rows;
  for (const Described& one : all) rows.push_back(one.columns);
  return table_of(rows).format(OutputFormat::text);
}

// The tables of README.md and of stragglers.md, as scripts/update-readme.sh puts them there. Keys
// are part of what a straggler is written as; options of a method stand in its own description.
std::string markdown_table(const std::vector<Described>& all) {
  const bool keys = all.front().keys;
  std::string text =
      fmt::format("| name | idea | {} |{}\n|---|---|---|{}\n", all.front().origin.first,
                  keys ? " keys |" : "", keys ? "---|" : "");
  for (const Described& one : all) {
    std::vector<std::string> cells = {code(one.name), one.idea, one.origin.second};
    if (keys) cells.emplace_back();
    for (const Option& option : one.set.options()) {
      if (keys) cells.back() += (cells.back().empty() ? "" : ", ") + code(option.name);
    }
    text += markdown_row(cells);
  }
  return text;
}

// The command for one registry, which shows all entries or the one of a name.
template <class Registered>
class Catalogue final : public Command {
 public:
  using All = const std::vector<Registered>& (*)();
  using Find = const Registered& (*)(const std::string& name, const std::string& where);
  // `plugins`: whether shared libraries can add entries.
  Catalogue(std::string name, std::string summary, const std::string& example, All all, Find find,
            bool plugins)
      : info_{.name = name,
              .summary = std::move(summary),
              .examples = {"hetsgd " + name, fmt::format("hetsgd {} {}", name, example),
                           fmt::format("hetsgd {} --format markdown", name)},
              .operands = "[NAME]"},
        all_(all),
        find_(find),
        has_plugins_(plugins) {}

  CommandInfo info() const override { return info_; }

  void look_ahead(const std::vector<std::string>& arguments) override {
    if (has_plugins_) load_plugins(arguments);
  }

  void declare(OptionSet& set) override {
    if (has_plugins_) {
      set.add("plugin", plugins_,
              fmt::format("Shared library whose {} are listed, too. Repeat the option for several "
                          "libraries.",
                          info_.name))
          .reads_file();
    }
    printer_.declare_format(set, {OutputFormat::text, OutputFormat::markdown, OutputFormat::json});
  }

  int run(OptionSet&, const std::vector<std::string>& operands) override {
    if (operands.empty()) {
      std::vector<Described> all;
      for (const Registered& each : all_()) all.push_back(described(each));
      print(all);
    } else {
      print(described(find_(operands[0], "NAME")));
    }
    return 0;
  }

 private:
  void print(const std::vector<Described>& all) const {
    if (!printer_.json())
      return printer_.print(printer_.text() ? text_table(all) : markdown_table(all));
    Json list = Json::array();
    for (const Described& one : all) list.push_back(detail_json(one));
    printer_.print(std::move(list));
  }

  void print(const Described& one) const {
    if (printer_.json()) return printer_.print(detail_json(one));
    printer_.print(printer_.text() ? detail_text(one) : detail_markdown(one));
  }

  CommandInfo info_;
  All all_;
  Find find_;
  bool has_plugins_;
  std::vector<std::string> plugins_;
  Printer printer_;
};

}  // namespace

const bool algorithms_registered = register_command<Catalogue<RegisteredAlgorithm>>(
    CommandGroup::catalogues, 1, "algorithms",
    "list the synchronisation methods, or explain one of them", "adaptive", &algorithms,
    &find_algorithm, true);
const bool models_registered = register_command<Catalogue<RegisteredModel>>(
    CommandGroup::catalogues, 2, "models", "list the models, or explain one of them", "mlp",
    &models, &find_model, true);
const bool stragglers_registered = register_command<Catalogue<RegisteredStraggler>>(
    CommandGroup::catalogues, 3, "stragglers", "list the kinds of --straggler, or explain one",
    "uniform", &straggler_kinds, &find_straggler_kind, false);

}  // namespace hetsgd
