// Histograms of a group: the counts of all its runs together.
#include <cmath>
#include <map>
#include <string>

#include "result/report/parts.hpp"

namespace hetsgd::report {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostBins = 80;
constexpr int kShareDigits = 4;

using Counts = std::map<std::int64_t, double>;

// The smallest value up to which at least this share of the counts lies.
std::int64_t quantile(const Counts& counts, double total, double share) {
  double sum = 0;
  for (const auto& [value, count] : counts) {
    sum += count;
    if (sum >= share * total) return value;
  }
  return counts.rbegin()->first;
}

// Bins of equal width from the smallest value on, named by their lower ends.
json histogram(const Counts& counts) {
  const std::int64_t first = counts.begin()->first, last = counts.rbegin()->first;
  const std::int64_t width =
      counts.size() <= static_cast<std::size_t>(kMostBins) ? 1 : (last - first) / kMostBins + 1;
  double total = 0;
  Counts bins;
  for (const auto& [value, count] : counts) {
    total += count;
    bins[first + (value - first) / width * width] += count;
  }
  json document = {{"value", json::array()},
                   {"share", json::array()},
                   {"count", total},
                   {"width", width},
                   {"p50", quantile(counts, total, 0.5)},
                   {"p95", quantile(counts, total, 0.95)},
                   {"max", last}};
  for (const auto& [value, count] : bins) {
    document["value"].push_back(value);
    document["share"].push_back(rounded(count / total, kShareDigits));
  }
  return document;
}

}  // namespace

nlohmann::json histograms(const GroupResults& results) {
  std::map<std::string, Counts> all;
  for (const json* result : results) {
    for (const auto& [name, counts] : (*result)["histograms"].items()) {
      for (const auto& [value, count] : counts.items()) {
        if (count > 0) all[name][std::stoll(value)] += count.get<double>();
      }
    }
  }
  json document = json::object();
  for (const auto& [name, counts] : all) document[name] = histogram(counts);
  return document;
}

}  // namespace hetsgd::report
