// The laws of synthetic click data: how many ids a field has and how popular they are, which
// columns lack values together, and how large numbers are. The figures are those of Criteo's two
// data sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace hetsgd {

// The random streams of the click generator are the words b of Purpose::generator. The streams of
// data/generator.hpp stay below 2^24.

enum class ClickStream : std::uint32_t { row = 0x10, value, phase, effect, weight };

// Generations stay below 2^16 (the ranges of parse_click_spec).
inline std::uint32_t click_word(ClickStream stream, std::size_t field = 0,
                                std::uint32_t generation = 0) {
  return static_cast<std::uint32_t>(stream) << 24 | static_cast<std::uint32_t>(field) << 16 |
         generation;
}

// Ids by popularity: P(rank r) ~ (r + shift)^-exponent.
struct FieldLaw {
  std::uint64_t ids;  // ids that occur in all rows of the real data set
  double exponent;
  // 0: the ranks are 1 .. ids. Above 0: they are 1 .. 2^31, so that the number of ids that occur
  // grows with the rows.
  double shift = 0;
};

// Values of a number column: max(low, floor(exp(N(mean, deviation^2))) - 1).
struct NumberLaw {
  double mean, deviation;
  std::int64_t low = 0;
};

// Columns (a mask) that lack their values in the same rows, and the share of these rows.
struct MissingGroup {
  std::uint32_t columns;
  double share;
};

// All laws of one preset; `positives` is the share of positive rows.
struct ClickLaws {
  std::vector<FieldLaw> fields;
  std::vector<NumberLaw> numbers;
  std::vector<MissingGroup> no_value, no_number;
  double positives = 0.2562;
};

ClickLaws kaggle_laws();
ClickLaws terabyte_laws();
ClickLaws tiny_laws();
// The laws of a preset: criteo, criteo-terabyte or ctr-tiny.
ClickLaws click_laws(std::string_view preset);

}  // namespace hetsgd
