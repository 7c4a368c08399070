// How a call fails, for tests of error messages.
#pragma once

#include <string>

#include "core/error.hpp"

namespace hetsgd::test {

struct Failure {
  ExitCode code = ExitCode::ok;
  std::string message, hint;
};

// The Error that `call` throws; code ok if it throws none.
template <class Call>
Failure failure_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what(), error.hint()};
  }
  return {};
}

}  // namespace hetsgd::test
