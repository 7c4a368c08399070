// A comparison for people: a table per target that fits on a terminal, and a legend.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.hpp"
#include "result/compare.hpp"

namespace hetsgd {
namespace {

// Longer names of groups give their options in a note below the table.
constexpr std::size_t kLongestLabel = 28;

// Three significant digits, "0.0123", "12.3", more for "1234"; an exponent for what is very small
// or large.
std::string short_number(double value) {
  if (std::isnan(value)) return "-";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const double size = std::abs(value);
  if (size >= 99.95 && size < 1e7) return fmt::format("{:.0f}", value);
  return fmt::format("{:#.3g}", value);
}

std::string fixed(double value, int digits) {
  if (!std::isfinite(value)) return short_number(value);
  return fmt::format("{:.{}f}", value, digits);
}

std::string factor_text(double value) {
  return value < 99.5 ? fixed(value, 2) : short_number(value);
}

std::string probability_text(double value) { return value < 0.0001 ? "<0.0001" : fixed(value, 4); }

// "12.3 [11.9, 14.0]"; one run has no interval.
template <class Show>
std::string interval_text(const Interval& interval, bool several, Show show) {
  if (!several || std::isnan(interval.median)) return show(interval.median);
  return fmt::format("{} [{}, {}]", show(interval.median), show(interval.low), show(interval.high));
}

class Report {
 public:
  Report(const Comparison& comparison, TableFormat format)
      : comparison_(comparison), format_(format), tuned_(any_tuned(comparison)) {
    for (const GroupRow& group : comparison.groups) labels_.push_back(short_label(group));
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

  static bool any_tuned(const Comparison& comparison) {
    return std::any_of(comparison.groups.begin(), comparison.groups.end(),
                       [](const GroupRow& group) { return !group.tuning.is_null(); });
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
    row.push_back(fixed(group.final_value.median, 4));
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
      const auto reference = std::find_if(comparison_.groups.begin(), comparison_.groups.end(),
                                          [](const GroupRow& group) { return group.reference; });
      const std::string& name =
          labels_[static_cast<std::size_t>(reference - comparison_.groups.begin())];
      text = fmt::format(
          "Medians over the runs [95 % bootstrap interval]; a missed target counts as infinity.\n"
          "A target is reached when it is held: time_s is that of the first evaluation that "
          "reaches it\n"
          "and whose median with the next four does, too. crossed: at the first crossing, held or "
          "not.\n"
          "speedup over {0} = stat (fewer samples to the target) x hw (more samples per second).\n"
          "p: two-sided Mann-Whitney U test of the times against {0}{1}.\n",
          name,
          several_tests() ? fmt::format("; p_holm: corrected for {} comparisons (Holm)",
                                        comparison_.groups.size() - 1)
                          : "");
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
    const auto range = [](const std::vector<double>& values) {
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      const std::string least = short_number(*low), most = short_number(*high);
      return least == most ? least : fmt::format("{} to {}", least, most);
    };
    for (double& each : evaluations) each = std::round(each);
    const auto [first, last] = std::minmax_element(evaluations.begin(), evaluations.end());
    return fmt::format(
        "{} is held from evaluation {} on; a time is exact to the gap before it, {} s.\n",
        comparison_.targets[t].text(),
        *first == *last ? fmt::format("{:.0f}", *first)
                        : fmt::format("{:.0f} to {:.0f}", *first, *last),
        range(gaps));
  }

  const Comparison& comparison_;
  TableFormat format_;
  bool tuned_;
  std::vector<std::string> labels_;
  std::vector<std::string> notes_;
};

}  // namespace

std::string groups_report(const Comparison& comparison, TableFormat format) {
  return Report(comparison, format).text();
}

}  // namespace hetsgd
