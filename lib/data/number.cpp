#include "data/number.hpp"

#include <charconv>
#include <cmath>
#include <system_error>

namespace hetsgd {

namespace {

bool ends_number(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '#' || c == '\0';
}

}  // namespace

ParsedNumber parse_float(const char* p) {
  const char* end = p;
  while (!ends_number(*end)) ++end;
  // std::from_chars knows no plus sign; "+-1" must not pass as -1.
  if (*p == '+' && p[1] != '-') ++p;
  float value = 0;
  auto [stop, error] = std::from_chars(p, end, value);
  if (error == std::errc::result_out_of_range) {
    // Below the smallest normal float is subnormal or zero, above the largest is an error; a long
    // double tells them apart.
    long double wide = 0;
    if (std::from_chars(p, end, wide).ec != std::errc{} || std::fabs(wide) > 1) {
      return {stop, 0, NumberStatus::out_of_range};
    }
    value = static_cast<float>(wide);
  } else if (error != std::errc{}) {
    return {p, 0, NumberStatus::malformed};
  }
  if (!std::isfinite(value)) return {stop, 0, NumberStatus::not_finite};
  return {stop, value, NumberStatus::ok};
}

}  // namespace hetsgd
