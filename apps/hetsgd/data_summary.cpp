#include "data_summary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

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

void add_tokens(const DatasetSummary& s, const TextCounts& counts, Row& facts) {
  facts.show("tokens", fmt::format("{} of {} kinds", s.tokens, s.token_kinds))
      .show("targets", counts_text(s.token_targets))
      .keep("tokens", {{"kinds", s.token_kinds},
                       {"text", s.tokens},
                       {"targets_per_row", counts_json(s.token_targets)},
                       {"bytes_of_targets", s.token_bytes},
                       {"empty_lines", counts.empty_lines},
                       {"split_lines", counts.split_lines},
                       {"unknown_words", counts.unknown},
                       {"dropped_returns", counts.returns}});
  for (const std::string& remark : remarks_on(counts)) facts.show("reading", remark);
}

// Losses in nats per target.
void add_bounds(const LanguageBounds& bounds, std::uint64_t kinds, Row& facts) {
  const double uniform = std::log(static_cast<double>(kinds));
  facts.show("best loss", fmt::format("{:.4f} nats per target on the test part", bounds.truth))
      .show("loss without context",
            fmt::format("{:.4f}; {:.4f} if all tokens are taken as equally likely",
                        bounds.context[0], uniform))
      .show("with 1 and 2 tokens of context",
            fmt::format("at least {:.4f} and {:.4f}", bounds.context[1], bounds.context[2]))
      .keep("bounds", {{"truth", bounds.truth},
                       {"uniform", uniform},
                       {"context_0", bounds.context[0]},
                       {"context_1", bounds.context[1]},
                       {"context_2", bounds.context[2]}});
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
// images, sequences, tokens); the JSON has all.
Row facts_of(const DatasetSummary& s, const LoadReport& report) {
  const bool labels = s.token_kinds == 0;
  const bool sparse = labels && s.fields.empty() && s.images.size() == 0 && s.frame_numbers == 0;
  const std::string hash = fmt::format("xxh3:{:016x}", s.content_hash);
  Row facts;
  const auto show_if = [&](bool applies, const char* heading, std::string text) {
    if (applies) facts.show(heading, std::move(text));
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
  if (s.token_kinds > 0) add_tokens(s, report.text, facts);
  show_if(sparse, "features", fmt::format("{} ({} occur)", s.feature_count, s.features_seen));
  show_if(labels, "labels", fmt::format("{} ({} occur)", s.label_count, s.labels_seen));
  facts.keep("features", s.feature_count)
      .keep("features_seen", s.features_seen)
      .keep("labels", s.label_count)
      .keep("labels_seen", s.labels_seen);
  show_if(sparse, "nonzeros", counts_text(s.features));
  show_if(labels, "true labels", counts_text(s.labels));
  facts.keep("features_per_row", counts_json(s.features))
      .keep("labels_per_row", counts_json(s.labels));
  show_if(sparse, "density", fmt::format("{:.3g}", s.density));
  show_if(sparse, "values", fmt::format("{:.6g} to {:.6g}", s.value_min, s.value_max));
  facts.keep("density", s.density)
      .keep("value_min", s.value_min)
      .keep("value_max", s.value_max)
      .keep("rows_without_labels", s.rows_without_labels);
  show_if(labels, "rows without labels", fmt::format("{}", s.rows_without_labels));
  show_if(sparse, "rows without features", fmt::format("{}", s.rows_without_features));
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

void print_summary(const DatasetSummary& s, const LoadReport& report, const KnownLimits& limits,
                   const Printer& printer) {
  Row facts = facts_of(s, report);
  if (limits.clicks) add_ceilings(*limits.clicks, facts);
  if (limits.language) add_bounds(*limits.language, s.token_kinds, facts);
  if (printer.json()) return printer.print(facts.kept());
  std::string text = property_table(facts).format(OutputFormat::text);
  if (!s.fields.empty()) text += "\n" + table_of(field_rows(s)).format(OutputFormat::text);
  printer.print(text);
}

}  // namespace hetsgd
