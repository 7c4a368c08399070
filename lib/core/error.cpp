#include "core/error.hpp"

namespace hetsgd {

void refuse(std::string_view place, std::string_view found, std::string_view expected,
            std::string hint, ExitCode code) {
  throw Error(code, fmt::format("{}: found {}, expected {}", place, found, expected),
              std::move(hint));
}

namespace detail {

void fail_check(const char* file, int line, std::string_view expression, std::string_view values) {
  throw CheckFailure(fmt::format("{}:{}: check failed: {}{}{}", file, line, expression,
                                 values.empty() ? "" : ": ", values));
}

}  // namespace detail
}  // namespace hetsgd
