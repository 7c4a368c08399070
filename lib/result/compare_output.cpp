// Formats a comparison for programs (CSV tables and JSON, with every number) and for people (a
// table per target that fits on a terminal, and a legend).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/text.hpp"
#include "result/compare.hpp"
#include "result/output.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

std::string number(double value, const char* format) {
  if (std::isnan(value)) return "-";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return fmt::format(fmt::runtime(format), value);
}

std::string time_text(double value) { return number(value, "{:.6g}"); }
std::string count_text(double value) { return number(value, "{:.0f}"); }
std::string metric_text(double value) { return number(value, "{:.4f}"); }

template <class Show>
void append_interval(std::vector<std::string>& row, const Interval& interval, Show show) {
  row.insert(row.end(), {show(interval.median), show(interval.low), show(interval.high)});
}

json interval_json(const Interval& interval) {
  return {{"median", interval.median}, {"low", interval.low}, {"high", interval.high}};
}

json relation_json(const Relation& relation) {
  return {{"ratio", interval_json(relation.ratio)},
          {"p_value", relation.p_value},
          {"least_effect", relation.least_effect}};
}

// The test of a group against the reference; empty for the reference itself.
std::string test_of(const GroupRow& group) {
  return group.reference ? "" : group.paired ? "signed_rank" : "mann_whitney";
}

json group_target_json(const Comparison& comparison, const GroupRow& group, std::size_t t) {
  const GroupTarget& target = group.targets[t];
  json samples = json::array();
  for (const std::size_t run : group.runs) {
    samples.push_back(comparison.runs[run].targets[t].time_s);
  }
  return {{"target", comparison.targets[t].text()},
          {"reached", target.reached},
          {"misses_at_end", target.misses_at_end},
          {"time_s", interval_json(target.time_s)},
          {"times_s", std::move(samples)},
          {"first_crossing_s", interval_json(target.first_crossing_s)},
          {"samples_count", target.samples},
          {"updates", target.updates},
          {"ratio", target.ratio},
          {"speedup", interval_json(target.speedup)},
          {"statistical_efficiency_ratio", target.statistical},
          {"hardware_efficiency_ratio", target.hardware},
          {"p_value", target.p_value},
          {"p_value_holm", target.p_holm},
          {"least_effect", target.least_effect},
          {"evaluation", target.evaluation},
          {"resolution_s", target.resolution_s},
          {"first_crossing_relation", relation_json(target.first_crossing_relation)},
          {"samples_relation", relation_json(target.samples_relation)},
          {"updates_relation", relation_json(target.updates_relation)}};
}

// The varying options that the run has.
json options_json(const Comparison& comparison, const RunRow& run) {
  json options = json::object();
  for (std::size_t i = 0; i < run.values.size(); ++i) {
    if (!run.values[i].empty()) options[comparison.varying[i]] = run.values[i];
  }
  return options;
}

json run_json(const Comparison& comparison, const RunRow& run) {
  json row = {{"file", run.path},           {"label", run.label},
              {"algorithm", run.algorithm}, {"seed", run.seed},
              {"status", run.status},       {"samples_per_s", run.samples_per_s},
              {"final", run.final_value},   {"targets", json::array()}};
  for (std::size_t t = 0; t < run.targets.size(); ++t) {
    row["targets"].push_back({{"target", comparison.targets[t].text()},
                              {"time_s", run.targets[t].time_s},
                              {"first_crossing_s", run.targets[t].first_crossing_s},
                              {"samples_count", run.targets[t].samples},
                              {"updates", run.targets[t].updates},
                              {"evaluation", run.targets[t].evaluation},
                              {"resolution_s", run.targets[t].resolution_s}});
  }
  row["options"] = options_json(comparison, run);
  return row;
}

json group_json(const Comparison& comparison, const GroupRow& group) {
  json row = {{"label", group.label},
              {"algorithm", group.algorithm},
              {"reference", group.reference},
              {"paired", group.paired},
              {"test", group.reference ? json(nullptr) : json(test_of(group))},
              {"n", group.runs.size()},
              {"diverged", group.diverged},
              {"samples_per_s", interval_json(group.samples_per_s)},
              {"final", interval_json(group.final_value)},
              {"samples_per_s_relation", relation_json(group.samples_per_s_relation)},
              {"updates_per_s_relation", relation_json(group.updates_per_s_relation)},
              {"final_relation", relation_json(group.final_relation)},
              {"tuning", group.tuning},
              {"options", options_json(comparison, comparison.runs[group.runs.front()])},
              {"targets", json::array()}};
  for (std::size_t t = 0; t < group.targets.size(); ++t) {
    row["targets"].push_back(group_target_json(comparison, group, t));
  }
  return row;
}

// The columns that do not depend on a target.
void append_common(std::vector<std::string>& row, const GroupRow& group) {
  append_interval(row, group.samples_per_s, time_text);
  append_interval(row, group.final_value, metric_text);
  const bool tuned = !group.tuning.is_null();
  row.push_back(tuned ? group.tuning["trials"].dump() : "-");
  row.push_back(tuned ? time_text(group.tuning["train_s"].get<double>()) : "-");
}

std::vector<std::string> target_cells(const Comparison& comparison, const GroupRow& group,
                                      std::size_t t) {
  const GroupTarget& target = group.targets[t];
  std::vector<std::string> row = {comparison.targets[t].text(), fmt::format("{}", target.reached)};
  append_interval(row, target.time_s, time_text);
  row.insert(row.end(), {time_text(target.first_crossing_s.median), count_text(target.samples),
                         count_text(target.updates), number(target.ratio, "{:.4f}")});
  append_interval(row, target.speedup, metric_text);
  row.insert(row.end(),
             {metric_text(target.statistical), metric_text(target.hardware),
              number(target.p_value, "{:.4g}"), number(target.p_holm, "{:.4g}"),
              group.reference ? "-" : test_of(group), number(target.least_effect, "{:.4g}"),
              time_text(target.evaluation), time_text(target.resolution_s)});
  return row;
}

// The identity of a run or a group: its label, and each option of the label in a column.
std::vector<std::string> identity_header(const Comparison& comparison) {
  std::vector<std::string> header = {"group", "algorithm"};
  header.insert(header.end(), comparison.varying.begin(), comparison.varying.end());
  return header;
}

std::vector<std::string> identity_cells(const RunRow& run) {
  std::vector<std::string> cells = {run.label, run.algorithm};
  for (const std::string& value : run.values) cells.push_back(value.empty() ? "-" : value);
  return cells;
}

// Groups with longer labels list their options in a note below the table.
constexpr std::size_t kLongestLabel = 28;

// A number with three significant digits ("0.0123", "12.3"), or all integer digits ("1234"). Very
// small or large numbers have an exponent.
std::string short_number(double value) {
  const double size = std::abs(value);
  return number(value, size >= 99.95 && size < 1e7 ? "{:.0f}" : "{:#.3g}");
}

std::string factor_text(double value) {
  return value < 99.5 ? number(value, "{:.2f}") : short_number(value);
}

std::string probability_text(double value) {
  return value < 0.0001 ? "<0.0001" : metric_text(value);
}

// "12.3 [11.9, 14.0]"; one run has no interval.
template <class Show>
std::string interval_text(const Interval& interval, bool several, Show show) {
  if (!several || std::isnan(interval.median)) return show(interval.median);
  return fmt::format("{} [{}, {}]", show(interval.median), show(interval.low), show(interval.high));
}

class Report {
 public:
  Report(const Comparison& comparison, TableFormat format)
      : comparison_(comparison), format_(format) {
    for (const GroupRow& group : comparison.groups) {
      labels_.push_back(short_label(group));
      tuned_ |= !group.tuning.is_null();
    }
  }

  std::string text() const {
    std::string text;
    if (comparison_.targets.empty()) text = table_without_target();
    for (std::size_t t = 0; t < comparison_.targets.size(); ++t) {
      if (t > 0) text += '\n';
      text += table_of(t);
    }
    return text + "\n" + (format_ == TableFormat::latex ? commented(legend()) : legend());
  }

 private:
  static std::string commented(const std::string& text) {
    std::string result;
    for (const std::string_view line : split(text, '\n')) {
      if (!line.empty()) result += fmt::format("% {}\n", line);
    }
    return result;
  }

  std::string short_label(const GroupRow& group) {
    if (group.label.size() <= kLongestLabel || group.options.empty()) return group.label;
    notes_.push_back(group.options);
    return fmt::format("{} [{}]", group.name, notes_.size());
  }

  void append_common_header(std::vector<std::string>& header) const {
    header.insert(header.end(), {"samples/s", "final " + comparison_.metric});
    if (tuned_) header.emplace_back("tuning_s");
  }

  void append_common(std::vector<std::string>& row, const GroupRow& group) const {
    row.push_back(short_number(group.samples_per_s.median));
    row.push_back(metric_text(group.final_value.median));
    if (!tuned_) return;
    row.push_back(group.tuning.is_null() ? "-"
                                         : short_number(group.tuning["train_s"].get<double>()));
  }

  std::string table_of(std::size_t t) const {
    std::vector<std::string> header = {
        "algorithm", "reached", "time_s to " + comparison_.targets[t].text(),
        "crossed",   "speedup", "stat",
        "hw",        "p"};
    if (several_tests()) header.emplace_back("p_holm");
    append_common_header(header);
    Table table(header);
    const bool base_several = comparison_.reference().runs.size() > 1;
    for (std::size_t g = 0; g < labels_.size(); ++g) {
      const GroupRow& group = comparison_.groups[g];
      const GroupTarget& target = group.targets[t];
      const std::size_t n = group.runs.size();
      const bool spread = !group.reference && (n > 1 || base_several);
      std::vector<std::string> row = {labels_[g],
                                      fmt::format("{}/{}", target.reached, n),
                                      interval_text(target.time_s, n > 1, short_number),
                                      short_number(target.first_crossing_s.median),
                                      interval_text(target.speedup, spread, factor_text),
                                      factor_text(target.statistical),
                                      factor_text(target.hardware),
                                      probability_text(target.p_value)};
      if (several_tests()) row.push_back(probability_text(target.p_holm));
      append_common(row, group);
      table.add(std::move(row));
    }
    return table.format(format_);
  }

  std::string table_without_target() const {
    std::vector<std::string> header = {"algorithm", "runs"};
    append_common_header(header);
    Table table(header);
    for (std::size_t g = 0; g < labels_.size(); ++g) {
      std::vector<std::string> row = {labels_[g],
                                      fmt::format("{}", comparison_.groups[g].runs.size())};
      append_common(row, comparison_.groups[g]);
      table.add(std::move(row));
    }
    return table.format(format_);
  }

  std::string legend() const {
    std::string text;
    if (!comparison_.targets.empty()) {
      const auto reference = &comparison_.reference() - comparison_.groups.data();
      const std::string& name = labels_[static_cast<std::size_t>(reference)];
      text = fmt::format(
          "Medians over the runs [95 % bootstrap interval]; a missed target counts as infinity.\n"
          "A target is reached when it is held: time_s is that of the first evaluation that "
          "reaches it\n"
          "and whose median with the next four does, too. crossed: at the first crossing, held or "
          "not.\n"
          "speedup over {0} = stat (fewer samples to the target) x hw (more samples per second).\n"
          "{1}",
          name, tests(name));
      if (several_tests()) {
        text += fmt::format("p_holm: corrected for {} comparisons (Holm).\n",
                            comparison_.groups.size() - 1);
      }
      if (comparison_.clock != RunClock::training) {
        text += fmt::format("Times are those of the clock {}.\n", to_string(comparison_.clock));
      }
      for (std::size_t t = 0; t < comparison_.targets.size(); ++t) text += resolution(t);
    }
    if (tuned_) text += "tuning_s: training time spent on choosing the learning rate.\n";
    for (std::size_t i = 0; i < notes_.size(); ++i) {
      text += fmt::format("[{}] {}\n", i + 1, notes_[i]);
    }
    return text.empty() ? "Medians over the runs.\n" : text;
  }

  // Which tests the p-values are of; empty if there is no other group than the reference.
  std::string tests(const std::string& reference) const {
    std::vector<std::string> unpaired;
    bool paired = false;
    for (std::size_t g = 0; g < labels_.size(); ++g) {
      const GroupRow& group = comparison_.groups[g];
      if (group.reference) continue;
      paired |= group.paired;
      if (!group.paired) unpaired.push_back(labels_[g]);
    }
    std::string text;
    if (paired) {
      text = fmt::format(
          "p: two-sided Wilcoxon signed-rank test of the times against {}, paired by seed.\n",
          reference);
    }
    if (!unpaired.empty()) {
      text += fmt::format(
          "p{}: two-sided Mann-Whitney U test of the times against {}, not paired, since the seeds "
          "or the data differ.\n",
          paired ? fmt::format(" of {}", fmt::join(unpaired, ", ")) : "", reference);
    }
    return text;
  }

  bool several_tests() const { return comparison_.groups.size() > 2; }

  // "p1>=0.6 is reached at evaluation 3 to 7; its times are exact to 0.5 to 2 s, the gap before."
  std::string resolution(std::size_t t) const {
    std::vector<double> evaluations, gaps;
    for (const GroupRow& group : comparison_.groups) {
      const GroupTarget& target = group.targets[t];
      if (std::isfinite(target.evaluation)) evaluations.push_back(target.evaluation);
      if (std::isfinite(target.resolution_s)) gaps.push_back(target.resolution_s);
    }
    if (evaluations.empty() || gaps.empty()) return "";
    const auto range = [](const std::vector<double>& values, auto show) {
      const auto [low, high] = std::ranges::minmax_element(values);
      const std::string least = show(*low), most = show(*high);
      return least == most ? least : fmt::format("{} to {}", least, most);
    };
    for (double& each : evaluations) each = std::round(each);
    return fmt::format(
        "{} is held from evaluation {} on. Times are exact to one evaluation interval: {} s.\n",
        comparison_.targets[t].text(), range(evaluations, count_text), range(gaps, short_number));
  }

  const Comparison& comparison_;
  TableFormat format_;
  bool tuned_ = false;
  std::vector<std::string> labels_;
  std::vector<std::string> notes_;
};

}  // namespace

Table runs_table(const Comparison& comparison) {
  std::vector<std::string> header = identity_header(comparison);
  header.insert(header.end(), {"file", "seed", "status"});
  for (const Target& target : comparison.targets) {
    for (const char* const name :
         {"time_s", "first_crossing_s", "samples", "updates", "evaluation", "resolution_s"}) {
      header.push_back(fmt::format("{} {}", target.text(), name));
    }
  }
  header.insert(header.end(), {"samples_per_s", "final_" + comparison.metric});
  Table table(header);
  for (const RunRow& run : comparison.runs) {
    std::vector<std::string> row = identity_cells(run);
    row.insert(row.end(), {run.path, fmt::format("{}", run.seed), run.status});
    for (const RunTarget& target : run.targets) {
      row.insert(row.end(), {time_text(target.time_s), time_text(target.first_crossing_s),
                             count_text(target.samples), count_text(target.updates),
                             count_text(target.evaluation), time_text(target.resolution_s)});
    }
    row.insert(row.end(), {time_text(run.samples_per_s), metric_text(run.final_value)});
    table.add(std::move(row));
  }
  return table;
}

Table groups_table(const Comparison& comparison) {
  std::vector<std::string> header = identity_header(comparison);
  header.insert(header.end(), {"n", "diverged"});
  if (!comparison.targets.empty()) {
    header.insert(header.end(), {"target",
                                 "reached",
                                 "time_s",
                                 "time_s_low",
                                 "time_s_high",
                                 "first_crossing_s",
                                 "samples",
                                 "updates",
                                 "ratio",
                                 "speedup",
                                 "speedup_low",
                                 "speedup_high",
                                 "statistical_efficiency_ratio",
                                 "hardware_efficiency_ratio",
                                 "p_value",
                                 "p_value_holm",
                                 "test",
                                 "least_effect",
                                 "evaluation",
                                 "resolution_s"});
  }
  const std::string final = "final_" + comparison.metric;
  header.insert(header.end(), {"samples_per_s", "samples_per_s_low", "samples_per_s_high", final,
                               final + "_low", final + "_high", "tuning_trials", "tuning_train_s"});
  Table table(header);
  for (const GroupRow& group : comparison.groups) {
    std::vector<std::string> start = identity_cells(comparison.runs[group.runs.front()]);
    start.insert(start.end(),
                 {fmt::format("{}", group.runs.size()), fmt::format("{}", group.diverged)});
    for (std::size_t t = 0; t < std::max<std::size_t>(1, group.targets.size()); ++t) {
      std::vector<std::string> row = start;
      if (!group.targets.empty()) {
        const std::vector<std::string> cells = target_cells(comparison, group, t);
        row.insert(row.end(), cells.begin(), cells.end());
      }
      append_common(row, group);
      table.add(std::move(row));
    }
  }
  return table;
}

json comparison_json(const Comparison& comparison) {
  json result = {{"metric", comparison.metric},
                 {"clock", to_string(comparison.clock)},
                 {"reference", comparison.reference().label},
                 {"runs", json::array()},
                 {"groups", json::array()},
                 {"warnings", comparison.warnings}};
  for (const RunRow& run : comparison.runs) result["runs"].push_back(run_json(comparison, run));
  for (const GroupRow* group : comparison.groups_by_file()) {
    result["groups"].push_back(group_json(comparison, *group));
  }
  explain_nonfinite(result);
  return result;
}

std::string groups_report(const Comparison& comparison, TableFormat format) {
  return Report(comparison, format).text();
}

}  // namespace hetsgd
