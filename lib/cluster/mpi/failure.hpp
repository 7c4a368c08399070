// Failure: an error as a message between ranks.
//
// An exception cannot travel, so its kind and its texts do, and every rank throws the same kind
// again. Kinds that a receiver tells apart: Error with its exit code and hint, CheckFailure,
// Interrupted; any other exception becomes an Error(runtime) with its text.
#pragma once

#include <exception>
#include <string>
#include <tuple>

namespace hetsgd::mpi {

struct Failure {
  // ExitCode of the Error; runtime for everything else.
  int code = 0;
  // It is a CheckFailure.
  bool is_check = false;
  // The signal of an Interrupted (0: the time limit); -1: it is none.
  int interrupted = -1;
  std::string text{}, hint{};

  // The text says which rank failed; with size 1 it is the error's own. An Interrupted names no
  // rank: it comes from outside.
  static Failure of(std::exception_ptr error, int rank, int size);
  // The exception that of() was made from, as far as it has travelled.
  std::exception_ptr exception() const;

  static constexpr auto members() {
    return std::tuple(&Failure::code, &Failure::is_check, &Failure::interrupted, &Failure::text,
                      &Failure::hint);
  }
};

// A failure with the run that it belongs to (first_error.hpp).
struct RunFailure {
  int epoch = 0;
  Failure failure{};

  static constexpr auto members() { return std::tuple(&RunFailure::epoch, &RunFailure::failure); }
};

}  // namespace hetsgd::mpi
