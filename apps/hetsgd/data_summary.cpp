#include "data_summary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/text.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

json counts_json(const RowCounts& c) {
  return {{"total", c.total}, {"mean", c.mean}, {"min", c.min}, {"max", c.max}};
}
std::string counts_text(const RowCounts& c) {
  return fmt::format("{} in all; {:.4g} per row ({} to {})", c.total, c.mean, c.min, c.max);
}

std::string share_text(double share) { return fmt::format("{:.2f} %", 100 * share); }

std::vector<Row> field_rows(const DatasetSummary& s) {
  std::vector<Row> rows;
  for (const FieldSummary& field : s.fields) {
    const bool known = field.distinct > 0;
    rows.emplace_back()
        .show("field", fmt::format("C{}", rows.size()))
        .both("categories", "categories", field.categories)
        .both("of them seen", "categories_seen", field.seen)
        .show("distinct values", known ? fmt::format("{}", field.distinct) : "")
        .keep("distinct_values", known ? json(field.distinct) : json())
        .show("missing", share_text(field.missing))
        .keep("missing_share", field.missing)
        .show("rare", share_text(field.rare))
        .keep("rare_share", field.rare);
  }
  return rows;
}

void add_fields(const DatasetSummary& s, Row& facts) {
  std::uint64_t categories = 0, distinct = 0;
  for (const FieldSummary& field : s.fields) {
    categories += field.categories;
    distinct += field.distinct;
  }
  facts.both("dense columns", "dense_columns", s.dense_columns)
      .show("fields", fmt::format("{}, {} categories; {} distinct values in the training part",
                                  s.fields.size(), categories,
                                  distinct > 0 ? fmt::format("{}", distinct) : "unknown"))
      .keep("fields", s.fields.size())
      .keep("categories", categories)
      .keep("per_field", json_of(field_rows(s)));
}

void add_images(const DatasetSummary& s, Row& facts) {
  facts
      .show("images", fmt::format("{}x{}x{} bytes: channels, height, width", s.images.channels,
                                  s.images.height, s.images.width))
      .show("channels",
            fmt::format("means {:.2f}, deviations {:.2f}", fmt::join(s.channel_means, " "),
                        fmt::join(s.channel_deviations, " ")))
      .keep("images", {{"channels", s.images.channels},
                       {"height", s.images.height},
                       {"width", s.images.width},
                       {"channel_means", s.channel_means},
                       {"channel_deviations", s.channel_deviations}});
}

void add_frames(const DatasetSummary& s, Row& facts) {
  facts.show("numbers of a frame", fmt::format("{}", s.frame_numbers))
      .show("frames", counts_text(s.frames))
      .keep("sequences",
            {{"numbers_per_frame", s.frame_numbers}, {"frames_per_row", counts_json(s.frames)}});
}

void add_ceilings(const ClickCeilings& ceilings, Row& facts) {
  const auto add = [&](const char* heading, const char* key, const Ceiling& c) {
    facts
        .show(heading,
              fmt::format("AUC {:.4f}, log loss {:.4f} on the test part", c.auc, c.logloss))
        .keep(key, {{"auc", c.auc}, {"log_loss", c.logloss}});
  };
  add("ceiling", "ceiling", ceilings.all);
  add("ceiling without pairs", "ceiling_without_pairs", ceilings.linear);
  if (ceilings.vocabulary) {
    add("ceiling of the vocabulary", "ceiling_of_vocabulary", *ceilings.vocabulary);
  }
}

// The facts of a data set. The table leaves out facts that do not apply to its kind (fields,
// images, sequences); the JSON has all.
Row facts_of(const DatasetSummary& s, const LoadReport& report) {
  const bool sparse = s.fields.empty() && s.images.size() == 0 && s.frame_numbers == 0;
  const std::string hash = fmt::format("xxh3:{:016x}", s.content_hash);
  Row facts;
  const auto if_sparse = [&](const char* heading, std::string text) {
    if (sparse) facts.show(heading, std::move(text));
  };
  facts.keep("name", s.name)
      .both("path", "path", s.path)
      .show("format",
            fmt::format("{}, index base {}", to_string(s.format), to_string(s.index_base)))
      .keep("format", to_string(s.format))
      .keep("index_base", to_string(s.index_base))
      .both("task", "task", to_string(s.task))
      .both("rows", "rows", s.rows);
  if (!s.fields.empty()) add_fields(s, facts);
  if (s.images.size() > 0) add_images(s, facts);
  if (s.frame_numbers > 0) add_frames(s, facts);
  if_sparse("features", fmt::format("{} ({} occur)", s.feature_count, s.features_seen));
  facts.keep("features", s.feature_count)
      .keep("features_seen", s.features_seen)
      .show("labels", fmt::format("{} ({} occur)", s.label_count, s.labels_seen))
      .keep("labels", s.label_count)
      .keep("labels_seen", s.labels_seen);
  if_sparse("nonzeros", counts_text(s.features));
  facts.keep("features_per_row", counts_json(s.features))
      .show("true labels", counts_text(s.labels))
      .keep("labels_per_row", counts_json(s.labels));
  if_sparse("density", fmt::format("{:.3g}", s.density));
  if_sparse("values", fmt::format("{:.6g} to {:.6g}", s.value_min, s.value_max));
  facts.keep("density", s.density)
      .keep("value_min", s.value_min)
      .keep("value_max", s.value_max)
      .both("rows without labels", "rows_without_labels", s.rows_without_labels);
  if_sparse("rows without features", fmt::format("{}", s.rows_without_features));
  return facts.keep("rows_without_features", s.rows_without_features)
      .keep("label_names", s.label_names)
      .both("content hash", "content_hash", hash)
      .show("size",
            fmt::format("{} on disk, {} in memory", format_bytes(static_cast<double>(s.file_bytes)),
                        format_bytes(static_cast<double>(s.memory_bytes))))
      .keep("file_bytes", s.file_bytes)
      .keep("memory_bytes", s.memory_bytes)
      .show("loaded", fmt::format("in {}{}", format_seconds(Seconds(report.seconds)),
                                  report.from_cache ? " from the cache" : ""));
}

}  // namespace

void print_summary(const DatasetSummary& s, const LoadReport& report,
                   const std::optional<ClickCeilings>& ceilings, const Printer& printer) {
  Row facts = facts_of(s, report);
  if (ceilings) add_ceilings(*ceilings, facts);
  if (printer.json()) return printer.print(facts.kept());
  std::string text = property_table(facts).format(TableFormat::text);
  if (!s.fields.empty()) text += "\n" + table_of(field_rows(s)).format(TableFormat::text);
  printer.print(text);
}

}  // namespace hetsgd
