// Results made by hand, as compare reads them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
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

// The "tuning" of a result whose learning rate is the best of so many trials.
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
