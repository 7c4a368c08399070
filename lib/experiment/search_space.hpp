// The combinations of option values to run: a grid of lists, or points drawn from ranges.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/json_fields.hpp"
#include "experiment/configured_run.hpp"

namespace hetsgd {

enum class Distribution { list, uniform, log_uniform, int_uniform, int_log_uniform };

// One dimension: an option, or several that advance together (zipped lists).
struct SearchAxis {
  std::vector<std::string> names;
  // list: one value for each name; at least one row
  std::vector<std::vector<nlohmann::json>> rows = {};
  Distribution distribution = Distribution::list;
  double min = 0, max = 0;  // range of other distributions, both included
  // list, of a tuning: the most values that may be added beyond the ends (SweepPlan::widen)
  std::size_t widen = 0;
  std::string place;

  // The values at the quantile `u` in [0, 1) of the distribution; a list is uniform.
  std::vector<nlohmann::json> at(double u) const;
};

enum class SearchMethod { grid, random, quasi_random };

struct SearchSpace {
  std::vector<SearchAxis> axes;
  SearchMethod method = SearchMethod::grid;
  std::uint64_t points = 0;  // for random and quasi-random search
  std::uint64_t seed = 1;

  // The number of points. It is a double, because a grid may exceed 64 bits.
  double size() const;
  // Point `index`, with a value for every option. A grid's last axis moves first. Quasi-random
  // points are the additive recurrence of Roberts (2018), which generalises the golden ratio. The
  // seed draws the start: u_k = (s_k + i / phi^(k+1)) mod 1, where phi^(d+1) = phi + 1 in d
  // dimensions.
  std::vector<Setting> point(std::uint64_t index) const;
};

// Reads the tables `parameters`, `zip` and `search` of a specification, or of its tuning. It does
// not check that the options exist (SettingsReader::check). Throws Error(usage).
SearchSpace read_search_space(const JsonFields& table);

// `count` values from `from` to `to` with equal ratios, such as [0.1, 0.4, ...]. Inner values are
// rounded to three significant digits, as a person would type them. 0 < from < to, count >= 2.
std::vector<double> geometric_values(double from, double to, std::size_t count);

// Whether `value` of an option is the smallest or the largest of its `values` in the points, each
// listed once. Also the next value beyond, with the ratio of the last two, rounded in the same way.
// None: it is within, it is no number, or the last two are not both above 0.
struct ListEnd {
  bool is_end = false;
  std::optional<double> beyond = {};
};
ListEnd end_of_list(std::vector<nlohmann::json> values, const nlohmann::json& value);

}  // namespace hetsgd
