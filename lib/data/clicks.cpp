#include "data/clicks.hpp"

#include <utility>

#include "core/error.hpp"
#include "data/generate_ctr.hpp"
#include "data/select.hpp"

namespace hetsgd {

namespace {

// The clicks as a data set with the given vocabulary.
ParsedData number(RawClicks&& clicks, const CategoricalFields<View>& fields,
                  const LoadOptions& options) {
  ParsedData parsed;
  parsed.data = number_clicks(std::move(clicks), fields, options.threads).build();
  parsed.report.label_names = {"0", "1"};
  return parsed;
}

}  // namespace

ParsedData with_vocabulary(RawClicks&& clicks, const std::string& path,
                           const LoadOptions& options) {
  if (options.vocabulary_of) {
    const Dataset& training = *options.vocabulary_of;
    if (training.fields.count() != clicks.field_count ||
        training.dense.columns != clicks.dense_columns) {
      throw data_error(
          "{}: found {} dense columns and {} fields, expected {} and {} as in the training data",
          path, clicks.dense_columns, clicks.field_count, training.dense.columns,
          training.fields.count());
    }
    const std::span<const Index> first = training.fields.first;
    for (std::size_t f = 0; f + 1 < first.size(); ++f) {
      if (first[f + 1] - first[f] > kFirstCategory || !training.fields.value.empty()) continue;
      throw data_error("{}: field {} of the training data has {} categories, expected more than {}",
                       path, f + 1, first[f + 1] - first[f], kFirstCategory);
    }
    return number(std::move(clicks), training.fields, options);
  }
  Vocabulary vocabulary = make_vocabulary(clicks, held_out_rows(clicks.rows(), options.held_out),
                                          options.vocabulary, options.threads, path);
  ParsedData parsed = number(std::move(clicks), view_of(vocabulary.fields), options);
  parsed.report.distinct_values = std::move(vocabulary.distinct);
  return parsed;
}

ParsedData generate_clicks(const std::string& spec, const LoadOptions& options) {
  const ClickGenerator generator(parse_click_spec(spec), options.threads);
  RawClicks clicks = generator.part(options.part, options.threads);
  ParsedData parsed;
  if (options.part == DataPart::train || options.vocabulary_of) {
    parsed = with_vocabulary(std::move(clicks), spec, options);
  } else {
    Vocabulary vocabulary = make_vocabulary(generator.part(DataPart::train, options.threads), {},
                                            options.vocabulary, options.threads, spec);
    parsed = number(std::move(clicks), view_of(vocabulary.fields), options);
    parsed.report.distinct_values = std::move(vocabulary.distinct);
  }
  parsed.data.name = generator.options().name;
  parsed.data.content_hash = click_hash(generator.options(), options.part);
  parsed.report.format = DataFormat::generated;
  return parsed;
}

}  // namespace hetsgd
