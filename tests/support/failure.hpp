// Captures the failure of a call, for tests of error messages.
#pragma once

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

// The message of the Error(usage) that `call` throws; "no error" if it throws none.
template <class Call>
std::string usage_error_of(const Call& call) {
  const Failure failure = failure_of(call);
  if (failure.code == ExitCode::ok) return "no error";
  return failure.code == ExitCode::usage ? failure.message : "no usage error: " + failure.message;
}

// "message | hint" of the Error(code) that `call` throws; fails the test if it throws none.
template <class Call>
std::string error_of(const Call& call, ExitCode code = ExitCode::data) {
  const Failure failure = failure_of(call);
  EXPECT_EQ(failure.code, code) << failure.message;
  return failure.hint.empty() ? failure.message : failure.message + " | " + failure.hint;
}

}  // namespace hetsgd::test
