#include "result/clocks.hpp"

#include <array>
#include <nlohmann/json.hpp>

namespace hetsgd {

std::string to_string(RunClock clock) {
  static constexpr std::array<const char*, 4> kNames = {"training", "algoperf", "mlperf",
                                                        "dawnbench"};
  return kNames[static_cast<std::size_t>(clock)];
}

RunStart RunStart::of(const Record& record) {
  return {record.virtual_time, record.phases.load_s, record.phases.init_s};
}

RunStart RunStart::of(const nlohmann::json& result) {
  return {result["cluster"]["virtual_time"], result["wall"]["load_s"], result["wall"]["init_s"]};
}

std::optional<double> time_on(RunClock clock, const Evaluation& evaluation, const RunStart& start) {
  switch (clock) {
    case RunClock::training:
      return evaluation.time_s;
    case RunClock::algoperf:
      if (!evaluation.prepare_s) return std::nullopt;
      return evaluation.time_s + *evaluation.prepare_s;
    case RunClock::mlperf:
      return evaluation.wall_s;
    case RunClock::dawnbench:
      if (!evaluation.wall_s) return std::nullopt;
      return start.load_s + start.init_s + evaluation.time_s;
  }
  return std::nullopt;
}

std::string no_time_reason(const RunStart& start) {
  return start.virtual_time ? "simulated: its time is not the host's"
                            : "written before results had this clock";
}

nlohmann::json clocks_json(const Evaluation& evaluation, const RunStart& start) {
  nlohmann::json clocks = nlohmann::json::object();
  for (const RunClock clock : {RunClock::algoperf, RunClock::mlperf, RunClock::dawnbench}) {
    const std::string key = to_string(clock) + "_s";
    if (const auto time = time_on(clock, evaluation, start)) {
      clocks[key] = *time;
    } else {
      clocks[key] = nullptr;
      clocks[key + "_reason"] = no_time_reason(start);
    }
  }
  return clocks;
}

}  // namespace hetsgd
