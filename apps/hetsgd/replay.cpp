// hetsgd replay: where the time of a recorded run went, and how long it would have taken otherwise.
#include <fmt/format.h>

#include "command.hpp"
#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "experiment/replay/what_if.hpp"
#include "printer.hpp"

namespace hetsgd {
namespace {

class Replay final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "replay",
            .summary = "time a recorded run again, with or without its stragglers",
            .examples = {"hetsgd replay run.jsonl.zst",
                         "hetsgd replay run.jsonl.zst --without injected",
                         "hetsgd replay run.jsonl.zst --without worker=2 --speed 1,1,2,1",
                         "hetsgd replay run.jsonl.zst --network ethernet-10g --json",
                         "hetsgd replay steps.csv"},
            .operands = "TIMELINE"};
  }

  void declare(OptionSet& set) override {
    set.add("without", without_,
            "Leave something out: injected (delays of --straggler and --speed), stragglers (every "
            "call takes the ideal time of its kind), worker=N or kind=K (the calls of this worker "
            "or kind take their ideal time). Repeat the option to combine several.");
    set.add("speed", speed_,
            "Speed of each worker's computations relative to the record, for example 1,2. The last "
            "one repeats.")
        .range(1e-6, 1e6);
    set.add("network", network_,
            "Network model instead of the recorded one, for records of --cluster sim: a built-in "
            "name or a JSON file. Collectives and messages are scaled by their cost.")
        .reads_file();
    printer_.declare_json(set);
  }

  int run(OptionSet&, const std::vector<std::string>& operands) override {
    const Timeline timeline = read_timeline(operands.front());
    const Retiming retiming(timeline);
    const WhatIf what_if(retiming);
    PerCall times = what_if.recorded();
    for (const std::string& what : without_) what_if.leave_out(what, times);
    what_if.change_network(network_, times);
    what_if.change_speed(speed_, times);
    const bool changed = !without_.empty() || !speed_.empty() || !network_.empty();
    const Attribution attribution = attribute(retiming, what_if);
    std::optional<Seconds> other;
    if (changed) other = retiming.run(times).total;
    if (printer_.json()) {
      printer_.print(document(timeline, attribution, other));
    } else {
      printer_.print(text(attribution, other));
    }
    say_warnings(timeline, attribution);
    return 0;
  }

 private:
  static Row summary(const Attribution& attribution, std::optional<Seconds> other) {
    Row row;
    const auto time = [&](const char* heading, const char* key, Seconds value) {
      row.show(heading, format_seconds(value)).keep(key, value.count());
    };
    time("time", "time_s", attribution.total);
    if (other) time("time with the changes", "changed_time_s", *other);
    time("time without stragglers", "ideal_time_s", attribution.ideal);
    row.both("slowdown S", "slowdown", attribution.slowdown(), "{:.4f}");
    row.show("gaps on the longest path", fmt::format("{:.1f} %", 100 * attribution.gap_share))
        .keep("gap_share", attribution.gap_share);
    return row;
  }

  static std::vector<Row> rows(const std::vector<Attribution::Part>& parts, const char* heading,
                               bool ranks) {
    std::vector<Row> all;
    for (const Attribution::Part& part : parts) {
      Row row;
      row.show(heading, ranks ? fmt::format("{}", part.rank) : part.name);
      if (ranks) {
        row.keep("rank", part.rank);
      } else {
        row.keep("kind", part.name);
      }
      row.both("slowdown alone", "slowdown", part.slowdown, "{:.4f}");
      row.show("share of the lost time", fmt::format("{:.1f} %", 100 * part.share))
          .keep("share", part.share);
      all.push_back(std::move(row));
    }
    return all;
  }

  static std::string text(const Attribution& attribution, std::optional<Seconds> other) {
    std::string result = property_table(summary(attribution, other)).format(TableFormat::text);
    for (const auto& part :
         {rows(attribution.workers, "worker", true), rows(attribution.kinds, "kind", false)}) {
      if (!part.empty()) result += "\n" + table_of(part).format(TableFormat::text);
    }
    return result;
  }

  static nlohmann::json document(const Timeline& timeline, const Attribution& attribution,
                                 std::optional<Seconds> other) {
    nlohmann::json result = summary(attribution, other).kept();
    result["algorithm"] = timeline.algorithm();
    result["workers"] = json_of(rows(attribution.workers, "", true));
    result["kinds"] = json_of(rows(attribution.kinds, "", false));
    result["decisions_frozen"] = attribution.decisions_frozen;
    result["negative_gaps"] = attribution.negative_gaps;
    result["cut"] = timeline.cut;
    return result;
  }

  static void say_warnings(const Timeline& timeline, const Attribution& attribution) {
    if (timeline.cut) {
      warn("{} is cut off: replayed up to the end of its last whole round, {}", timeline.path,
           format_seconds(timeline.elapsed));
    }
    if (attribution.gap_share > kLargeGapShare) {
      warn(
          "{:.1f} % of the longest path lies between calls, where the record says nothing: the "
          "cause of a slowdown may be there",
          100 * attribution.gap_share);
    }
    if (attribution.decisions_frozen) {
      warn(
          "{} decides by times, and a replay keeps the recorded decisions: `hetsgd train --replay` "
          "lets it decide anew",
          timeline.algorithm());
    }
    if (attribution.negative_gaps > 0) {
      warn("{} calls begin before what they depend on, because clocks differ",
           attribution.negative_gaps);
    }
  }

  std::vector<std::string> without_;
  std::vector<double> speed_;
  std::string network_;
  Printer printer_;
};

}  // namespace

const bool replay_registered = register_command<Replay>(CommandGroup::results, 7);

}  // namespace hetsgd
