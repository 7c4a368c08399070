// From the values of click data to rows of the embedding tables.
//
// Category 0 of a field stands for a missing value, 1 for a value that is rare or that the training
// data lack. Then come the values with at least `min_frequency` occurrences in the training part,
// the commonest first (of equally common ones the smaller value), so that hot rows are a prefix of
// each table. With `hash_size` N, the category is 2 + XXH3-64(field, value) mod N instead, which
// needs no training data. Global row = first[field] + category (data/dataset.hpp,
// CategoricalFields).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/options.hpp"
#include "data/dataset.hpp"
#include "data/fields.hpp"

namespace hetsgd {

inline constexpr Index kMissingCategory = 0, kRareCategory = 1, kFirstCategory = 2;

inline constexpr std::uint64_t kUsualClickFrequency = 10;

struct VocabularyRules {
  // Least frequency; 1: every value of the training part. None: kUsualClickFrequency for click
  // data, 1 for words of a text.
  std::optional<std::uint64_t> min_frequency;
  std::optional<std::uint64_t> hash_size;  // categories per field, beside the first two
};

// Declares --min-frequency and --hash-size. Only the latter has the needs of `clicks`.
void declare_vocabulary(OptionSet& set, VocabularyRules& rules,
                        const std::vector<OptionNeed>& clicks = {});

struct Vocabulary {
  CategoricalFields<Owned> fields;      // without categories
  std::vector<std::uint64_t> distinct;  // values of each field that occur; empty: hashed
};

// Counts values on up to `threads` threads. `held_out` marks rows that do not count; empty: all
// count. Throws Error(data), which begins with `path`, if the tables would have 2^32 rows.
Vocabulary make_vocabulary(const RawClicks& clicks, const std::vector<bool>& held_out,
                           const VocabularyRules& rules, std::optional<int> threads,
                           const std::string& path);

// The data set of `clicks` with this vocabulary, which may be the fields of another data set. Name,
// hash and `whole` are not set.
DatasetBuilder number_clicks(RawClicks&& clicks, const CategoricalFields<View>& vocabulary,
                             std::optional<int> threads);

// The category of a value under hashing.
Index hashed_category(std::uint32_t field, std::uint32_t value, std::uint64_t hash_size);

}  // namespace hetsgd
