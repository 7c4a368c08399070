#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <queue>
#include <tuple>

#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/json_fields.hpp"
#include "core/output_file.hpp"
#include "core/rank_index.hpp"
#include "core/text.hpp"
#include "data/source.hpp"
#include "training/timeline/timeline.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

constexpr std::string_view kFormatKey = "hetsgd_timeline";
constexpr std::uint64_t kMostTimelineBytes = std::uint64_t{1} << 32;
constexpr Seconds kRealResolution{1e-9};
constexpr FieldRange kTimes{0, 1e18, "s"};
// By CallKind.
const std::vector<std::string> kKinds = {"none",     "collective", "started", "send",  "receive",
                                         "sendrecv", "service",    "monitor", "served"};

// The parts of Work, in the order of the list "W".
constexpr double Work::*kWorkParts[] = {
    &Work::operations,      &Work::bytes,        &Work::launches,          nullptr,
    &Work::host_link_bytes, &Work::gather_bytes, &Work::host_gather_bytes, &Work::given_s};

double work_part(const Work& work, std::size_t i) {
  return kWorkParts[i] != nullptr ? work.*kWorkParts[i] : work.learners;
}

bool has_any_work(const Work& work) {
  for (const auto part : kWorkParts) {
    if (part != nullptr && work.*part != 0) return true;
  }
  return false;
}

// --- writing

// Writes the calls of all processes by their ends, one after the other: only the next call of each
// process is in memory.
class TimelineWriter {
 public:
  // `services` of the processes are services, the last ones. `sink` gets the text in parts.
  TimelineWriter(const std::vector<const RecordedLine*>& processes, std::size_t services,
                 bool exact, std::function<void(std::string_view)> sink)
      : services_(services), exact_(exact), sink_(std::move(sink)) {
    for (const RecordedLine* process : processes) processes_.emplace_back(*process);
  }

  void write(json header) {
    const std::size_t own = processes_.size() - services_;
    for (std::size_t p = 0; p < processes_.size(); ++p) {
      header[p < own ? "processes" : "services"].push_back(description(processes_[p].line));
    }
    fmt::format_to(std::back_inserter(text_), "{}\n", header.dump());
    std::uint64_t calls = 0;
    for (std::size_t p = 0; p < processes_.size(); ++p) read_next(p);
    while (!next_.empty()) {
      const std::size_t p = next_.top().second;
      next_.pop();
      add(p);
      ++calls;
      if (text_.size() > kPart) flush();
      read_next(p);
    }
    fmt::format_to(std::back_inserter(text_), "{{\"lines\":{}}}\n", calls);
    flush();
  }

 private:
  static constexpr std::size_t kPart = std::size_t{1} << 18;

  struct Process {
    explicit Process(const RecordedLine& recorded) : line(recorded), calls(recorded.calls) {}
    const TracedName& line;
    CallReader calls;
    RecordedCall next;      // the call that comes next
    Seconds end_before{0};  // of the call before
    std::uint64_t steps_before = 0;
  };
  using Next = std::pair<Seconds, std::size_t>;  // end of the next call, process

  // If several calls end at once, those of the first process come first.
  void read_next(std::size_t p) {
    if (processes_[p].calls.next(processes_[p].next)) next_.emplace(processes_[p].next.end, p);
  }
  void flush() {
    sink_(text_);
    text_.clear();
  }

  json description(const TracedName& line) const {
    json all = {{"rank", line.rank}, {"name", line.name}, {"line", line.number}};
    if (line.main) all["main"] = true;
    if (const CallPoint& p = line.parent; p.rank >= 0) {
      all["parent"] = {p.rank, p.line, p.calls, rounded(p.time.count())};
    }
    return all;
  }

  double rounded(double seconds) const {
    constexpr double kPerSecond = 1e9;  // of a real clock: kRealResolution
    return exact_ ? seconds : std::round(seconds * kPerSecond) / kPerSecond;
  }
  void number(const char* key, double value) {
    if (value != 0) fmt::format_to(std::back_inserter(text_), ",\"{}\":{}", key, value);
  }
  void time(const char* key, Seconds value) { number(key, rounded(value.count())); }
  void text_field(const char* key, const std::string& value) {
    if (!value.empty())
      fmt::format_to(std::back_inserter(text_), ",\"{}\":{}", key, json(value).dump());
  }

  void add(std::size_t p) {
    Process& process = processes_[p];
    const RecordedCall& range = process.next;
    fmt::format_to(std::back_inserter(text_), "{{\"p\":{}", p);
    text_field("c", range.category);
    text_field("n", range.name);
    if (rounded(range.begin.count()) != rounded(process.end_before.count())) {
      fmt::format_to(std::back_inserter(text_), ",\"b\":{}", rounded(range.begin.count()));
    }
    const bool exact = range.charged > Seconds(0);
    if (!exact || range.begin + range.charged != range.end) time("e", range.end);
    time("w", range.wait);
    time("d", range.delay);
    if (range.steps != process.steps_before) number("s", static_cast<double>(range.steps));
    number("y", static_cast<double>(range.bytes));
    number("m", static_cast<double>(range.samples));
    add_work(range.work);
    if (exact) {
      time("q", range.charged);
      const bool all = range.busy == range.charged;
      if (range.busy != range.charged - range.delay) {
        fmt::format_to(std::back_inserter(text_), ",\"v\":{}", all ? 0 : range.busy.count());
      }
    }
    if (range.kind != CallKind::none) add_place(range);
    if (const CallPoint& a = range.cause; a.rank >= 0) {
      fmt::format_to(std::back_inserter(text_), ",\"a\":[{},{},{},{}]", a.rank, a.line, a.calls,
                     rounded(a.time.count()));
    }
    text_ += "}\n";
    process.end_before = range.end;
    process.steps_before = range.steps;
  }

  void add_work(const Work& work) {
    if (!has_any_work(work)) return;
    std::size_t parts = std::size(kWorkParts);
    while (work_part(work, parts - 1) == (parts - 1 == 3 ? 1 : 0)) --parts;
    for (std::size_t i = 0; i < parts; ++i) {
      fmt::format_to(std::back_inserter(text_), "{}{}", i == 0 ? ",\"W\":[" : ",",
                     work_part(work, i));
    }
    text_ += ']';
  }

  void add_place(const RecordedCall& call) {
    text_field("k", kKinds[static_cast<std::size_t>(call.kind)]);
    text_field("g", call.group);
    number("i", static_cast<double>(call.number));
    number("r", call.rank);
    if (call.peer >= 0) fmt::format_to(std::back_inserter(text_), ",\"o\":{}", call.peer);
    number("t", call.tag);
    if (call.is_split != 0) {
      fmt::format_to(std::back_inserter(text_), ",\"x\":[{},{}]", call.color, call.key);
    }
    time("f", call.since);
    time("u", call.until);
  }

  std::deque<Process> processes_;  // the services last
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next_;
  const std::size_t services_;
  const bool exact_;
  const std::function<void(std::string_view)> sink_;
  std::string text_;
};

// --- reading

class TimelineReader {
 public:
  TimelineReader(const std::string& path, bool cut) : path_(path) {
    result_.path = path;
    result_.cut = cut;
  }

  Timeline read(std::string_view text) {
    std::vector<std::string_view> lines = split(text, '\n');
    // A last line without its end is cut off. Empty lines may follow the end.
    if (!lines.back().empty()) result_.cut = true;
    lines.pop_back();
    while (lines.size() > 1 && trim(lines.back()).empty()) lines.pop_back();
    read_header(lines.front());
    for (number_ = 2; number_ <= lines.size(); ++number_) {
      const JsonFields fields(place(), lines[number_ - 1]);
      if (fields.has("lines")) {
        read_end(fields, lines.size());
        finish();
        return std::move(result_);
      }
      read_call(fields);
    }
    result_.cut = true;
    finish();
    keep_whole_rounds();
    return std::move(result_);
  }

 private:
  std::string place() const { return fmt::format("{}:{}", path_, number_); }

  void read_header(std::string_view text) {
    const JsonFields header(place(), text);
    if (!header.has(std::string(kFormatKey))) {
      throw data_error("{}: found no \"{}\", expected the header of a timeline", place(),
                       kFormatKey);
    }
    const int version = header.whole_number(std::string(kFormatKey), {1, 1e6, ""}, 1);
    if (version > kTimelineVersion) {
      throw with_hint(data_error("{}: found version {}, expected at most {}", place(), version,
                                 kTimelineVersion),
                      "a newer hetsgd wrote this file");
    }
    header.allow({std::string(kFormatKey), "config", "cluster", "virtual", "clock_resolution_s",
                  "stragglers", "device_profile", "server_profile", "network", "charge", "workers",
                  "lost_workers", "elapsed_s", "processes", "services"});
    result_.cluster = header.text("cluster");
    result_.virtual_time = header.boolean("virtual", true);
    result_.clock_resolution = Seconds(header.number("clock_resolution_s", kDurations));
    result_.workers = header.whole_number("workers", kCounts, 1);
    result_.lost_workers = header.count("lost_workers", 0, 0);
    result_.elapsed = Seconds(header.number("elapsed_s", kTimes));
    read_machine(header);
    for (const JsonFields& each : header.objects("processes")) {
      result_.processes.push_back(read_process(each));
    }
    for (const JsonFields& each : header.objects_or_none("services")) {
      result_.services.push_back(read_process(each));
    }
    for (int rank = 0; rank < result_.workers; ++rank) {
      const auto is_main = [&](const TraceLine& line) { return line.main && line.rank == rank; };
      if (std::ranges::count_if(result_.processes, is_main) != 1) {
        header.refuse("processes", fmt::format("one process of worker {} with main", rank));
      }
    }
    before_.resize(result_.processes.size() + result_.services.size());
  }

  // Checks the types of what readers of a timeline ask for. Models are checked where they are used.
  void read_machine(const JsonFields& header) {
    const auto is_empty_list = [](const JsonFields& fields, const char* key) {
      return !fields.has(key) || fields.tree().at(key) == json::array();
    };
    const JsonFields config = header.object("config");
    config.text("algorithm", "");
    config.count("seed", 0, 0);
    if (!is_empty_list(config, "speed")) config.numbers("speed", kRatios, {});
    result_.config = config.tree();
    if (!is_empty_list(header, "stragglers")) result_.stragglers = header.texts("stragglers");
    const auto object_or_null = [&](const char* key) {
      return header.is_null(key) ? json() : header.object(key).tree();
    };
    result_.server_profile = object_or_null("server_profile");
    result_.network = object_or_null("network");
    result_.charge = object_or_null("charge");
    if (!result_.charge.is_null()) {
      header.object("charge").number_or_none("parameter_ratio", {0, 1e18, ""});
    }
    if (!header.is_list("device_profile")) {
      result_.device_profile = object_or_null("device_profile");
      return;
    }
    for (const JsonFields& each : header.objects("device_profile")) each.text("workers");
    result_.device_profile = header.list("device_profile");
  }

  static TraceLine read_process(const JsonFields& fields) {
    fields.allow({"rank", "name", "line", "main", "parent"});
    return {{.rank = static_cast<int>(fields.number("rank", {-1, 1e6, ""})),
             .name = fields.text("name"),
             .main = fields.boolean("main", false),
             .number = fields.whole_number("line", {0, 1e6, ""}, 0),
             .parent = read_point(fields, "parent")}};
  }

  static CallPoint read_point(const JsonFields& fields, const std::string& key) {
    if (!fields.has(key)) return {};
    const std::vector<double> parts = fields.numbers(key, {0, 1e18, ""}, {});
    if (parts.size() != 4 || std::max(parts[0], parts[1]) > kCounts.max) {
      fields.refuse(key, "[rank, line, calls, time]");
    }
    return {static_cast<int>(parts[0]), static_cast<int>(parts[1]),
            static_cast<std::uint64_t>(parts[2]), Seconds(parts[3])};
  }

  void read_call(const JsonFields& fields) {
    fields.allow({"p", "c", "n", "b", "e", "w", "d", "s", "y", "m", "W", "q",
                  "v", "k", "g", "i", "r", "o", "t", "x", "f", "u", "a"});
    const double most = static_cast<double>(before_.size()) - 1;
    const double number = fields.number("p", {0, 1e9, ""});
    if (number > most) fields.refuse("p", fmt::format("a process of the header, 0 to {}", most));
    const auto p = static_cast<std::size_t>(number);
    RecordedCall& before = before_[p];
    RecordedCall range{{.category = fields.text("c"), .name = fields.text("n", "")}, {}, {}};
    const auto seconds = [&](const char* key, double missing) {
      return Seconds(fields.has(key) ? fields.number(key, kTimes) : missing);
    };
    range.begin = seconds("b", before.end.count());
    range.charged = seconds("q", 0);
    range.end = seconds("e", (range.begin + range.charged).count());
    range.wait = seconds("w", 0);
    range.delay = seconds("d", 0);
    range.busy = seconds("v", (range.charged - range.delay).count());
    if (range.busy == Seconds(0)) range.busy = range.charged;
    range.steps = fields.count("s", 0, before.steps);
    range.bytes = fields.count("y", 0, 0);
    range.samples = fields.count("m", 0, 0);
    read_work(fields, range.work);
    if (fields.has("k")) read_place(fields, range);
    range.cause = read_point(fields, "a");
    if (range.end < range.begin) {
      fields.refuse("e",
                    fmt::format("the end of the call, at least its begin {}", range.begin.count()));
    }
    check_part(fields, "w", range.wait, range);
    check_part(fields, "d", range.delay, range);
    check_part(fields, "v", range.busy, range);
    if (range.end < last_end_) {
      fields.refuse("e", fmt::format("at least {}, the end of the line before: lines are in the "
                                     "order of their ends",
                                     last_end_.count()));
    }
    last_end_ = range.end;
    before.end = range.end;
    before.steps = range.steps;
    line_of(p).ranges.push_back(std::move(range));
    ++calls_;
  }

  // The parts of a call are not longer than the call. Rounding makes each a little longer.
  void check_part(const JsonFields& fields, const char* key, Seconds part,
                  const RecordedCall& range) const {
    const Seconds whole = range.end - range.begin;
    if (part <= whole + 4 * result_.clock_resolution + 1e-9 * range.end) return;
    fields.refuse(key, fmt::format("at most {}, what the call takes", whole.count()));
  }

  TraceLine& line_of(std::size_t p) {
    const std::size_t own = result_.processes.size();
    return p < own ? result_.processes[p] : result_.services[p - own];
  }

  static void read_work(const JsonFields& fields, Work& work) {
    if (!fields.has("W")) return;
    const std::vector<double> parts = fields.numbers("W", {0, 1e300, ""}, {});
    if (parts.size() > std::size(kWorkParts)) {
      fields.refuse("W", fmt::format("at most {} numbers", std::size(kWorkParts)));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (kWorkParts[i] != nullptr) {
        work.*kWorkParts[i] = parts[i];
      } else {
        work.learners = static_cast<int>(std::max(1.0, parts[i]));
      }
    }
  }

  static void read_place(const JsonFields& fields, RecordedCall& call) {
    call.kind = static_cast<CallKind>(fields.choice("k", kKinds, 0));
    call.group = fields.text("g", "");
    call.number = fields.count("i", 0, 0);
    const auto whole = [&](const char* key, double least, int missing) {
      return fields.has(key) ? static_cast<int>(fields.number(key, {least, 2147483647, ""}))
                             : missing;
    };
    call.rank = whole("r", 0, 0);
    call.peer = whole("o", 0, -1);
    call.tag = whole("t", -2147483648.0, 0);
    if (fields.has("x")) {
      const std::vector<double> split = fields.numbers("x", {-2147483648.0, 2147483647, ""}, {});
      if (split.size() != 2) fields.refuse("x", "[color, key]");
      call.is_split = 1;
      call.color = static_cast<int>(split[0]);
      call.key = static_cast<int>(split[1]);
    }
    call.since = Seconds(fields.number("f", 0.0));
    call.until = Seconds(fields.number("u", 0.0));
  }

  void read_end(const JsonFields& fields, std::size_t lines) {
    fields.allow({"lines"});
    if (fields.count("lines", 0, 0) != calls_) {
      fields.refuse("lines", fmt::format("{}, the number of calls", calls_));
    }
    if (number_ != lines) {
      throw data_error("{}:{}: found a line behind the end, expected none", path_, number_ + 1);
    }
  }

  // Checks the points that calls refer to, once all are known.
  void finish() const {
    std::map<std::pair<int, int>, const TraceLine*> lines;
    for (const TraceLine& line : result_.processes) lines[{line.rank, line.number}] = &line;
    const auto check = [&](const TraceLine& line, const CallPoint& point) {
      if (point.rank < 0) return;
      const auto found = lines.find({point.rank, point.line});
      if (found == lines.end()) {
        throw data_error(
            "{}: {}: found a reference to line {} of worker {}, expected a process of "
            "the header",
            path_, line.name, point.line, point.rank);
      }
      const std::size_t most = found->second->ranges.size();
      if (!result_.cut && point.calls > most) {
        throw data_error("{}: {}: found a reference to call {} of {}, expected at most {}", path_,
                         line.name, point.calls, found->second->name, most);
      }
    };
    for (const TraceLine& line : result_.processes) {
      check(line, line.parent);
      for (const RecordedCall& range : line.ranges) check(line, range.cause);
    }
  }

  // The end of the last collective of all workers that is complete; else of the last step that
  // every worker has made.
  std::optional<Seconds> end_of_rounds() const {
    std::map<std::uint64_t, std::pair<int, Seconds>> rounds;
    std::vector<std::vector<Seconds>> steps;
    for (const TraceLine& line : result_.processes) {
      if (line.main) steps.emplace_back();
      for (const RecordedCall& range : line.ranges) {
        if (line.main && range.name == "step") steps.back().push_back(range.end);
        if (range.kind != CallKind::collective || !range.group.empty()) continue;
        auto& [members, end] = rounds[range.number];
        ++members;
        end = std::max(end, range.end);
      }
    }
    std::optional<Seconds> last;
    for (const auto& [number, round] : rounds) {
      if (round.first == result_.workers) last = std::max(last.value_or(Seconds(0)), round.second);
    }
    if (last) return last;
    std::size_t fewest = steps.front().size();
    for (const auto& ends : steps) fewest = std::min(fewest, ends.size());
    for (const auto& ends : steps) {
      if (fewest > 0) last = std::max(last.value_or(Seconds(0)), ends[fewest - 1]);
    }
    return last;
  }

  void keep_whole_rounds() {
    const std::optional<Seconds> end = end_of_rounds();
    if (!end) {
      throw with_hint(data_error("{}: found no whole round before the file is cut off, expected at "
                                 "least one",
                                 path_),
                      "record the run again");
    }
    for (auto* lines : {&result_.processes, &result_.services}) {
      for (TraceLine& line : *lines) {
        std::erase_if(line.ranges, [&](const RecordedCall& range) { return range.end > *end; });
      }
    }
    result_.elapsed = *end;
  }

  const std::string& path_;
  Timeline result_;
  std::size_t number_ = 1;            // of the line
  std::vector<RecordedCall> before_;  // by process: end and steps of the call before
  Seconds last_end_{0};
  std::uint64_t calls_ = 0;
};

}  // namespace

const TraceLine& Timeline::main_of(int rank) const {
  const auto found = std::ranges::find_if(
      processes, [&](const TraceLine& line) { return line.main && line.rank == rank; });
  HETSGD_CHECK(found != processes.end());
  return *found;
}

std::string Timeline::algorithm() const { return config.value("algorithm", ""); }

void write_timeline(const std::string& path, const Trace& trace, const Record& record) {
  std::vector<const RecordedLine*> processes = trace.recorded();
  // The waits for started calls have their times.
  std::erase_if(processes,
                [](const RecordedLine* line) { return line->name.ends_with(kStartedCalls); });
  const std::vector<const RecordedLine*> services = trace.recorded_services();
  processes.insert(processes.end(), services.begin(), services.end());
  json header = {{std::string(kFormatKey), kTimelineVersion},
                 {"config", record.config},
                 {"cluster", record.cluster},
                 {"virtual", record.virtual_time},
                 {"clock_resolution_s", record.virtual_time ? 0.0 : kRealResolution.count()},
                 {"stragglers", record.stragglers},
                 {"device_profile", record.device_profile},
                 {"server_profile", record.server_profile},
                 {"network", record.network},
                 {"charge", record.charge},
                 {"workers", record.workers.size()},
                 {"elapsed_s", record.elapsed.count()}};
  if (!record.failures.empty()) header["lost_workers"] = record.failures.size();
  OutputFile file(path, {.what = "the timeline"});
  const auto write = [&file](std::string_view bytes) { file.write(bytes); };
  std::optional<ZstdWriter> compressed;
  if (!path.ends_with(".jsonl")) compressed.emplace(write);
  const auto sink = [&](std::string_view text) {
    compressed ? compressed->add(text) : write(text);
  };
  TimelineWriter(processes, services.size(), record.virtual_time, sink).write(std::move(header));
  if (compressed) compressed->finish();
  file.commit();
}

Timeline read_timeline(const std::string& path, const std::string& columns) {
  const std::string bytes = read_file(path, {.noun = "timeline"}, kMostTimelineBytes);
  if (bytes.empty()) throw data_error("{}: found an empty file, expected a timeline", path);
  // A file that ends within the first bytes of zstd is no step times.
  bool cut = std::string_view("\x28\xB5\x2F\xFD").starts_with(bytes);
  const std::string unpacked = cut ? std::string() : decompress_start(bytes, path, cut);
  const std::string_view text = behind_mark(unpacked);
  if (!text.empty() && text.front() != '{') return read_step_times(path, text, columns);
  if (!columns.empty()) {
    refuse("--columns", quote(columns) + " with the record " + path, "none: a record names its own",
           "they are for CSV files of other tools");
  }
  if (text.find('\n') == std::string_view::npos) {
    throw with_hint(
        data_error("{}: found {} bytes of a record that is cut off within its first {}, "
                   "expected at least its header and one round of all workers",
                   path, bytes.size(), text.empty() ? "block of compressed lines" : "line"),
        "record the run again");
  }
  return TimelineReader(path, cut).read(text);
}

}  // namespace hetsgd
