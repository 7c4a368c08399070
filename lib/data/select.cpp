#include "data/select.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "core/random.hpp"
#include "data/source.hpp"

namespace hetsgd {

namespace {

// The seed of every validation split. Samplers deal shards from round 0 of the purpose `partition`,
// so round 1 shares no draw with them, even under the same seed.
constexpr std::uint64_t kSplitSeed = 0x76616c6964617465ULL;
constexpr std::uint32_t kSplitRound = 1;

std::uint64_t part_hash(const Dataset& data, std::span<const Index> rows) {
  std::string bytes(reinterpret_cast<const char*>(&data.content_hash), sizeof data.content_hash);
  bytes.append(reinterpret_cast<const char*>(rows.data()), rows.size_bytes());
  return content_hash(bytes);
}

template <class T>
void append(std::vector<T>& to, std::span<const T> from) {
  to.insert(to.end(), from.begin(), from.end());
}

LoadedData part_of(const LoadedData& all, std::span<const Index> rows) {
  LoadedData part{select_rows(*all.data, rows), all.report};
  part.report.rows_without_labels = part.report.rows_without_features = 0;
  for (std::uint64_t row = 0; row < part.data->rows(); ++row) {
    part.report.rows_without_labels += part.data->labels(row).empty();
    part.report.rows_without_features += part.data->features(row).empty();
  }
  return part;
}

}  // namespace

DatasetPtr select_rows(const Dataset& data, std::span<const Index> rows) {
  HETSGD_CHECK(!rows.empty());
  auto result = std::make_shared<Dataset>();
  result->name = data.name;
  result->content_hash = part_hash(data, rows);
  result->task = data.task;
  result->feature_count = data.feature_count;
  result->label_count = data.label_count;

  std::size_t nonzeros = 0, labels = 0;
  for (const Index row : rows) {
    HETSGD_CHECK_LT(row, data.rows());
    nonzeros += data.features(row).size();
    labels += data.labels(row).size();
  }
  result->feature_begin.reserve(rows.size() + 1);
  result->feature_index.reserve(nonzeros);
  result->feature_value.reserve(nonzeros);
  result->label_begin.reserve(rows.size() + 1);
  result->label_index.reserve(labels);
  for (const Index row : rows) {
    append(result->feature_index, data.features(row));
    append(result->feature_value, data.values(row));
    append(result->label_index, data.labels(row));
    result->feature_begin.push_back(result->feature_index.size());
    result->label_begin.push_back(result->label_index.size());
  }
  return result;
}

DatasetPtr shard_of(const Dataset& data, std::span<const Index> rows) {
  // Just made, and nobody else has it yet.
  auto shard = std::const_pointer_cast<Dataset>(select_rows(data, rows));
  shard->content_hash = data.content_hash;
  shard->whole = data.totals();
  return shard;
}

Dataset outline_of(const Dataset& data, bool labels) {
  Dataset outline;
  outline.task = data.task;
  outline.feature_count = data.feature_count;
  outline.label_count = data.label_count;
  outline.feature_begin.assign(data.rows() + 1, 0);
  if (labels) {
    outline.label_begin = data.label_begin;
    outline.label_index = data.label_index;
  } else {
    outline.label_begin = outline.feature_begin;
  }
  return outline;
}

RowSplit split_rows(std::uint64_t rows, double share) {
  const auto count = static_cast<std::uint64_t>(std::llround(share * static_cast<double>(rows)));
  if (count == 0 || count >= rows) {
    throw usage_error(
        "--validation: {} of {} rows would hold out {}, expected at least one row "
        "and not all",
        share, rows, count);
  }
  const Permutation permutation(rows, kSplitSeed, Purpose::partition, kSplitRound);
  std::vector<bool> is_held_out(rows);
  for (std::uint64_t i = 0; i < count; ++i) is_held_out[permutation(i)] = true;
  RowSplit split;
  split.held_out.reserve(count);
  split.kept.reserve(rows - count);
  for (std::uint64_t row = 0; row < rows; ++row) {
    (is_held_out[row] ? split.held_out : split.kept).push_back(static_cast<Index>(row));
  }
  return split;
}

LoadedPair hold_out(const LoadedData& all, double share) {
  const RowSplit split = split_rows(all.data->rows(), share);
  return {part_of(all, split.kept), part_of(all, split.held_out)};
}

}  // namespace hetsgd
