#include "bench_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text.hpp"
#include "core/version.hpp"
#include "result/environment.hpp"
#include "result/result.hpp"
#include "result/statistics.hpp"

namespace hetsgd {
namespace {

// Bytes over time, and what of it every link must carry at least.
double algbw(const BenchRow& row) {
  return row.time_s > 0 ? static_cast<double>(row.bytes) / row.time_s : 0;
}
double busbw(const BenchFacts& facts, const BenchRow& row) {
  return algbw(row) * facts.collective.bus_factor(facts.workers);
}

}  // namespace

std::string bench_table(const BenchFacts& facts, const std::vector<BenchRow>& rows,
                        TableFormat format) {
  std::vector<std::string> header = {"size(B)",  "count",       "type",        "redop",
                                     "time(us)", "algbw(GB/s)", "busbw(GB/s)", "#wrong"};
  if (facts.real) header.insert(header.end(), {"floor(us)", "time/floor"});
  if (!facts.stragglers.empty()) header.emplace_back("in call(us)");
  Table table(header);
  for (const BenchRow& row : rows) {
    std::vector<std::string> cells = {fmt::format("{}", row.bytes),
                                      fmt::format("{}", row.bytes / sizeof(float)),
                                      "float",
                                      row.op,
                                      fmt::format("{:.2f}", 1e6 * row.time_s),
                                      fmt::format("{:.3f}", 1e-9 * algbw(row)),
                                      fmt::format("{:.3f}", 1e-9 * busbw(facts, row)),
                                      facts.checked ? fmt::format("{}", row.times.wrong) : "-"};
    if (facts.real) {
      cells.push_back(fmt::format("{:.2f}", 1e6 * row.floor.time_s));
      cells.push_back(fmt::format("{:.2f}", row.time_s / row.floor.time_s));
    }
    if (!facts.stragglers.empty()) {
      cells.push_back(fmt::format("{:.2f}", 1e6 * median(row.times.in_call_s)));
    }
    table.add(std::move(cells));
  }
  return table.format(format);
}

nlohmann::json bench_json(const BenchFacts& facts, const std::vector<BenchRow>& rows) {
  const auto if_known = [](bool known, auto value) {
    return known ? nlohmann::json(value) : nlohmann::json();
  };
  nlohmann::json list = nlohmann::json::array();
  for (const BenchRow& row : rows) {
    const auto [least, most] =
        std::minmax_element(row.times.time_s.begin(), row.times.time_s.end());
    list.push_back(
        {{"size_bytes", row.bytes},
         {"count", row.bytes / sizeof(float)},
         {"type", "float"},
         {"redop", row.op},
         {"time_s", {{"median", row.time_s}, {"min", *least}, {"max", *most}}},
         {"in_call_s", median(row.times.in_call_s)},
         {"algbw_bytes_per_s", algbw(row)},
         {"busbw_bytes_per_s", busbw(facts, row)},
         {"wrong", if_known(facts.checked, row.times.wrong)},
         {"peer_bytes_per_s", if_known(row.floor.peer_bytes_per_s > 0, row.floor.peer_bytes_per_s)},
         {"floor_s", if_known(facts.real, row.floor.time_s)}});
  }
  nlohmann::json result = {{"benchmark", facts.collective.name}, {"version", version_json()},
                           {"environment", environment_json()},  {"cluster", facts.cluster},
                           {"workers", facts.workers},           {"devices", facts.devices},
                           {"iterations", facts.iterations},     {"warmup", facts.warmup},
                           {"results", std::move(list)}};
  if (!facts.real) result.update({{"profile", facts.profile}, {"network", facts.network}});
  if (!facts.stragglers.empty()) result["stragglers"] = facts.stragglers;
  escape_bytes(result);
  return result;
}

}  // namespace hetsgd
