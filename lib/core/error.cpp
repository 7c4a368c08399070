#include "core/error.hpp"

namespace hetsgd::detail {

void fail_check(const char* file, int line, std::string_view expression, std::string_view values) {
  throw CheckFailure(fmt::format("{}:{}: check failed: {}{}{}", file, line, expression,
                                 values.empty() ? "" : ": ", values));
}

}  // namespace hetsgd::detail
