#include "data/clicks.hpp"

#include <utility>

#include "core/error.hpp"
#include "data/select.hpp"

namespace hetsgd {

ParsedData with_vocabulary(RawClicks&& clicks, const CategoricalFields<View>& fields,
                           const LoadOptions& options) {
  ParsedData parsed;
  parsed.data = number_clicks(std::move(clicks), fields, options.threads).build();
  parsed.report.label_names = {"0", "1"};
  return parsed;
}

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
    return with_vocabulary(std::move(clicks), training.fields, options);
  }
  Vocabulary vocabulary = make_vocabulary(clicks, held_out_rows(clicks.rows(), options.held_out),
                                          options.vocabulary, options.threads, path);
  ParsedData parsed = with_vocabulary(std::move(clicks), view_of(vocabulary.fields), options);
  parsed.report.distinct_values = std::move(vocabulary.distinct);
  return parsed;
}

}  // namespace hetsgd
