#include "cluster/mpi/failure.hpp"

#include "cluster/cluster.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {

Failure Failure::of(std::exception_ptr error, int rank, int size) {
  // std::exception comes last, as the others are derived from it. Whatever is not an Error of ours
  // counts as an error at run time.
  Failure failure{.code = static_cast<int>(ExitCode::runtime)};
  try {
    std::rethrow_exception(std::move(error));
  } catch (const Error& e) {
    failure = {.code = static_cast<int>(e.code()), .text = e.what(), .hint = e.hint()};
  } catch (const Interrupted& e) {  // of no rank in particular
    return {.code = failure.code, .interrupted = e.signal(), .text = e.what()};
  } catch (const CheckFailure& e) {
    failure.is_check = true;
    failure.text = e.what();
  } catch (const std::exception& e) {
    failure.text = e.what();
  } catch (...) {
    failure.text = "an exception of an unknown type";
  }
  if (size > 1) failure.text.insert(0, fmt::format("rank {}: ", rank));
  return failure;
}

std::exception_ptr Failure::exception() const {
  // In the order in which of() tells them apart.
  if (interrupted >= 0) return std::make_exception_ptr(Interrupted(interrupted, text));
  if (is_check) return std::make_exception_ptr(CheckFailure(text));
  return std::make_exception_ptr(Error(static_cast<ExitCode>(code), text, hint));
}

}  // namespace hetsgd::mpi
