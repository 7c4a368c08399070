#include "data/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

namespace hetsgd {

namespace {

RowCounts count_rows(std::span<const std::uint64_t> begin) {
  RowCounts counts;
  if (begin.size() < 2) return counts;  // the data lack this group
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

RowCounts count_lengths(std::span<const std::uint32_t> lengths) {
  if (lengths.empty()) return {};  // the data lack this group
  const auto [low, high] = std::ranges::minmax(lengths);
  const std::uint64_t total = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
  return {total, static_cast<double>(total) / static_cast<double>(lengths.size()), low, high};
}

std::uint64_t count_distinct(std::span<const Index> indices, std::uint64_t columns) {
  std::vector<bool> seen(columns);
  for (const Index index : indices) seen[index] = true;
  return static_cast<std::uint64_t>(std::count(seen.begin(), seen.end(), true));
}

std::vector<FieldSummary> summarise_fields(const CategoricalFields<View>& fields,
                                           const LoadReport& report) {
  std::vector<FieldSummary> result(fields.count());
  std::vector<std::uint64_t> count(fields.count() > 0 ? fields.first.back() : 0);
  for (const Index category : fields.category) ++count[category];
  for (std::size_t f = 0; f < fields.count(); ++f) {
    FieldSummary& field = result[f];
    const Index first = fields.first[f], last = fields.first[f + 1];
    const auto rows = static_cast<double>(fields.category.size() / fields.count());
    const auto share = [&](Index category) {
      return first + category < last ? static_cast<double>(count[first + category]) / rows : 0;
    };
    field.categories = last - first;
    for (Index row = first; row < last; ++row) field.seen += count[row] > 0;
    if (f < report.distinct_values.size()) field.distinct = report.distinct_values[f];
    field.missing = share(kMissingCategory);
    field.rare = share(kRareCategory);
  }
  return result;
}

std::uint64_t bytes_in(const CsrRows<View>& rows) {
  return rows.begin.size_bytes() + rows.index.size_bytes() + rows.value.size_bytes();
}

// Checks row starts: from 0, never descending, up to the number of entries. Rows may be read only
// if this holds.
bool check_begin(std::span<const std::uint64_t> begin, std::uint64_t entries, const char* what,
                 std::vector<std::string>& findings) {
  if (!begin.empty() && begin.front() == 0 && begin.back() == entries &&
      std::is_sorted(begin.begin(), begin.end())) {
    return true;
  }
  findings.push_back(fmt::format("the rows' {} do not cover the {} entries", what, entries));
  return false;
}

void check_indices(std::span<const std::uint64_t> begin, std::span<const Index> indices,
                   Index columns, const char* what, std::vector<std::string>& findings) {
  std::string order, range;
  for (std::uint64_t row = 0; row + 1 < begin.size(); ++row) {
    for (std::uint64_t k = begin[row]; k < begin[row + 1]; ++k) {
      if (k > begin[row] && indices[k] <= indices[k - 1] && order.empty()) {
        order = fmt::format("row {}: found {} index {} after {}, expected ascending indices",
                            row + 1, what, indices[k], indices[k - 1]);
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

void check_finite(std::span<const float> values, std::vector<std::string>& findings) {
  const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (bad == values.end()) return;
  findings.push_back(
      fmt::format("entry {}: the value {} is not finite", bad - values.begin() + 1, *bad));
}

void check_sparse(const Dataset& data, std::vector<std::string>& findings) {
  const CsrRows<View>& sparse = data.sparse;
  if (data.feature_count == 0 && sparse.index.empty()) return;  // the data lack this group
  const bool begin = check_begin(sparse.begin, sparse.index.size(), "features", findings);
  if (sparse.value.size() != sparse.index.size()) {
    findings.push_back(fmt::format("found {} feature values for {} feature indices",
                                   sparse.value.size(), sparse.index.size()));
  }
  if (sparse.begin.size() != data.targets.begin.size()) {
    findings.push_back(fmt::format("found {} rows of features and {} rows of labels",
                                   static_cast<std::int64_t>(sparse.begin.size()) - 1,
                                   static_cast<std::int64_t>(data.targets.begin.size()) - 1));
  }
  if (begin) check_indices(sparse.begin, sparse.index, data.feature_count, "feature", findings);
  check_finite(sparse.value, findings);
}

void check_statistics(const Images<View>& images, std::vector<std::string>& findings) {
  const std::span<const float> mean = images.mean, deviation = images.deviation;
  const std::size_t channels = images.size() > 0 ? images.channels : 0;
  if (mean.size() != channels || deviation.size() != channels) {
    findings.push_back(fmt::format("found {} means and {} deviations of channels, expected {}",
                                   mean.size(), deviation.size(), channels));
  }
  check_finite(mean, findings);
  check_finite(deviation, findings);
  if (std::ranges::any_of(deviation, [](float value) { return value <= 0; })) {
    findings.emplace_back("a channel's deviation is not positive");
  }
}

// Frames that are made when read are not checked: they have what their source promises.
void check_sequences(const Dataset& data, std::vector<std::string>& findings) {
  const Sequences<View>& sequences = data.sequences;
  if (sequences.numbers == 0 && sequences.value.empty()) return;  // the data lack this group
  if (sequences.begin.size() != data.targets.begin.size()) {
    findings.push_back(fmt::format("found {} rows of frames and {} rows of labels",
                                   static_cast<std::int64_t>(sequences.begin.size()) - 1,
                                   static_cast<std::int64_t>(data.targets.begin.size()) - 1));
  }
  const std::uint64_t frames =
      data.drawn ? sequences.frames()
                 : sequences.value.size() / std::max<std::uint64_t>(sequences.numbers, 1);
  if (!data.drawn && sequences.value.size() != frames * sequences.numbers) {
    findings.push_back(fmt::format("found {} elements of frames, expected a multiple of {}",
                                   sequences.value.size(), sequences.numbers));
  }
  if (check_begin(sequences.begin, frames, "frames", findings) &&
      std::ranges::adjacent_find(sequences.begin) != sequences.begin.end()) {
    findings.emplace_back("a row has no frame");
  }
  check_finite(sequences.value, findings);
}

// A row may reach only tokens of the text.
void check_tokens(const Dataset& data, std::vector<std::string>& findings) {
  const TokenRows<View>& tokens = data.tokens;
  if ((tokens.vocabulary > 0) != (data.task == Task::tokens)) {
    findings.push_back(fmt::format("found {} kinds of tokens in {} data", tokens.vocabulary,
                                   to_string(data.task)));
  }
  if (tokens.vocabulary == 0 && tokens.token.empty()) return;  // the data lack this group
  if (tokens.vocabulary > kMostTokenKinds || tokens.vocabulary > data.label_count) {
    findings.push_back(fmt::format("found {} kinds of tokens, expected at most {}",
                                   tokens.vocabulary,
                                   std::min<std::uint64_t>(kMostTokenKinds, data.label_count)));
  }
  const std::size_t rows = std::max<std::size_t>(data.targets.begin.size(), 1) - 1;
  if (tokens.begin.size() != rows || tokens.length.size() != rows || tokens.bytes.size() != rows) {
    findings.push_back(fmt::format("found {} places, {} lengths and {} byte counts of {} rows",
                                   tokens.begin.size(), tokens.length.size(), tokens.bytes.size(),
                                   rows));
    return;
  }
  const auto outside = [&](std::uint64_t row) {
    const std::uint64_t taken = std::uint64_t{tokens.length[row]} + 1;
    return tokens.length[row] == 0 || tokens.begin[row] > tokens.token.size() ||
           taken > tokens.token.size() - tokens.begin[row];
  };
  for (std::uint64_t row = 0; row < rows; ++row) {
    if (!outside(row)) continue;
    findings.push_back(
        fmt::format("row {}: found {} tokens at place {}, expected some within a text of {}",
                    row + 1, tokens.length[row], tokens.begin[row], tokens.token.size()));
    break;
  }
  const auto unknown = std::ranges::find_if(
      tokens.token, [&](std::uint16_t token) { return token >= tokens.vocabulary; });
  if (unknown != tokens.token.end()) {
    findings.push_back(fmt::format("place {}: token {} is out of range: there are {} kinds",
                                   unknown - tokens.token.begin(), *unknown, tokens.vocabulary));
  }
}

// Checks the groups that have equally many entries in every row.
void check_dense(const Dataset& data, std::vector<std::string>& findings) {
  const auto check_size = [&](std::size_t found, std::size_t width, const char* what) {
    const std::size_t expected = (std::max<std::size_t>(data.targets.begin.size(), 1) - 1) * width;
    if (found == expected) return true;
    findings.push_back(
        fmt::format("found {} {}, expected {} ({} in each row)", found, what, expected, width));
    return false;
  };
  check_size(data.dense.value.size(), data.dense.columns, "dense values");
  check_finite(data.dense.value, findings);
  check_size(data.images.pixel.size(), data.images.size(), "pixels");
  check_statistics(data.images, findings);
  const auto& [first, category, value] = data.fields;
  if (!std::ranges::is_sorted(first)) findings.emplace_back("the fields' categories do not ascend");
  if (!value.empty() && (first.empty() || value.size() != first.back())) {
    findings.push_back(fmt::format("found a vocabulary of {} values, expected {}", value.size(),
                                   first.empty() ? 0 : first.back()));
  }
  if (!check_size(category.size(), data.fields.count(), "categories")) return;
  for (std::size_t i = 0; i < category.size(); ++i) {
    const std::size_t field = i % data.fields.count();
    if (category[i] >= first[field] && category[i] < first[field + 1]) continue;
    findings.push_back(fmt::format("row {}: found category {} of field {}, expected {} to below {}",
                                   i / data.fields.count() + 1, category[i], field + 1,
                                   first[field], first[field + 1]));
    return;
  }
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
  s.memory_bytes = bytes_in(data.sparse) + bytes_in(data.targets) + data.dense.value.size_bytes() +
                   data.fields.category.size_bytes() + data.fields.value.size_bytes() +
                   data.images.pixel.size_bytes() + data.sequences.begin.size_bytes() +
                   data.sequences.value.size_bytes() + data.tokens.token.size_bytes() +
                   data.tokens.begin.size_bytes() + data.tokens.length.size_bytes() +
                   data.tokens.bytes.size_bytes();
  s.rows = data.rows();
  s.feature_count = data.feature_count;
  s.label_count = data.label_count;
  s.features = count_rows(data.sparse.begin);
  s.labels = count_rows(data.targets.begin);
  if (s.feature_count > 0) {
    s.density = static_cast<double>(data.nonzeros()) /
                (static_cast<double>(s.rows) * static_cast<double>(s.feature_count));
  }
  if (!data.sparse.value.empty()) {
    const auto [low, high] =
        std::minmax_element(data.sparse.value.begin(), data.sparse.value.end());
    s.value_min = *low;
    s.value_max = *high;
  }
  s.features_seen = count_distinct(data.sparse.index, data.feature_count);
  s.labels_seen = count_distinct(data.targets.index, data.label_count);
  s.rows_without_labels = report.rows_without_labels;
  s.rows_without_features = report.rows_without_features;
  s.label_names = report.label_names;
  s.dense_columns = data.dense.columns;
  s.fields = summarise_fields(data.fields, report);
  s.frame_numbers = data.sequences.numbers;
  s.frames = count_rows(data.sequences.begin);
  s.token_kinds = data.tokens.vocabulary;
  s.tokens = data.tokens.token.size();
  s.token_bytes = data.bytes();
  s.token_targets = count_lengths(data.tokens.length);
  s.images = data.images.shape();
  s.channel_means.assign(data.images.mean.begin(), data.images.mean.end());
  s.channel_deviations.assign(data.images.deviation.begin(), data.images.deviation.end());
  return s;
}

std::vector<std::string> verify(const Dataset& data) {
  std::vector<std::string> findings;
  check_sparse(data, findings);
  check_dense(data, findings);
  check_sequences(data, findings);
  check_tokens(data, findings);
  const bool labels =
      check_begin(data.targets.begin, data.targets.index.size(), "labels", findings);
  if (data.targets.begin.size() < 2) findings.emplace_back("there is no row");
  if (data.targets.begin.size() > std::size_t{1} << 32)
    findings.emplace_back("there are 2^32 rows or more");
  if (data.feature_count == 0 && data.dense.columns == 0 && data.fields.count() == 0 &&
      data.images.size() == 0 && !data.has_lengths()) {
    findings.emplace_back("there is no feature column");
  }
  if (data.label_count == 0) findings.emplace_back("there is no label column");
  if (data.task == Task::binary && data.label_count != 1) {
    findings.push_back(fmt::format("binary data have 1 label column, not {}", data.label_count));
  }
  if (labels)
    check_indices(data.targets.begin, data.targets.index, data.label_count, "label", findings);
  if (labels && data.task == Task::multiclass && count_rows(data.targets.begin).max > 1) {
    findings.emplace_back("multi-class data have at most one label per row");
  }
  return findings;
}

}  // namespace hetsgd
