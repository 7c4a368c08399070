// Every float that the fast path gives must be the one that std::from_chars gives.
#include "data/number.hpp"

#include <charconv>
#include <sstream>

#include "core/random.hpp"

namespace hetsgd {
namespace {

std::string padded(const std::string& text, char end = ' ') {
  return text + end + std::string(kNumberPadding, '\n');
}

float reference(const std::string& text) {
  float value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  EXPECT_EQ(error, std::errc{}) << text;
  EXPECT_EQ(end, text.data() + text.size()) << text;
  return value;
}

// As the line parser does: the fast path, else the general one.
ParsedNumber parse_any(const std::string& text) {
  ParsedNumber number{nullptr, 0, NumberStatus::ok};
  number.end = parse_plain_decimal(text.data(), number.value);
  return number.end == nullptr ? parse_float(text.data()) : number;
}

void expect_exact(const std::string& text) {
  const std::string buffer = padded(text);
  const ParsedNumber number = parse_any(buffer);
  ASSERT_EQ(number.status, NumberStatus::ok) << text;
  ASSERT_EQ(number.end, buffer.data() + text.size()) << text;
  const float expected = reference(text);
  ASSERT_EQ(std::bit_cast<std::uint32_t>(number.value), std::bit_cast<std::uint32_t>(expected))
      << text;
}

TEST(ParseUnsigned, ReadsEveryLength) {
  std::uint64_t expected = 0;
  for (unsigned digits = 1; digits <= 15; ++digits) {
    expected = expected * 10 + digits % 10;
    const std::string buffer = padded(std::to_string(expected), ':');
    std::uint64_t value = 0;
    const char* const end = parse_unsigned(buffer.data(), value);
    EXPECT_EQ(value, expected);
    EXPECT_EQ(end, buffer.data() + std::to_string(expected).size());
  }
}

TEST(ParseUnsigned, StopsAtEveryOtherByte) {
  for (int c = 0; c < 256; ++c) {
    if (c >= '0' && c <= '9') continue;
    for (unsigned digits = 0; digits <= 9; ++digits) {
      const std::string buffer = padded(std::string(digits, '7'), static_cast<char>(c));
      std::uint64_t value = 42;
      EXPECT_EQ(parse_unsigned(buffer.data(), value), buffer.data() + digits) << c;
      if (digits == 0) {
        EXPECT_EQ(value, 42U);
      }
    }
  }
}

TEST(ParseUnsigned, SaturatesInsteadOfOverflowing) {
  for (const char* text :
       {"18446744073709551616", "99999999999999999999999999", "1000000000000001"}) {
    std::uint64_t value = 0;
    const std::string buffer = padded(text);
    parse_unsigned(buffer.data(), value);
    EXPECT_EQ(value, 1'000'000'000'000'000U) << text;
  }
}

TEST(ParseFloat, TakesPlainDecimalsExactly) {
  std::istringstream list(
      "0 1 9 -1 10 0.5 -0.25 0.1 123456.789 1234567 12345678 0.12345678 0.123456789 "
      "0.1234567890123456 1.00000001 -0 -0.0 16777217 0.000000000000001 1234.123456789012345 "
      "3.4028235e38 1e-45 1.17549435e-38 1. 7e0 2E3 0.00000000");
  for (std::string text; list >> text;) expect_exact(text);
}

// Midpoints of two floats, and their closest neighbours in decimal: rounding twice would fail here.
TEST(ParseFloat, RoundsOnceAtMidpoints) {
  RandomStream random(3, Purpose::test);
  for (int k = 0; k < 20000; ++k) {
    const auto bits =
        static_cast<std::uint32_t>((110 + random.below(40)) << 23 | random.below(1 << 23));
    const double low = std::bit_cast<float>(bits);
    const double high = std::bit_cast<float>(bits + 1);
    const double middle = (low + high) / 2;
    for (const int decimals : {3, 6, 8, 10, 12, 15}) {
      expect_exact(fmt::format("{:.{}f}", middle, decimals));
      expect_exact(fmt::format("{:.{}f}", std::nextafter(middle, 0.0), decimals));
    }
  }
}

TEST(ParseFloat, AgreesWithFromCharsOnRandomDigits) {
  RandomStream random(4, Purpose::test);
  for (int k = 0; k < 300000; ++k) {
    std::string text = random.below(4) == 0 ? "-" : "";
    const std::uint64_t whole = 1 + random.below(9);
    const std::uint64_t decimals = random.below(18);
    for (std::uint64_t d = 0; d < whole; ++d) text += static_cast<char>('0' + random.below(10));
    if (decimals > 0) text += '.';
    for (std::uint64_t d = 0; d < decimals; ++d) text += static_cast<char>('0' + random.below(10));
    if (random.below(8) == 0) text += fmt::format("e{}", static_cast<int>(random.below(40)) - 20);
    expect_exact(text);
  }
}

TEST(ParseFloat, TakesWhatFromCharsDoesNot) {
  EXPECT_EQ(parse_any(padded("+1.5")).value, 1.5F);
  EXPECT_EQ(parse_any(padded("1e-60")).value, 0.0F);  // below the smallest float: rounds to zero
  EXPECT_EQ(parse_any(padded("5e-324")).value, 0.0F);
  EXPECT_EQ(parse_any(padded("1e-46")).status, NumberStatus::ok);
}

TEST(ParseFloat, SaysWhatIsWrong) {
  const auto status = [](const char* text) { return parse_any(padded(text)).status; };
  for (const char* text : {"", ".", "-", "+-1", "++1", "abc"}) {
    EXPECT_EQ(status(text), NumberStatus::malformed) << text;
  }
  for (const char* text : {"nan", "-NaN", "inf", "-Infinity"}) {
    EXPECT_EQ(status(text), NumberStatus::not_finite) << text;
  }
  for (const char* text : {"1e39", "-3.5e38"}) {
    EXPECT_EQ(status(text), NumberStatus::out_of_range) << text;
  }
}

}  // namespace
}  // namespace hetsgd
