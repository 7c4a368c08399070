// Numbers in text at memory speed: plain decimals without a loop or a misprediction per digit.
//
// All functions need kNumberPadding readable bytes after the position they are given, and a byte
// that ends every number (a blank or a newline) before the end of the text.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace hetsgd {

inline constexpr std::size_t kNumberPadding = 32;

static_assert(std::endian::native == std::endian::little,
              "the 8-byte digit trick reads low bytes first");

// Eight bytes of text; byte 0 (the first character) is the lowest.
inline std::uint64_t load_text(const char* p) {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

// The number of digits (0..8) at the start of the eight bytes. Xor with '0' maps digits to 0..9;
// adding 0x76 sets the top bit of every byte above 9. A carry out of such a byte spoils later bytes
// only.
inline unsigned leading_digits(std::uint64_t word) {
  const std::uint64_t t = word ^ 0x3030303030303030U;
  const std::uint64_t other = ((t + 0x7676767676767676U) | t) & 0x8080808080808080U;
  return other == 0 ? 8U : static_cast<unsigned>(std::countr_zero(other)) >> 3;
}

// The value of the first `count` (1..8) bytes, all digits. They are shifted to the end of the word,
// so that zeros stand in front. Each product then adds ten (100, 10^4) times a byte (pair, four) to
// its neighbour.
inline std::uint64_t digits_value(std::uint64_t word, unsigned count) {
  std::uint64_t v = (word ^ 0x3030303030303030U) << (8 * (8 - count));
  v = ((v * (1 + (10 << 8))) >> 8) & 0x00FF00FF00FF00FFU;
  v = ((v * (1 + (100 << 16))) >> 16) & 0x0000FFFF0000FFFFU;
  return (v * (1 + (std::uint64_t{10000} << 32))) >> 32;
}

// Reads an unsigned integer; returns the first byte after it, or `p` itself if no digit stands
// there. Values above 10^15 are reported as 10^15, which is beyond every limit and does not
// overflow.
inline const char* parse_unsigned(const char* p, std::uint64_t& value) {
  const std::uint64_t word = load_text(p);
  const unsigned count = leading_digits(word);
  if (count == 0) return p;
  value = digits_value(word, count);
  p += count;
  if (count < 8) [[likely]]
    return p;
  while (*p >= '0' && *p <= '9') {
    value = value * 10 + static_cast<std::uint64_t>(*p++ - '0');
    if (value > 1'000'000'000'000'000U) value = 1'000'000'000'000'000U;
  }
  return p;
}

inline constexpr double kPowersOfTen[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                          1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
inline constexpr std::uint64_t kIntegerPowersOfTen[] = {1,      10,      100,      1000,     10000,
                                                        100000, 1000000, 10000000, 100000000};

// Reads the float nearest to a plain decimal number, [-] digits [. digits], and returns the first
// byte after it. Returns nullptr for everything else, which parse_float() must judge.
//
// Digits before and after the point form an integer m below 2^53. The power of ten is exact in a
// double, so that m / 10^k is the correctly rounded double (Clinger 1990). Rounding it once more,
// to float, can only go wrong if that double is exactly the midpoint of two floats.
inline const char* parse_plain_decimal(const char* p, float& value) {
  const auto single = static_cast<unsigned char>(*p - '0');
  if (single < 10 && p[1] == ' ') {  // the commonest number: 1
    value = static_cast<float>(single);
    return p + 1;
  }
  const bool negative = *p == '-';
  p += negative;
  std::uint64_t word = load_text(p);
  const unsigned whole = leading_digits(word);
  if (whole == 0 || whole == 8) [[unlikely]]
    return nullptr;
  std::uint64_t mantissa = digits_value(word, whole);
  p += whole;
  double exact = static_cast<double>(mantissa);
  if (*p == '.') {
    word = load_text(++p);
    unsigned decimals = leading_digits(word);
    if (decimals == 0) [[unlikely]]
      return nullptr;
    mantissa = mantissa * kIntegerPowersOfTen[decimals] + digits_value(word, decimals);
    p += decimals;
    if (decimals == 8) {
      word = load_text(p);
      const unsigned more = leading_digits(word);
      if (whole > 4 || more == 8) [[unlikely]]
        return nullptr;  // 4 + 8 + 7 digits are below 2^64
      if (more > 0) mantissa = mantissa * kIntegerPowersOfTen[more] + digits_value(word, more);
      if (mantissa >= (std::uint64_t{1} << 53)) [[unlikely]]
        return nullptr;
      decimals += more;
      p += more;
    }
    exact = static_cast<double>(mantissa) / kPowersOfTen[decimals];
    if ((std::bit_cast<std::uint64_t>(exact) & 0x1FFFFFFFU) == 0x10000000U) [[unlikely]]
      return nullptr;
  }
  if (*p > ' ') [[unlikely]]
    return nullptr;  // an exponent, a comment or a mistake
  value = static_cast<float>(negative ? -exact : exact);
  return p;
}

enum class NumberStatus { ok, malformed, not_finite, out_of_range };

struct ParsedNumber {
  const char* end;  // the first byte after the number
  float value;
  NumberStatus status;
};

// Reads the float nearest to any decimal number: also with exponents, many digits or a plus sign.
ParsedNumber parse_float(const char* p);

}  // namespace hetsgd
