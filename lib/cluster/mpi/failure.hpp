// An error as it travels between ranks.
#pragma once

#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hetsgd::mpi {

struct Failure {
  int code = 0;           // ExitCode
  bool is_check = false;  // a CheckFailure
  int interrupted = -1;   // the signal of an Interrupted
  std::string text{}, hint{};

  // The text says which rank failed; with one rank it is the error's own.
  static Failure of(std::exception_ptr error, int rank, int size);
  std::exception_ptr exception() const;
};

// With the run that it belongs to.
std::vector<std::byte> pack(int epoch, const Failure& failure);
std::pair<int, Failure> unpack(std::span<const std::byte> bytes);

}  // namespace hetsgd::mpi
