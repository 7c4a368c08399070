#include "data_summary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/text.hpp"
#include "result/table.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

json counts(const RowCounts& c) {
  return {{"total", c.total}, {"mean", c.mean}, {"min", c.min}, {"max", c.max}};
}

json sparse_json(const DatasetSummary& s) {
  return {{"name", s.name},
          {"path", s.path},
          {"format", to_string(s.format)},
          {"index_base", to_string(s.index_base)},
          {"task", to_string(s.task)},
          {"content_hash", fmt::format("xxh3:{:016x}", s.content_hash)},
          {"file_bytes", s.file_bytes},
          {"memory_bytes", s.memory_bytes},
          {"rows", s.rows},
          {"features", s.feature_count},
          {"labels", s.label_count},
          {"features_per_row", counts(s.features)},
          {"labels_per_row", counts(s.labels)},
          {"density", s.density},
          {"value_min", s.value_min},
          {"value_max", s.value_max},
          {"features_seen", s.features_seen},
          {"labels_seen", s.labels_seen},
          {"rows_without_labels", s.rows_without_labels},
          {"rows_without_features", s.rows_without_features},
          {"label_names", s.label_names}};
}

json fields_json(const DatasetSummary& s) {
  json fields = json::array();
  for (const FieldSummary& field : s.fields) {
    fields.push_back({{"categories", field.categories},
                      {"categories_seen", field.seen},
                      {"distinct_values", field.distinct > 0 ? json(field.distinct) : json()},
                      {"missing_share", field.missing},
                      {"rare_share", field.rare}});
  }
  return fields;
}

json images_json(const DatasetSummary& s) {
  return {{"channels", s.images.channels},
          {"height", s.images.height},
          {"width", s.images.width},
          {"channel_means", s.channel_means},
          {"channel_deviations", s.channel_deviations}};
}

// Of images.
void add_images(const DatasetSummary& s, Table& table) {
  if (s.images.size() == 0) return;
  table.add({"images", fmt::format("{}x{}x{} bytes: channels, height, width", s.images.channels,
                                   s.images.height, s.images.width)});
  table.add(
      {"channels", fmt::format("means {:.2f}, deviations {:.2f}", fmt::join(s.channel_means, " "),
                               fmt::join(s.channel_deviations, " "))});
}

// Of sequences.
json sequences_json(const DatasetSummary& s) {
  return {{"numbers_per_frame", s.frame_numbers}, {"frames_per_row", counts(s.frames)}};
}

json ceiling_json(const Ceiling& c) { return {{"auc", c.auc}, {"log_loss", c.logloss}}; }

std::uint64_t categories(const DatasetSummary& s) {
  std::uint64_t count = 0;
  for (const FieldSummary& field : s.fields) count += field.categories;
  return count;
}

// Of click data.
void add_columns(const DatasetSummary& s, Table& table) {
  if (s.fields.empty()) return;
  std::uint64_t distinct = 0;
  for (const FieldSummary& field : s.fields) distinct += field.distinct;
  table.add({"dense columns", fmt::format("{}", s.dense_columns)});
  table.add({"fields", fmt::format("{}, {} categories; {} distinct values in the training part",
                                   s.fields.size(), categories(s),
                                   distinct > 0 ? fmt::format("{}", distinct) : "unknown")});
}

std::string fields_text(const DatasetSummary& s) {
  if (s.fields.empty()) return "";
  Table table({"field", "categories", "of them seen", "distinct values", "missing", "rare"});
  for (std::size_t f = 0; f < s.fields.size(); ++f) {
    const FieldSummary& field = s.fields[f];
    table.add(
        {fmt::format("C{}", f + 1), fmt::format("{}", field.categories),
         fmt::format("{}", field.seen), field.distinct > 0 ? fmt::format("{}", field.distinct) : "",
         fmt::format("{:.2f} %", 100 * field.missing), fmt::format("{:.2f} %", 100 * field.rare)});
  }
  return "\n" + table.format(TableFormat::text);
}

}  // namespace

json summary_json(const DatasetSummary& s, const std::optional<ClickCeilings>& ceilings) {
  json document = sparse_json(s);
  if (s.images.size() > 0) document["images"] = images_json(s);
  if (s.frame_numbers > 0) document["sequences"] = sequences_json(s);
  if (s.fields.empty()) return document;
  document["dense_columns"] = s.dense_columns;
  document["fields"] = s.fields.size();
  document["categories"] = categories(s);
  document["per_field"] = fields_json(s);
  if (ceilings) {
    document["ceiling"] = ceiling_json(ceilings->all);
    document["ceiling_without_pairs"] = ceiling_json(ceilings->linear);
    if (ceilings->vocabulary) {
      document["ceiling_of_vocabulary"] = ceiling_json(*ceilings->vocabulary);
    }
  }
  return document;
}

std::string summary_text(const DatasetSummary& s, const LoadReport& report,
                         const std::optional<ClickCeilings>& ceilings) {
  Table table({"property", "value"});
  const auto count = [](std::uint64_t n) { return fmt::format("{}", n); };
  const auto row_counts = [](const RowCounts& c) {
    return fmt::format("{} in all; {:.4g} per row ({} to {})", c.total, c.mean, c.min, c.max);
  };
  const bool sparse = s.fields.empty() && s.images.size() == 0 && s.frame_numbers == 0;
  table.add({"path", s.path});
  table.add(
      {"format", fmt::format("{}, index base {}", to_string(s.format), to_string(s.index_base))});
  table.add({"task", std::string(to_string(s.task))});
  table.add({"rows", count(s.rows)});
  add_columns(s, table);
  add_images(s, table);
  if (s.frame_numbers > 0) {
    table.add({"numbers of a frame", count(s.frame_numbers)});
    table.add({"frames", row_counts(s.frames)});
  }
  if (sparse) {
    table.add({"features", fmt::format("{} ({} occur)", s.feature_count, s.features_seen)});
  }
  table.add({"labels", fmt::format("{} ({} occur)", s.label_count, s.labels_seen)});
  if (sparse) {
    table.add({"nonzeros", row_counts(s.features)});
  }
  table.add({"true labels", row_counts(s.labels)});
  if (sparse) {
    table.add({"density", fmt::format("{:.3g}", s.density)});
    table.add({"values", fmt::format("{:.6g} to {:.6g}", s.value_min, s.value_max)});
  }
  table.add({"rows without labels", count(s.rows_without_labels)});
  if (sparse) {
    table.add({"rows without features", count(s.rows_without_features)});
  }
  table.add({"content hash", fmt::format("xxh3:{:016x}", s.content_hash)});
  table.add({"size", fmt::format("{} on disk, {} in memory",
                                 format_bytes(static_cast<double>(s.file_bytes)),
                                 format_bytes(static_cast<double>(s.memory_bytes)))});
  table.add({"loaded", fmt::format("in {}{}", format_seconds(Seconds(report.seconds)),
                                   report.from_cache ? " from the cache" : "")});
  if (ceilings) {
    const auto ceiling = [](const Ceiling& c) {
      return fmt::format("AUC {:.4f}, log loss {:.4f} on the test part", c.auc, c.logloss);
    };
    table.add({"ceiling", ceiling(ceilings->all)});
    table.add({"ceiling without pairs", ceiling(ceilings->linear)});
    if (ceilings->vocabulary) {
      table.add({"ceiling of the vocabulary", ceiling(*ceilings->vocabulary)});
    }
  }
  return table.format(TableFormat::text) + fields_text(s);
}

}  // namespace hetsgd
