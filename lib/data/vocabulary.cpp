#include "data/vocabulary.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "data/parallel.hpp"
#include "data/value_table.hpp"

namespace hetsgd {

namespace {

constexpr std::size_t kShareRows = std::size_t{1} << 16;

// The values of one field that occur, the commonest first.
struct FieldCount {
  std::vector<std::uint32_t> frequent;
  std::uint64_t distinct = 0;
};

FieldCount count_field(const RawClicks& clicks, const std::vector<bool>& held_out,
                       std::size_t field, std::uint64_t min_frequency) {
  ValueTable table;
  for (std::size_t row = 0; row < clicks.rows(); ++row) {
    if (!held_out.empty() && held_out[row]) continue;
    if (!clicks.lacks(row, field)) table.count(clicks.value[row * clicks.field_count + field]);
  }
  std::vector<ValueTable::Slot> kept;
  for (const ValueTable::Slot& slot : table.slots()) {
    if (slot.number > 0 && slot.number >= min_frequency) kept.push_back(slot);
  }
  std::ranges::sort(kept, [](const ValueTable::Slot& a, const ValueTable::Slot& b) {
    return a.number != b.number ? a.number > b.number : a.value < b.value;
  });
  FieldCount result;
  result.distinct = table.size();
  for (const ValueTable::Slot& slot : kept) result.frequent.push_back(slot.value);
  return result;
}

// Appends first[f + 1], computed from the categories of field f.
void append_field(CategoricalFields<Owned>& fields, std::uint64_t categories,
                  const std::string& path) {
  const std::uint64_t end = fields.first.back() + categories;
  if (end > std::numeric_limits<Index>::max()) {
    refuse(path,
           fmt::format("{} rows in the tables of the first {} fields", end, fields.first.size()),
           "less than 2^32", "raise --min-frequency, or use --hash-size", ExitCode::data);
  }
  fields.first.push_back(static_cast<Index>(end));
}

// Maps the values of one field to its rows.
class FieldNumbers {
 public:
  FieldNumbers(const CategoricalFields<View>& vocabulary, std::size_t field)
      : first_(vocabulary.first[field]),
        field_(static_cast<std::uint32_t>(field)),
        hash_size_(vocabulary.value.empty() ? vocabulary.first[field + 1] - first_ - kFirstCategory
                                            : 0),
        table_(hash_size_ > 0 ? 0 : vocabulary.first[field + 1] - first_) {
    if (hash_size_ > 0) return;
    for (Index row = first_ + kFirstCategory; row < vocabulary.first[field + 1]; ++row) {
      table_.insert(vocabulary.value[row], row - first_);
    }
  }

  Index row_of(std::uint32_t value) const {
    if (hash_size_ > 0) return first_ + hashed_category(field_, value, hash_size_);
    return first_ + std::max(table_.find(value), std::uint32_t{kRareCategory});
  }
  Index row_of_missing() const { return first_ + kMissingCategory; }

 private:
  Index first_;
  std::uint32_t field_;
  std::uint64_t hash_size_;
  ValueTable table_;
};

}  // namespace

Index hashed_category(std::uint32_t field, std::uint32_t value, std::uint64_t hash_size) {
  const std::array<std::uint32_t, 2> key = {field, value};
  return static_cast<Index>(kFirstCategory + XXH3_64bits(key.data(), sizeof key) % hash_size);
}

void declare_vocabulary(OptionSet& set, VocabularyRules& rules,
                        const std::vector<OptionNeed>& clicks) {
  set.add("min_frequency", rules.min_frequency,
          "Fewest occurrences in the training rows that give a value of click data its own "
          "category, or a word of a text (--tokens words) a kind of its own. Rarer values of a "
          "field share one, and rarer words are unknown. It has no effect with --hash-size. auto: "
          "10 for click data, 1 for words.")
      .range(1, 4294967295.0);
  OptionRefiner hash_size =
      set.add("hash_size", rules.hash_size,
              "Categories of each field of click data, to which its values are hashed. auto gives "
              "values their own categories instead, as --min-frequency says.")
          .range(1, 4294967293.0)
          .or_zero();
  for (const OptionNeed& need : clicks) hash_size.needs(need.option, need.values);
}

Vocabulary make_vocabulary(const RawClicks& clicks, const std::vector<bool>& held_out,
                           const VocabularyRules& rules, std::optional<int> threads,
                           const std::string& path) {
  Vocabulary result;
  result.fields.first.push_back(0);
  if (rules.hash_size) {
    for (std::size_t field = 0; field < clicks.field_count; ++field) {
      append_field(result.fields, kFirstCategory + *rules.hash_size, path);
    }
    return result;
  }
  std::vector<FieldCount> counts(clicks.field_count);
  parallel_tasks(threads, clicks.field_count, [&](std::size_t field) {
    counts[field] =
        count_field(clicks, held_out, field, rules.min_frequency.value_or(kUsualClickFrequency));
  });
  for (const FieldCount& count : counts) {
    append_field(result.fields, kFirstCategory + count.frequent.size(), path);
    auto& value = result.fields.value;
    value.insert(value.end(), {kMissingCategory, kRareCategory});
    value.insert(value.end(), count.frequent.begin(), count.frequent.end());
    result.distinct.push_back(count.distinct);
  }
  return result;
}

DatasetBuilder number_clicks(RawClicks&& clicks, const CategoricalFields<View>& vocabulary,
                             std::optional<int> threads) {
  HETSGD_CHECK_EQ(vocabulary.count(), clicks.field_count);
  std::vector<FieldNumbers> numbers;
  for (std::size_t field = 0; field < clicks.field_count; ++field) {
    numbers.emplace_back(vocabulary, field);
  }
  const std::size_t rows = clicks.rows();
  parallel_rows(threads, rows, kShareRows, [&](std::uint64_t row) {
    for (std::size_t field = 0; field < clicks.field_count; ++field) {
      std::uint32_t& value = clicks.value[row * clicks.field_count + field];
      value =
          clicks.lacks(row, field) ? numbers[field].row_of_missing() : numbers[field].row_of(value);
    }
  });
  DatasetBuilder data;
  data.task = Task::binary;
  data.label_count = 1;
  data.dense.columns = static_cast<Index>(clicks.dense_columns);
  data.dense.value = std::move(clicks.dense);
  data.fields.first.assign(vocabulary.first.begin(), vocabulary.first.end());
  data.fields.value.assign(vocabulary.value.begin(), vocabulary.value.end());
  data.fields.category = std::move(clicks.value);
  data.targets.begin.reserve(rows + 1);
  for (const std::uint8_t positive : clicks.positive) {
    if (positive != 0) data.targets.index.push_back(0);
    data.targets.begin.push_back(data.targets.index.size());
  }
  return data;
}

}  // namespace hetsgd
