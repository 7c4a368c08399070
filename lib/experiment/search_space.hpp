// Which values options take together: a grid of lists, or points drawn from ranges.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/json_fields.hpp"
#include "experiment/configured_run.hpp"

namespace hetsgd {

enum class Distribution { list, uniform, log_uniform, int_uniform, int_log_uniform };

// One dimension: an option, or several that advance together (zipped lists).
struct SearchAxis {
  std::vector<std::string> names;
  std::vector<std::vector<nlohmann::json>> rows =
      {};  // list: one value for each name; at least one row
  Distribution distribution = Distribution::list;
  double min = 0, max = 0;  // of a distribution other than list, both included
  std::string place;

  // The values at `u` in [0, 1), which is uniform over the list or by the distribution.
  std::vector<nlohmann::json> at(double u) const;
};

enum class SearchMethod { grid, random, quasi_random };

struct SearchSpace {
  std::vector<SearchAxis> axes;
  SearchMethod method = SearchMethod::grid;
  std::uint64_t points = 0;  // of random and quasi-random ones
  std::uint64_t seed = 1;

  // How many points there are; a double, because a grid may have more than anybody can count.
  double size() const;
  // Point `index`: a value for every option. A grid's last axis moves first. Quasi-random ones are
  // the additive recurrence of Roberts (2018), which generalises the golden ratio, with a start
  // that the seed draws: u_k = (s_k + i / phi^(k+1)) mod 1, where phi^(d+1) = phi + 1 in d
  // dimensions.
  std::vector<Setting> point(std::uint64_t index) const;
};

// From the tables `parameters`, `zip` and `search` of a specification, or of its tuning. Whether
// there are such options is for others to say. Errors: usage.
SearchSpace read_search_space(const JsonFields& table);

// [0.1, 0.4, ...] from FROM to TO with equal ratios; those between rounded to three significant
// digits: what people would have typed. 0 < from < to, count >= 2.
std::vector<double> geometric_values(double from, double to, std::size_t count);

}  // namespace hetsgd
