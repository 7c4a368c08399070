// Shared by all generators of data: how a specification names one, how rows follow from a seed, and
// a hash in place of the hash of a file's bytes.
//
//   generate:PRESET?key=value&key=value
//
// Presets : each belongs to one generator, which declares its keys with their ranges and defaults.
// Seed    : a row is a pure function of (options, part, row): the same bytes for any number of
//           threads. Its draws are Philox streams of Purpose::generator, whose words are those of
//           GeneratorStream.
// Parts   : training and test rows have streams of their own (click data: one sequence of rows).
// Limits  : the memory for all rows is checked before any is made (require_memory,
//           data/source.hpp).
#pragma once

#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "core/options.hpp"
#include "core/random.hpp"
#include "data/load_options.hpp"
#include "data/source.hpp"

namespace hetsgd {

inline constexpr std::string_view kGeneratorPrefix = "generate:";
inline bool is_generator_spec(std::string_view path) { return path.starts_with(kGeneratorPrefix); }

// The parts of a specification, as views into it. None is checked.
struct GeneratorParts {
  std::string_view name;              // all but the prefix
  std::string_view preset, settings;  // settings: empty without a question mark
};
// Splits `spec`, which must satisfy is_generator_spec().
GeneratorParts generator_parts(std::string_view spec);

// Sets the options that the settings of a specification name. Throws Error(usage) naming what is
// wrong; `example` shows good settings.
void read_settings(std::string_view spec, OptionSet& set, std::string_view example);

inline constexpr double kMostGeneratedRows = 4294967295.0;  // an Index counts them

// Base of every generator's options.
struct GeneratedRows {
  std::string name;  // of the data set: the specification without its prefix
  std::uint64_t rows_train = 0, rows_test = 0;
  std::uint64_t seed = 1;

  std::uint64_t rows() const { return rows_train + rows_test; }
  std::uint64_t rows_of(DataPart part) const {
    return part == DataPart::train ? rows_train : rows_test;
  }
};

// The use of a random stream is word b of its counter. Streams of rows have one word for the
// training part and the next one for the test part. Click data have words from 2^24 on
// (data/ctr_laws.hpp).
enum GeneratorStream : std::uint32_t {
  kSparseRow = 0,
  kTopicSignature = 2,
  kLabelSignature = 3,
  kImageRow = 16,
  kImageTemplate = 18,
  kClipRow = 24,
  kClipLength = 26,
  kClassPath = 28,
  kLanguageRow = 32,
  kLanguageLength = 34,
};

// The stream of a row, whose first word is `word`.
inline RandomStream row_stream(const GeneratedRows& options, DataPart part, std::uint64_t row,
                               GeneratorStream word) {
  return {options.seed, Purpose::generator, row, word + (part == DataPart::train ? 0U : 1U)};
}

// A hash in place of the hash of the bytes that a file of this part would have. `facts` are all
// that determines those bytes: the generator's name or preset, the version of its law, and its
// options.
template <class... Facts>
std::uint64_t generated_hash(DataPart part, const Facts&... facts) {
  return content_hash(fmt::format("{} {}", fmt::join(std::tuple<const Facts&...>(facts...), " "),
                                  part == DataPart::train ? "train" : "test"));
}

}  // namespace hetsgd
