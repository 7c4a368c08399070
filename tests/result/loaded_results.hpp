// Results made by hand, as compare reads them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "result/compare.hpp"
#include "result/records.hpp"

namespace hetsgd::test {

// A result whose p1 passes 0.5 at second `reached` and stays there; 0: never.
inline LoadedResult result_of(const std::string& path, const std::string& algorithm,
                              std::uint64_t seed, std::size_t reached) {
  std::vector<double> p1(11, 0.1);
  for (std::size_t i = reached; reached > 0 && i < p1.size(); ++i) p1[i] = 0.6;
  Record record = record_of(p1, seed);
  record.config["algorithm"] = algorithm;
  return {path, json_of(record)};
}

// One result each, "a", "b", ..., of an algorithm and where it reached the target.
using Reached = std::vector<std::pair<std::string, std::size_t>>;
inline std::vector<LoadedResult> results_of(const Reached& all, std::uint64_t seed = 1) {
  std::vector<LoadedResult> results;
  for (const auto& [algorithm, reached] : all) {
    const std::string path(1, static_cast<char>('a' + results.size()));
    results.push_back(result_of(path, algorithm, seed, reached));
  }
  return results;
}
// The same with the seeds 1 to 6 each, the least number of pairs that can show a difference.
inline std::vector<LoadedResult> families_of(const Reached& all) {
  std::vector<LoadedResult> results;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    for (LoadedResult& each : results_of(all, seed)) results.push_back(std::move(each));
  }
  return results;
}
// The "tuning" of a result whose learning rate is the best of this many trials.
inline nlohmann::json tuning_of(std::size_t trials) {
  nlohmann::json grid = nlohmann::json::array();
  for (std::size_t i = 0; i < trials; ++i) grid.push_back(0.5 * static_cast<double>(i + 1));
  return {{"grid", grid},
          {"seeds", {1}},
          {"trials", trials},
          {"goal", "p1"},
          {"validation", 0.1},
          {"validation_rows", 200},
          {"learning_rate", 1.0},
          {"edge_of_grid", false},
          {"samples_count", 1000},
          {"train_s", 12.5},
          {"differs", nlohmann::json::array()},
          {"file_hash", "xxh3:0000000000000001"}};
}

}  // namespace hetsgd::test
