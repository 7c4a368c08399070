#include "data/labels.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {

namespace {

using Number = std::int32_t;

Number number_of(Index label) { return static_cast<Number>(label); }

Number number_of(const std::string& name) {
  Number number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || end != name.data() + name.size()) {
    refuse("label name", quote(name), "an integer",
           "take the names from the training data's report", ExitCode::data);
  }
  return number;
}

std::vector<Number> distinct_numbers(const std::vector<Index>& labels) {
  std::vector<Number> numbers;
  if (labels.empty()) return numbers;
  const auto [low, high] = std::minmax_element(
      labels.begin(), labels.end(), [](Index a, Index b) { return number_of(a) < number_of(b); });
  const std::int64_t lowest = number_of(*low);
  const std::int64_t range = number_of(*high) - lowest + 1;
  if (range <= (std::int64_t{1} << 20)) {  // nearly always: a table instead of sorting
    std::vector<char> seen(static_cast<std::size_t>(range), 0);
    for (const Index label : labels) seen[static_cast<std::size_t>(number_of(label) - lowest)] = 1;
    for (std::int64_t k = 0; k < range; ++k) {
      if (seen[static_cast<std::size_t>(k)] != 0)
        numbers.push_back(static_cast<Number>(lowest + k));
    }
    return numbers;
  }
  numbers.assign(labels.begin(), labels.end());
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

bool is_subset(const std::vector<Number>& numbers, Number low, Number high) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [&](Number n) { return n == low || n == high; });
}

// The texts of the negative and the positive class if the numbers look binary, else empty.
std::vector<std::string> binary_names(const std::vector<Number>& numbers) {
  if (numbers.empty()) return {};
  if (is_subset(numbers, 0, 1)) return {"0", "1"};
  if (is_subset(numbers, -1, 1)) return {"-1", "1"};
  return {};
}

bool has_lists(const DatasetBuilder& data) {
  for (std::uint64_t row = 0; row < data.rows(); ++row) {
    if (data.labels(row).size() > 1) return true;
  }
  return false;
}

void check_one_label_per_row(const DatasetBuilder& data, bool none_allowed, const RowPlace& place) {
  for (std::uint64_t row = 0; row < data.rows(); ++row) {
    const std::size_t count = data.labels(row).size();
    if (count == 1 || (count == 0 && none_allowed)) continue;
    if (count == 0) {
      refuse(place(row), "no label", "one in every row of binary data",
             "remove the row; a missing label is not the negative class", ExitCode::data);
    }
    refuse(place(row), fmt::format("{} labels", count), "one per row, as in the training data", "",
           ExitCode::data);
  }
}

void encode_multilabel(DatasetBuilder& data, const RowPlace& place) {
  std::int64_t largest = -1;
  for (std::uint64_t row = 0; row < data.rows(); ++row) {
    for (const Index label : data.labels(row)) {
      if (number_of(label) < 0) {
        refuse(place(row), fmt::format("label {}", number_of(label)),
               "labels from 0 in multi-label data", "", ExitCode::data);
      }
      largest = std::max<std::int64_t>(largest, number_of(label));
    }
  }
  data.label_count = static_cast<Index>(largest + 1);
}

void encode_binary(DatasetBuilder& data, const std::vector<std::string>& names,
                   const RowPlace& place) {
  check_one_label_per_row(data, false, place);
  std::vector<std::uint64_t> begin{0};
  begin.reserve(data.targets.begin.size());
  const Number positive = number_of(names[1]);
  std::uint64_t positives = 0;
  for (std::uint64_t row = 0; row < data.rows(); ++row) {
    positives += number_of(data.labels(row)[0]) == positive;
    begin.push_back(positives);
  }
  data.targets.begin = std::move(begin);
  data.targets.index.assign(positives, 0);
  data.label_count = 1;
}

void encode_multiclass(DatasetBuilder& data, std::vector<std::string>& names,
                       const std::vector<Number>& classes, const RowPlace& place) {
  check_one_label_per_row(data, true, place);
  for (Index& label : data.targets.index) {
    const auto at = std::lower_bound(classes.begin(), classes.end(), number_of(label));
    label = static_cast<Index>(at - classes.begin());
  }
  names.clear();
  for (const Number number : classes) names.push_back(std::to_string(number));
  data.label_count = static_cast<Index>(classes.size());
}

// Restores the numbers that encode_labels() started from.
void decode_labels(DatasetBuilder& data, const std::vector<std::string>& names) {
  if (data.task == Task::multiclass) {
    for (Index& label : data.targets.index) label = static_cast<Index>(number_of(names[label]));
  } else if (data.task == Task::binary) {
    std::vector<Index> numbers;
    std::vector<std::uint64_t> begin{0};
    for (std::uint64_t row = 0; row < data.rows(); ++row) {
      numbers.push_back(static_cast<Index>(number_of(names[data.labels(row).empty() ? 0 : 1])));
      begin.push_back(row + 1);
    }
    data.targets.index = std::move(numbers);
    data.targets.begin = std::move(begin);
  }
}

// Changes the labels in a copy, because other views may share the arrays of `data`.
template <class Change>
void change_labels(Dataset& data, Change&& change) {
  DatasetBuilder copy;
  static_cast<DatasetHeader&>(copy) = data;
  copy.targets.begin.assign(data.targets.begin.begin(), data.targets.begin.end());
  copy.targets.index.assign(data.targets.index.begin(), data.targets.index.end());
  change(copy);
  static_cast<DatasetHeader&>(data) = copy;
  set_targets(data, std::move(copy.targets));
}

// Reorders columns as in `wanted`; classes that `wanted` lacks come after them.
void reorder_classes(Dataset& data, std::vector<std::string>& names,
                     const std::vector<std::string>& wanted) {
  std::unordered_map<std::string, Index> column;
  for (const std::string& name : wanted) column.emplace(name, static_cast<Index>(column.size()));
  std::vector<std::string> all = wanted;
  std::vector<Index> target;
  for (const std::string& name : names) {
    const auto [at, added] = column.emplace(name, static_cast<Index>(column.size()));
    if (added) all.push_back(name);
    target.push_back(at->second);
  }
  // Distinct numbers in order: 0, 1, 2, ... unless the last one is too large.
  if (!std::ranges::is_sorted(target) || (!target.empty() && target.back() >= target.size())) {
    change_labels(data, [&](DatasetBuilder& copy) {
      for (Index& label : copy.targets.index) label = target[label];
    });
  }
  names = std::move(all);
  data.label_count = static_cast<Index>(names.size());
}

void match_binary_names(const Dataset& data, const LoadReport& report,
                        const std::vector<std::string>& wanted) {
  if (report.label_names == wanted) return;
  const bool has_positive = !data.targets.index.empty();
  const bool has_negative = data.targets.index.size() < data.rows();
  const auto& found = report.label_names;
  if (wanted.size() == 2 && (!has_positive || found[1] == wanted[1]) &&
      (!has_negative || found[0] == wanted[0])) {
    return;
  }
  refuse(report.path, fmt::format("the labels '{}' and '{}'", found[0], found[1]),
         fmt::format("'{}' and '{}' as in the training data", wanted.empty() ? "" : wanted.front(),
                     wanted.empty() ? "" : wanted.back()),
         "write both files with the same pair of labels", ExitCode::data);
}

// Click data belong to training data with the same vocabulary.
void match_fields(const Dataset& data, const LoadReport& report, const LoadOptions& options) {
  const bool clicks = data.fields.count() > 0;
  const bool trained_on_clicks = options.vocabulary_of != nullptr;
  const bool is_test = trained_on_clicks || options.task;
  if (!is_test || (!clicks && !trained_on_clicks)) return;
  if (clicks != trained_on_clicks) {
    throw data_error("{}: found {}, expected {} as in the training data", report.path,
                     clicks ? "click data" : "sparse features",
                     clicks ? "sparse features" : "click data");
  }
  const CategoricalFields<View>& trained = options.vocabulary_of->fields;
  if (!std::ranges::equal(data.fields.first, trained.first) ||
      !std::ranges::equal(data.fields.value, trained.value)) {
    refuse(report.path, "another vocabulary", "that of the training data",
           "convert both files with the same --vocabulary, or use the text files", ExitCode::data);
  }
}

// A text belongs to training data with the same kinds of tokens.
void match_tokens(const Dataset& data, const LoadReport& report, const LoadOptions& options) {
  if (!options.task) return;
  const bool tokens = data.task == Task::tokens, trained_on_tokens = *options.task == Task::tokens;
  if (tokens != trained_on_tokens) {
    throw data_error("{}: found {}, expected {} as in the training data", report.path,
                     tokens ? "rows of tokens" : "rows with labels",
                     tokens ? "rows with labels" : "rows of tokens");
  }
  if (!tokens || report.label_names == options.label_names) return;
  refuse(report.path, fmt::format("another vocabulary, of {} kinds of tokens", data.label_count),
         fmt::format("the {} kinds of the training data", options.label_names.size()),
         "convert the test text with --vocabulary, or use the text files", ExitCode::data);
}

// Whether it was parsed or cached.
void check_header_counts(const Dataset& data, const LoadReport& report,
                         const LoadOptions& options) {
  if (report.format != DataFormat::xc || options.task != Task::multilabel) return;
  const auto check = [&](Index count, Index trained, const char* what) {
    if (count <= trained) return;
    refuse(report.path, fmt::format("{} {} in the header", count, what),
           fmt::format("at most {}, as in the training data", trained),
           "a training and a test file in this format belong together and have equal headers",
           ExitCode::data);
  };
  check(data.feature_count, options.trained_features, "features");
  check(data.label_count, options.trained_labels, "labels");
}

// The index base that files of libSVM text have, or had when they were converted, is that of the
// training data. A file whose format counts from 0 fits any base that the user has stated.
void match_index_base(const Dataset& data, LoadReport& report, const LoadOptions& options) {
  if (!options.task || data.sparse.index.empty()) return;
  const IndexBase found = report.index_base, wanted = options.index_base;
  if (found != wanted && !(options.base_is_stated && found == IndexBase::zero)) {
    refuse(report.path, fmt::format("feature indices that count from {}", to_string(found)),
           fmt::format("from {}, as in the training data", to_string(wanted)),
           "--index-base states what libSVM text counts from; data convert --vocabulary takes over "
           "the base of the training file",
           ExitCode::data);
  }
  if (options.base_is_stated || report.format != DataFormat::libsvm || found == IndexBase::one) {
    return;
  }
  for (std::uint64_t row = 0; row < data.rows(); ++row) {
    const auto features = data.features(row);
    if (!features.empty() && features.front() == 0) return;
  }
  report.warnings.push_back(fmt::format(
      "{}: no feature index is 0, but the training data count from 0: so do these", report.path));
}

// The entries that lie beyond the columns of the training data.
struct Unknown {
  std::uint64_t rows = 0;  // that have some
  Index least = std::numeric_limits<Index>::max();
};

// The entries below `columns`. Counts rows that have none, and those that have lost some.
CsrRows<Owned> entries_below(const CsrRows<View>& from, Index columns, std::uint64_t& empty_rows,
                             Unknown& unknown) {
  CsrRows<Owned> to;
  unknown = {};
  empty_rows = 0;
  for (std::uint64_t row = 0; row < from.rows(); ++row) {
    const std::span<const Index> all = from.indices(row);
    const auto kept = std::ranges::lower_bound(all, columns) - all.begin();
    to.index.insert(to.index.end(), all.begin(), all.begin() + kept);
    if (!from.value.empty()) {
      const auto values = from.values(row);
      to.value.insert(to.value.end(), values.begin(), values.begin() + kept);
    }
    to.begin.push_back(to.index.size());
    empty_rows += kept == 0;
    if (all.begin() + kept == all.end()) continue;
    ++unknown.rows;
    unknown.least = std::min(unknown.least, all[static_cast<std::size_t>(kept)]);
  }
  return to;
}

bool reaches_beyond(const CsrRows<View>& rows, Index columns) {
  return std::ranges::any_of(rows.index, [&](Index index) { return index >= columns; });
}

// Leaves the test data the columns of the training data.
void drop_unknown(Dataset& data, LoadReport& report, const LoadOptions& options) {
  Unknown unknown;
  const auto warn = [&](std::string_view what, const std::string& first, std::string_view effect) {
    report.warnings.push_back(
        fmt::format("{}: {} that the training data lack, such as {}, in {} of {} rows: {}",
                    report.path, what, first, unknown.rows, data.rows(), effect));
  };
  if (reaches_beyond(data.sparse, options.trained_features)) {
    CsrRows<Owned> known =
        entries_below(data.sparse, options.trained_features, report.rows_without_features, unknown);
    const Index base = report.index_base == IndexBase::one ? 1 : 0;
    warn("features", std::to_string(unknown.least + base), "they are ignored");
    data.sparse = view_of(keep(data, std::move(known)));
  }
  if (reaches_beyond(data.targets, options.trained_labels)) {
    set_targets(data, entries_below(data.targets, options.trained_labels,
                                    report.rows_without_labels, unknown));
    const auto& names = report.label_names;
    warn("labels", names.empty() ? std::to_string(unknown.least) : names[unknown.least],
         "they are never hit, and have no loss");
  }
  data.feature_count = options.trained_features;
  data.label_count = options.trained_labels;
  if (data.task == Task::multiclass) report.label_names.resize(data.label_count);
}

}  // namespace

void encode_labels(DatasetBuilder& data, std::vector<std::string>& names, std::optional<Task> task,
                   const RowPlace& place) {
  names.clear();
  if (task == Task::multilabel || (!task && has_lists(data))) {
    data.task = Task::multilabel;
    encode_multilabel(data, place);
    return;
  }
  const std::vector<Number> numbers = distinct_numbers(data.targets.index);
  names = binary_names(numbers);
  if (task == Task::binary && names.empty()) {
    refuse(place(0), fmt::format("{} different labels", numbers.size()), "-1 and 1, or 0 and 1",
           "the training data is binary", ExitCode::data);
  }
  if (task == Task::multiclass || names.empty()) {
    // If the file has no label at all, nothing says that a row has only one.
    data.task = numbers.empty() && !task ? Task::multilabel : Task::multiclass;
    encode_multiclass(data, names, numbers, place);
    return;
  }
  data.task = Task::binary;
  encode_binary(data, names, place);
}

std::vector<std::string> numbered_labels(std::size_t count) {
  std::vector<std::string> names(count);
  for (std::size_t label = 0; label < count; ++label) names[label] = std::to_string(label);
  return names;
}

ParsedData with_numbered_labels(DatasetBuilder&& data, Index labels, DataFormat format) {
  data.task = Task::multiclass;
  data.label_count = labels;
  ParsedData parsed;
  parsed.report.label_names = numbered_labels(labels);
  parsed.report.format = format;
  parsed.data = std::move(data).build();
  return parsed;
}

void fit_to_training(Dataset& data, LoadReport& report, const LoadOptions& options) {
  check_header_counts(data, report, options);
  match_fields(data, report, options);
  match_tokens(data, report, options);
  match_index_base(data, report, options);
  if (options.task && *options.task != data.task) {
    change_labels(data, [&](DatasetBuilder& copy) {
      decode_labels(copy, report.label_names);
      encode_labels(copy, report.label_names, options.task, [&](std::uint64_t row) {
        return fmt::format("{}: row {}", report.path, row + 1);
      });
    });
  }
  if (data.task == Task::binary && !options.label_names.empty()) {
    match_binary_names(data, report, options.label_names);
    report.label_names = options.label_names;
  } else if (data.task == Task::multiclass && !options.label_names.empty()) {
    reorder_classes(data, report.label_names, options.label_names);
  }
  if (options.task) drop_unknown(data, report, options);
  if (data.feature_count == 0 && data.fields.count() == 0 && data.images.size() == 0 &&
      !data.has_lengths()) {
    refuse(report.path, "no row with a feature", "lines such as '1 3:0.5 7:1'", "", ExitCode::data);
  }
  if (data.label_count == 0) {
    refuse(report.path, "no row with a label", "lines such as '1 3:0.5 7:1'",
           "a line that begins with a space has no label", ExitCode::data);
  }
}

}  // namespace hetsgd
