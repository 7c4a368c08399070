// hetsgd retime: a record for programs. It prints the calls of a recorded run, and answers what
// becomes of the run if calls take other times: the package of scripts/hetsgd asks and explains.
//
//   > line 1   {"hetsgd_retime":1,"workers":4,...,"signatures":[...],"calls":{"own_s":[...],...}}
//   < a line   {"base":"recorded","calls":[7,12],"own_s":[0.5,0.25],"name":"faster","times":true}
//   > a line   {"total_s":1.5,"gap_share":0.01,"begin_s":[...],"end_s":[...]}
//
// Calls are numbered by process, then in their order. `own_s` is the part of a call's time that is
// its own (experiment/replay/retiming.hpp). `delay_s` is the part that was injected into a
// computation, and `unit_s` is the time of its work on an undisturbed device, the same for all
// workers (training/replay/work_times.hpp). A signature is what several calls may have in common:
// category, name, relation to others, bytes, members, with --network the costs on both networks, in
// seconds.
// A set of durations is that of `base`, "recorded" or the `name` of an earlier line, with `own_s`
// for `calls`, or for them those of another set, "from":"faster". In place of calls "rank":3 takes
// those of a worker, "signatures":[0,2] those with one of these. Only `times` gives the begin and
// the end of each call. Several sets, {"sets":[{...},{...}]}, are answered together, by
// {"runs":[{...},{...}]}, and use several cores.
//
// --steps prints the steps alone: for each worker their begins, own times, delays, and the time of
// their work on an undisturbed device of this worker. It takes records that have lost workers, too.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <map>
#include <tuple>

#include "cluster/profile.hpp"
#include "command.hpp"
#include "core/error.hpp"
#include "core/json_fields.hpp"
#include "core/logging.hpp"
#include "core/rank_index.hpp"
#include "core/text.hpp"
#include "data/parallel.hpp"
#include "experiment/replay/retiming.hpp"
#include "training/replay/work_times.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

std::string_view bare_name(const RecordedCall& range) {
  constexpr std::string_view kWait = "wait for ";
  const std::string_view name = range.name;
  return name.starts_with(kWait) ? name.substr(kWait.size()) : name;
}

// The cost of a call on a network, by the name of its collective; a message otherwise.
double cost_of(const NetworkModel& network, const RecordedCall& range, int members) {
  const double bytes = static_cast<double>(range.bytes);
  const std::string_view name = bare_name(range);
  if (name == "all_reduce") return network.all_reduce_cost(members, bytes).count();
  if (name == "broadcast") return network.broadcast_cost(members, bytes).count();
  if (name == "all_gather") return network.all_gather_cost(members, bytes / members).count();
  if (name == "reduce_scatter") return network.reduce_scatter_cost(members, bytes).count();
  if (name == "all_to_all") return network.all_to_all_cost(members, bytes / 2).count();
  if (name == "barrier" || name == "split") return network.barrier_cost(members).count();
  return (network.latency + Seconds(bytes / network.bytes_per_s)).count();
}

// A list of numbers that read back as the same.
template <class Values>
std::string list_of(const Values& values) {
  return fmt::format("[{}]", fmt::join(values, ","));
}

json description(const Timeline& timeline) {
  return {{"hetsgd_retime", 1},
          {"path", json_text(timeline.path)},
          {"algorithm", timeline.algorithm()},
          {"cluster", timeline.cluster},
          {"virtual", timeline.virtual_time},
          {"of_hetsgd", !timeline.config.empty()},
          {"workers", timeline.workers},
          {"elapsed_s", timeline.elapsed.count()},
          {"cut", timeline.cut}};
}

// Puts texts of JSON under keys behind those of an object.
std::string extended(const json& object,
                     const std::vector<std::pair<std::string, std::string>>& more) {
  std::string text = object.dump();
  text.pop_back();
  for (const auto& [key, value] : more) {
    fmt::format_to(std::back_inserter(text), ",\"{}\":{}", key, value);
  }
  return text + "}";
}

// The answers to lines of stdin.
class Answers {
 public:
  Answers(const Timeline& timeline, const std::string& network)
      : timeline_(timeline), retiming_(timeline), sets_({{"recorded", retiming_.own()}}) {
    for (const TraceLine& line : timeline.processes) {
      first_.push_back(first_.back() + line.ranges.size());
    }
    if (network.empty()) return;
    if (timeline.network.is_null()) {
      refuse("--network", network, "a record with a network, of a run with --cluster sim");
    }
    after_ = load_network_model(network);
    before_ = read_network_model(JsonFields(std::make_shared<const JsonDocument>(
        JsonDocument{.path = timeline.path + ": network", .tree = timeline.network})));
  }

  std::string first_line() {
    const WorkTimes work(timeline_);
    json facts = description(timeline_), signatures = json::array();
    facts["negative_gaps"] = retiming_.negative_gaps();
    std::map<std::tuple<std::string, std::string, CallKind, std::uint64_t, int>, std::size_t> known;
    std::vector<double> own, delays, units;
    for (std::size_t l = 0; l < timeline_.processes.size(); ++l) {
      const TraceLine& line = timeline_.processes[l];
      for (std::size_t r = 0; r < line.ranges.size(); ++r) {
        const RecordedCall& range = line.ranges[r];
        const int members = retiming_.members()[l][r];
        const auto [found, is_new] = known.try_emplace(
            {range.category, range.name, range.kind, range.bytes, members}, known.size());
        if (is_new) signatures.push_back(describe(range, members));
        signature_.push_back(found->second);
        rank_.push_back(line.rank);
        own.push_back(retiming_.own()[l][r]);
        delays.push_back(range.delay.count());
        const bool computes = range.category == "compute";
        units.push_back(computes ? work.seconds(0, range.name, range.work) : 0);
      }
    }
    facts["signatures"] = std::move(signatures);
    return extended(facts, {{"calls", fmt::format(R"({{"signature":{},"rank":{},"own_s":{},)"
                                                  R"("delay_s":{},"unit_s":{}}})",
                                                  list_of(signature_), list_of(rank_), list_of(own),
                                                  list_of(delays), list_of(units))}}) +
           "\n";
  }

  std::string answer(const std::string& place, const std::string& line) {
    const JsonFields asked(place, line);
    if (!asked.has("sets")) return answer_one(asked) + "\n";
    asked.allow({"sets"});
    const std::vector<JsonFields> sets = asked.objects("sets");
    std::vector<std::string> answers(sets.size());
    // Each of them has all moments of the run in memory.
    constexpr int kMostThreads = 8;
    parallel_tasks(std::min(thread_count(std::nullopt), kMostThreads), sets.size(),
                   [&](std::size_t i) {
                     if (sets[i].has("name")) sets[i].refuse("name", "none among several sets");
                     answers[i] = answer_one(sets[i]);
                   });
    return fmt::format("{{\"runs\":[{}]}}\n", fmt::join(answers, ","));
  }

 private:
  std::string answer_one(const JsonFields& asked) {
    asked.allow({"base", "calls", "rank", "signatures", "own_s", "from", "name", "times"});
    PerCall times = set_of(asked, "base");
    const std::vector<std::size_t> calls = chosen(asked);
    const std::vector<double> own = numbers(asked, "own_s");
    const PerCall* const from = asked.has("from") ? &set_of(asked, "from") : nullptr;
    if (from == nullptr && own.size() != calls.size()) {
      asked.refuse("own_s", fmt::format("{} numbers, as many as calls", calls.size()));
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const auto next = std::ranges::upper_bound(first_, calls[i]);
      const auto process = static_cast<std::size_t>(next - first_.begin()) - 1;
      const std::size_t call = calls[i] - first_[process];
      times[process][call] = from != nullptr ? (*from)[process][call] : own[i];
    }
    const bool with_calls = asked.boolean("times", false);
    const RetimedRun run = retiming_.run(times, with_calls);
    const json answer = {{"total_s", run.total.count()}, {"gap_share", run.gap_share}};
    if (asked.has("name")) sets_[asked.text("name")] = std::move(times);
    if (!with_calls) return answer.dump();
    std::vector<double> begins, ends;
    for (const auto& process : run.calls) {
      for (const CallMoments& call : process) {
        begins.push_back(call.begin_s);
        ends.push_back(call.end_s);
      }
    }
    return extended(answer, {{"begin_s", list_of(begins)}, {"end_s", list_of(ends)}});
  }

  const PerCall& set_of(const JsonFields& asked, const std::string& key) const {
    const auto found = sets_.find(asked.text(key, "recorded"));
    if (found == sets_.end()) asked.refuse(key, "recorded, or the name of an earlier line");
    return found->second;
  }
  std::vector<std::size_t> chosen(const JsonFields& asked) const {
    std::vector<std::size_t> calls;
    for (const double number : numbers(asked, "calls")) {
      const double most = static_cast<double>(rank_.size()) - 1;
      if (!(number >= 0 && number <= most)) asked.refuse("calls", fmt::format("0 to {}", most));
      calls.push_back(static_cast<std::size_t>(number));
    }
    const auto rank = asked.number_or_none("rank", {0, 1e9, ""});
    const std::vector<double> signatures = numbers(asked, "signatures");
    for (std::size_t call = 0; call < rank_.size() && (rank || !signatures.empty()); ++call) {
      const auto signature = static_cast<double>(signature_[call]);
      if (rank == rank_[call] || std::ranges::find(signatures, signature) != signatures.end()) {
        calls.push_back(call);
      }
    }
    return calls;
  }
  // Faster than JsonFields::numbers(), for a million of them.
  static std::vector<double> numbers(const JsonFields& asked, const std::string& key) {
    if (!asked.has(key)) return {};
    const json& list = asked.tree().at(key);
    const auto is_number = [](const json& each) { return each.is_number(); };
    if (!list.is_array() || !std::ranges::all_of(list, is_number)) asked.refuse(key, "numbers");
    return list.get<std::vector<double>>();
  }

  json describe(const RecordedCall& range, int members) const {
    json result = {{"category", range.category},
                   {"name", range.name},
                   {"relation", static_cast<int>(range.kind)},
                   {"bytes", range.bytes},
                   {"members", members}};
    if (after_ && range.category == "communicate" && range.kind != CallKind::none) {
      result["cost_s"] = cost_of(*before_, range, members);
      result["other_cost_s"] = cost_of(*after_, range, members);
    }
    return result;
  }

  const Timeline& timeline_;
  const Retiming retiming_;
  std::map<std::string, PerCall> sets_;
  std::vector<std::size_t> first_ = {0};  // call of each process
  std::vector<std::size_t> signature_;    // by call
  std::vector<int> rank_;
  std::optional<NetworkModel> before_, after_;
};

std::string steps_of(const Timeline& timeline) {
  const WorkTimes work(timeline);
  std::vector<std::string> workers;
  for (int rank = 0; rank < timeline.workers; ++rank) {
    std::vector<double> begins, own, delays, works;
    for (const RecordedCall& range : timeline.main_of(rank).ranges) {
      if (range.category != "compute" || range.name != "step") continue;
      begins.push_back(range.begin.count());
      own.push_back(own_seconds(range));
      delays.push_back(range.delay.count());
      works.push_back(work.seconds(rank, range.name, range.work));
    }
    if (own.empty()) {
      throw data_error("{}: found no step of worker {}, expected at least one", timeline.path,
                       rank);
    }
    workers.push_back(fmt::format(R"({{"begin_s":{},"own_s":{},"delay_s":{},"work_s":{}}})",
                                  list_of(begins), list_of(own), list_of(delays), list_of(works)));
  }
  return extended(description(timeline), {{"steps", list_of(workers)}}) + "\n";
}

class Retime final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "retime",
            .summary = "answer programs how long a recorded run takes with other times of calls",
            .examples = {"hetsgd retime run.jsonl.zst < sets.jsonl",
                         "hetsgd retime run.jsonl.zst --steps",
                         "hetsgd retime steps.csv --columns rank,iteration,step_ms --steps"},
            .operands = "TIMELINE"};
  }

  void declare(OptionSet& set) override {
    set.add("columns", columns_,
            "Columns of the worker, the step and its time in step times of another tool (CSV), for "
            "example rank,iteration,step_ms. The last name ends with its unit: s, ms, us or ns.");
    set.add("network", network_,
            "Network model whose costs are printed beside those of the recorded one: a built-in "
            "name or a JSON file.")
        .reads_file();
    set.add("steps", steps_,
            "Print the steps of the workers alone, and read no sets of durations.");
  }

  int run(OptionSet&, const std::vector<std::string>& operands) override {
    const Timeline timeline = read_timeline(operands.front(), columns_);
    if (steps_) {
      print_text(steps_of(timeline));
      return 0;
    }
    Answers answers(timeline, network_);
    print(answers.first_line());
    std::string line;
    for (int number = 1; std::getline(std::cin, line); ++number) {
      if (!trim(line).empty()) print(answers.answer(fmt::format("stdin:{}", number), line));
    }
    return 0;
  }

 private:
  // Flushed at once, because the program that asks waits for the answer.
  static void print(const std::string& text) {
    print_text(text);
    std::fflush(stdout);
  }

  std::string columns_, network_;
  bool steps_ = false;
};

}  // namespace

const bool retime_registered = register_command<Retime>(CommandGroup::results, 9);

}  // namespace hetsgd
