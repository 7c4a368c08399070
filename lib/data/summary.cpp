#include "data/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace hetsgd {

namespace {

RowCounts count_rows(const std::vector<std::uint64_t>& begin) {
  RowCounts counts;
  counts.total = begin.back();
  counts.min = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t row = 0; row + 1 < begin.size(); ++row) {
    const std::uint64_t count = begin[row + 1] - begin[row];
    counts.min = std::min(counts.min, count);
    counts.max = std::max(counts.max, count);
  }
  counts.mean = static_cast<double>(counts.total) / static_cast<double>(begin.size() - 1);
  return counts;
}

std::uint64_t count_distinct(const std::vector<Index>& indices, std::uint64_t columns) {
  std::vector<bool> seen(columns);
  for (const Index index : indices) seen[index] = true;
  return static_cast<std::uint64_t>(std::count(seen.begin(), seen.end(), true));
}

template <class T>
std::uint64_t bytes_in(const std::vector<T>& values) {
  return values.size() * sizeof(T);
}

// Row starts: from 0, never descending, up to the number of entries. Only then the rows may be
// read.
bool check_begin(const std::vector<std::uint64_t>& begin, std::uint64_t entries, const char* what,
                 std::vector<std::string>& findings) {
  if (!begin.empty() && begin.front() == 0 && begin.back() == entries &&
      std::is_sorted(begin.begin(), begin.end())) {
    return true;
  }
  findings.push_back(fmt::format("the rows' {} do not tile the {} entries", what, entries));
  return false;
}

void check_indices(const std::vector<std::uint64_t>& begin, const std::vector<Index>& indices,
                   Index columns, const char* what, std::vector<std::string>& findings) {
  std::string order, range;
  for (std::uint64_t row = 0; row + 1 < begin.size(); ++row) {
    for (std::uint64_t k = begin[row]; k < begin[row + 1]; ++k) {
      if (k > begin[row] && indices[k] <= indices[k - 1] && order.empty()) {
        order = fmt::format("row {}: {} index {} after {}: must ascend without repetition", row + 1,
                            what, indices[k], indices[k - 1]);
      }
      if (indices[k] >= columns && range.empty()) {
        range = fmt::format("row {}: {} index {} is out of range: there are {} columns", row + 1,
                            what, indices[k], columns);
      }
    }
  }
  if (!order.empty()) findings.push_back(std::move(order));
  if (!range.empty()) findings.push_back(std::move(range));
}

}  // namespace

DatasetSummary summarise(const Dataset& data, const LoadReport& report) {
  DatasetSummary s;
  s.name = data.name;
  s.path = report.path;
  s.format = report.format;
  s.index_base = report.index_base;
  s.task = data.task;
  s.content_hash = data.content_hash;
  s.file_bytes = report.file_bytes;
  s.memory_bytes = bytes_in(data.feature_begin) + bytes_in(data.feature_index) +
                   bytes_in(data.feature_value) + bytes_in(data.label_begin) +
                   bytes_in(data.label_index);
  s.rows = data.rows();
  s.feature_count = data.feature_count;
  s.label_count = data.label_count;
  s.features = count_rows(data.feature_begin);
  s.labels = count_rows(data.label_begin);
  s.density = static_cast<double>(data.nonzeros()) /
              (static_cast<double>(s.rows) * static_cast<double>(s.feature_count));
  if (!data.feature_value.empty()) {
    const auto [low, high] =
        std::minmax_element(data.feature_value.begin(), data.feature_value.end());
    s.value_min = *low;
    s.value_max = *high;
  }
  s.features_seen = count_distinct(data.feature_index, data.feature_count);
  s.labels_seen = count_distinct(data.label_index, data.label_count);
  s.rows_without_labels = report.rows_without_labels;
  s.rows_without_features = report.rows_without_features;
  s.label_names = report.label_names;
  return s;
}

std::vector<std::string> verify(const Dataset& data) {
  std::vector<std::string> findings;
  const bool features =
      check_begin(data.feature_begin, data.feature_index.size(), "features", findings);
  const bool labels = check_begin(data.label_begin, data.label_index.size(), "labels", findings);
  if (data.feature_value.size() != data.feature_index.size()) {
    findings.push_back(fmt::format("{} feature values for {} feature indices",
                                   data.feature_value.size(), data.feature_index.size()));
  }
  if (data.feature_begin.size() != data.label_begin.size()) {
    findings.push_back(fmt::format("{} rows of features, {} rows of labels",
                                   static_cast<std::int64_t>(data.feature_begin.size()) - 1,
                                   static_cast<std::int64_t>(data.label_begin.size()) - 1));
  }
  if (data.feature_begin.size() < 2) findings.emplace_back("there is no row");
  if (data.feature_begin.size() > std::size_t{1} << 32)
    findings.emplace_back("too many rows for an index");
  if (data.feature_count == 0) findings.emplace_back("there is no feature column");
  if (data.label_count == 0) findings.emplace_back("there is no label column");
  if (data.task == Task::binary && data.label_count != 1) {
    findings.push_back(fmt::format("binary data have 1 label column, not {}", data.label_count));
  }
  if (features)
    check_indices(data.feature_begin, data.feature_index, data.feature_count, "feature", findings);
  if (labels)
    check_indices(data.label_begin, data.label_index, data.label_count, "label", findings);
  if (labels && data.task == Task::multiclass && count_rows(data.label_begin).max > 1) {
    findings.emplace_back("multi-class data have at most one label per row");
  }
  const auto bad = std::find_if(data.feature_value.begin(), data.feature_value.end(),
                                [](float value) { return !std::isfinite(value); });
  if (bad != data.feature_value.end()) {
    findings.push_back(fmt::format("entry {}: the feature value {} is not finite",
                                   bad - data.feature_value.begin() + 1, *bad));
  }
  return findings;
}

}  // namespace hetsgd
