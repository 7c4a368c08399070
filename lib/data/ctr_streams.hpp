// The random streams of the click generator: words b of Purpose::generator, beside those of
// data/generate.cpp, which are below 2^24.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hetsgd {

enum class ClickStream : std::uint32_t { row = 0x10, value, phase, effect, weight };

// Generations stay below 2^16 (the ranges of parse_click_spec).
inline std::uint32_t click_word(ClickStream stream, std::size_t field = 0,
                                std::uint32_t generation = 0) {
  return static_cast<std::uint32_t>(stream) << 24 | static_cast<std::uint32_t>(field) << 16 |
         generation;
}

}  // namespace hetsgd
