#include "experiment/search_space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "core/error.hpp"
#include "core/random.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

// The names in the order of the enumerations. `list` has no name, because it is no range.
const std::vector<std::string> kDistributions = {"uniform", "log_uniform", "int_uniform",
                                                 "int_log_uniform"};
const std::vector<std::string> kMethods = {"grid", "random", "quasi_random"};

std::vector<std::vector<json>> rows_of(const json& values) {
  std::vector<std::vector<json>> rows;
  for (const json& value : values) rows.push_back({value});
  return rows;
}

SearchAxis range_axis(const JsonFields& table) {
  SearchAxis axis;
  axis.min = table.number("min");
  axis.max = table.number("max");
  axis.distribution =
      static_cast<Distribution>(1 + table.choice("distribution", kDistributions, 0));
  if (!(axis.min < axis.max)) table.refuse("max", fmt::format("more than min, {}", axis.min));
  const bool whole = axis.distribution == Distribution::int_uniform ||
                     axis.distribution == Distribution::int_log_uniform;
  const bool logarithmic = axis.distribution == Distribution::log_uniform ||
                           axis.distribution == Distribution::int_log_uniform;
  if (logarithmic && axis.min <= 0)
    table.refuse("min", "a number above 0 for a logarithmic distribution");
  for (const char* const key : {"min", "max"}) {
    if (whole && table.number(key) != std::floor(table.number(key))) {
      table.refuse(key, "a whole number");
    }
  }
  return axis;
}

SearchAxis parameter_axis(const JsonFields& parameters, const std::string& name) {
  if (!parameters.tree().at(name).is_object()) {
    parameters.refuse(name, "a table such as {values = [1, 2]} or {min = 0.1, max = 1}");
  }
  const JsonFields table = parameters.object(name);
  SearchAxis axis;
  if (table.has("values")) {
    table.allow({"values", "widen"});
    axis.rows = rows_of(table.list("values"));
  } else if (table.has("from")) {
    table.allow({"from", "to", "count", "widen"});
    const double from = table.number("from"), to = table.number("to");
    if (from <= 0) table.refuse("from", "a number above 0");
    if (to <= from) table.refuse("to", fmt::format("a number above from, {}", from));
    const int count = table.whole_number("count", {2, 1000, ""}, 0);
    if (count == 0) table.refuse("count", "a whole number from 2 to 1000");
    axis.rows = rows_of(geometric_values(from, to, static_cast<std::size_t>(count)));
  } else if (table.has("min") || table.has("max")) {
    table.allow({"min", "max", "distribution"});
    axis = range_axis(table);
  } else {
    table.allow({"values", "from", "to", "count", "widen", "min", "max", "distribution"});
    table.refuse("values", "a list of values, or from, to and count, or min and max");
  }
  axis.widen = table.count("widen", 1, 0);
  const auto is_positive = [](const auto& row) { return row[0].is_number() && row[0] > 0; };
  if (axis.widen > 0 && (axis.rows.size() < 2 || !std::ranges::all_of(axis.rows, is_positive))) {
    table.refuse("widen", "none, because it takes two values above 0 or more to have a ratio");
  }
  axis.names = {name};
  axis.place = parameters.place(name);
  return axis;
}

SearchAxis zip_axis(const JsonFields& table) {
  SearchAxis axis;
  axis.place = table.place();
  for (const auto& [name, values] : table.tree().items()) {
    const std::size_t length = table.list(name).size();
    if (axis.names.empty()) axis.rows.resize(length);
    if (axis.rows.size() != length) {
      table.refuse(
          name, fmt::format("{} values, as many as {} has", axis.rows.size(), axis.names.front()));
    }
    axis.names.push_back(name);
    for (std::size_t i = 0; i < length; ++i) axis.rows[i].push_back(values[i]);
  }
  if (axis.names.empty()) refuse(table.place(), "no list", "at least one");
  return axis;
}

void check_names(const SearchSpace& space) {
  std::map<std::string, std::string> seen;
  for (const SearchAxis& axis : space.axes) {
    for (const std::string& name : axis.names) {
      const auto [other, fresh] = seen.try_emplace(name, axis.place);
      if (!fresh) refuse(axis.place, name + ", which stands at " + other->second, "it once");
    }
  }
}

// The root of x^(d + 1) = x + 1, by its fixed point.
double harmonious_number(std::size_t dimensions) {
  double x = 2;
  for (int i = 0; i < 100; ++i) x = std::pow(1 + x, 1.0 / static_cast<double>(dimensions + 1));
  return x;
}

double fraction(double x) { return x - std::floor(x); }

// With three significant digits.
double as_typed(double x) { return std::strtod(fmt::format("{:.3g}", x).c_str(), nullptr); }

}  // namespace

std::vector<double> geometric_values(double from, double to, std::size_t count) {
  std::vector<double> values = {from};
  const long double ratio = static_cast<long double>(to) / from;  // may exceed a double
  for (std::size_t i = 1; i + 1 < count; ++i) {
    const long double share = static_cast<long double>(i) / static_cast<long double>(count - 1);
    const auto exact = static_cast<double>(from * std::pow(ratio, share));
    values.push_back(std::clamp(as_typed(exact), from, to));
  }
  values.push_back(to);
  return values;
}

ListEnd end_of_list(std::vector<json> values, const json& value) {
  std::ranges::sort(values);
  const bool is_first = !values.empty() && value == values.front();
  const bool is_last = !values.empty() && value == values.back();
  if (!value.is_number() || !(is_first || is_last)) return {};
  if (values.size() < 2) return {true};
  if (is_first) std::ranges::reverse(values);
  const double last = values.back(), before = values[values.size() - 2];
  if (!(last > 0 && before > 0)) return {true};
  return {true, as_typed(last * (last / before))};
}

std::vector<json> SearchAxis::at(double u) const {
  const double log_min = std::log(std::max(min, 1e-300));
  switch (distribution) {
    case Distribution::list:
      return rows[static_cast<std::size_t>(u * static_cast<double>(rows.size()))];
    case Distribution::uniform:
      return {min + u * (max - min)};
    case Distribution::log_uniform:
      return {std::exp(log_min + u * (std::log(max) - log_min))};
    case Distribution::int_uniform:
      return {static_cast<std::int64_t>(std::min(max, std::floor(min + u * (max - min + 1))))};
    case Distribution::int_log_uniform: {
      const double value = std::floor(std::exp(log_min + u * (std::log(max + 1) - log_min)));
      return {static_cast<std::int64_t>(std::clamp(value, min, max))};
    }
  }
  return {};
}

double SearchSpace::size() const {
  if (method != SearchMethod::grid) return static_cast<double>(points);
  double count = 1;
  for (const SearchAxis& axis : axes) count *= static_cast<double>(axis.rows.size());
  return count;
}

std::vector<Setting> SearchSpace::point(std::uint64_t index) const {
  std::vector<Setting> settings;
  RandomStream random(seed, Purpose::search, index);
  RandomStream starts(seed, Purpose::search, 0, 1);
  const double phi = harmonious_number(axes.size());
  std::uint64_t rest = index;
  for (std::size_t i = axes.size(); i-- > 0;) {
    const SearchAxis& axis = axes[i];
    std::vector<json> values;
    if (method == SearchMethod::grid) {
      values = axis.rows[rest % axis.rows.size()];
      rest /= axis.rows.size();
    } else if (method == SearchMethod::random) {
      values = axis.at(random.uniform());
    } else {
      const double step = std::pow(phi, -static_cast<double>(i + 1));
      values = axis.at(fraction(starts.uniform() + step * static_cast<double>(index + 1)));
    }
    for (std::size_t n = 0; n < axis.names.size(); ++n) {
      settings.push_back({axis.names[n], values[n], OptionSource::flag, axis.place});
    }
  }
  return settings;
}

SearchSpace read_search_space(const JsonFields& table) {
  SearchSpace space;
  const JsonFields parameters = table.object_or_empty("parameters");
  for (const auto& [name, value] : parameters.tree().items()) {
    space.axes.push_back(parameter_axis(parameters, name));
  }
  for (const JsonFields& zip : table.objects_or_none("zip")) space.axes.push_back(zip_axis(zip));
  check_names(space);

  const JsonFields search = table.object_or_empty("search");
  search.allow({"method", "points", "seed"});
  space.method = static_cast<SearchMethod>(search.choice("method", kMethods, 0));
  space.points = search.count("points", 1, 0);
  space.seed = search.count("seed", 0, 1);
  const bool grid = space.method == SearchMethod::grid;
  if (!grid && space.points == 0) search.refuse("points", "the number of points to draw");
  if (grid && space.points > 0)
    search.refuse("points", "none, because a grid has all of its points");
  if (!grid && space.axes.empty())
    refuse(search.place(), "no parameters to search", "at least one");
  for (const SearchAxis& axis : space.axes) {
    if (!grid || axis.distribution == Distribution::list) continue;
    refuse(axis.place, "a range", "values, which a grid needs",
           "[search] method = \"random\" or \"quasi_random\" draws from ranges");
  }
  return space;
}

}  // namespace hetsgd
