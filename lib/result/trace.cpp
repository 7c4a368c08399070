#include "result/trace.hpp"

#include <nlohmann/json.hpp>

namespace hetsgd {

nlohmann::json trace_json(const Trace& trace) {
  nlohmann::json events = nlohmann::json::array();
  int thread = 0;
  for (const TraceLine* line : trace.lines()) {
    events.push_back({{"ph", "M"},
                      {"name", "thread_name"},
                      {"pid", 0},
                      {"tid", thread},
                      {"args", {{"name", line->name}}}});
    for (const TraceRange& range : line->ranges) {
      events.push_back({{"ph", "X"},
                        {"name", range.name},
                        {"cat", range.category},
                        {"pid", 0},
                        {"tid", thread},
                        {"ts", 1e6 * range.begin.count()},
                        {"dur", 1e6 * (range.end - range.begin).count()}});
    }
    ++thread;
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
}

}  // namespace hetsgd
