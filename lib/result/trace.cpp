#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "result/formats.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

double microseconds(Seconds time) { return 1e6 * time.count(); }

json complete_event(std::size_t thread, const std::string& category, const std::string& name,
                    Seconds begin, Seconds duration) {
  return {{"ph", "X"},
          {"name", name},
          {"cat", category},
          {"pid", 0},
          {"tid", thread},
          {"ts", microseconds(begin)},
          {"dur", microseconds(duration)}};
}

std::string name_of(const WaitedFor& whom) {
  return whom.rank >= 0 ? fmt::format("worker {}", whom.rank) : "service " + whom.service;
}

json arguments(const RecordedCall& range, const WaitedFor* whom) {
  json arguments = json::object();
  if (range.category == "off_clock") return arguments;
  if (range.steps > 0) arguments["iteration"] = range.steps - 1;
  if (range.samples > 0) arguments["batch"] = range.samples;
  if (range.bytes > 0) arguments["bytes"] = range.bytes;
  if (range.delay > Seconds(0)) arguments["delay_s"] = range.delay.count();
  if (range.category == "compute") return arguments;
  const Seconds wait = whom != nullptr ? whom->wait : range.wait;
  arguments["wait_s"] = wait.count();
  arguments["transfer_s"] = std::max(0.0, (range.end - range.begin - wait).count());
  if (whom != nullptr) arguments["waited_for"] = name_of(*whom);
  return arguments;
}

// Adds slices inside of the range's own. A wait comes before the transfer. In a call of a service
// it is between the transfers of request and reply. A delay comes last.
void add_parts(json& events, std::size_t thread, const RecordedCall& range, const WaitedFor* whom) {
  const Seconds whole = range.end - range.begin;
  if (range.category == "compute") {
    const Seconds delay = std::clamp(range.delay, Seconds(0), whole);
    if (delay <= Seconds(0)) return;
    events.push_back(complete_event(thread, "delay", "delay", range.end - delay, delay));
    return;
  }
  const Seconds wait = std::clamp(whom != nullptr ? whom->wait : range.wait, Seconds(0), whole);
  if (wait <= Seconds(0) || range.category == "off_clock") return;
  const bool in_the_middle = range.kind == CallKind::service;
  events.push_back(
      complete_event(thread, "wait", whom != nullptr ? "wait for " + name_of(*whom) : "wait",
                     in_the_middle ? range.begin + (whole - wait) / 2 : range.begin, wait));
}

// Adds an arrow from each send to the transfer in its receive. Viewers bind the ends to the slices
// around them.
void add_arrows(json& events, const std::vector<const TraceLine*>& lines,
                const TraceMatches& matches) {
  std::size_t id = 0;
  for (const auto& [sent, received] : matches.messages) {
    const RecordedCall& from = lines[sent.line]->ranges[sent.range];
    const RecordedCall& to = lines[received.line]->ranges[received.range];
    const json common = {{"name", "message"}, {"cat", "message"}, {"pid", 0}, {"id", id++}};
    json start = common, finish = common;
    start.update({{"ph", "s"}, {"tid", sent.line}, {"ts", microseconds(from.begin)}});
    finish.update({{"ph", "f"},
                   {"bp", "e"},
                   {"tid", received.line},
                   {"ts", microseconds(to.begin + std::min(to.wait, to.end - to.begin))}});
    events.push_back(std::move(start));
    events.push_back(std::move(finish));
  }
}

}  // namespace

json trace_json(const Trace& trace) {
  const std::vector<const TraceLine*> lines = trace.lines();
  const TraceMatches matches = match(lines);
  json events = json::array();
  for (std::size_t thread = 0; thread < lines.size(); ++thread) {
    events.push_back({{"ph", "M"},
                      {"name", "thread_name"},
                      {"pid", 0},
                      {"tid", thread},
                      {"args", {{"name", lines[thread]->name}}}});
    for (std::size_t i = 0; i < lines[thread]->ranges.size(); ++i) {
      const RecordedCall& range = lines[thread]->ranges[i];
      const auto found = matches.waits.find({thread, i});
      const WaitedFor* const whom = found == matches.waits.end() ? nullptr : &found->second;
      events.push_back(
          complete_event(thread, range.category, range.name, range.begin, range.end - range.begin));
      if (json about = arguments(range, whom); !about.empty()) {
        events.back()["args"] = std::move(about);
      }
      add_parts(events, thread, range, whom);
    }
  }
  add_arrows(events, lines, matches);
  return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
}

}  // namespace hetsgd
