#include "cluster/mpi/failure.hpp"

#include <array>
#include <cstring>

#include "cluster/cluster.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {

Failure Failure::of(std::exception_ptr error, int rank, int size) {
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
  if (interrupted >= 0) return std::make_exception_ptr(Interrupted(interrupted, text));
  if (is_check) return std::make_exception_ptr(CheckFailure(text));
  return std::make_exception_ptr(Error(static_cast<ExitCode>(code), text, hint));
}

// epoch, code, is_check, interrupted, length of the text; then text and hint.
std::vector<std::byte> pack(int epoch, const Failure& failure) {
  const int head[] = {epoch, failure.code, failure.is_check ? 1 : 0, failure.interrupted,
                      static_cast<int>(failure.text.size())};
  std::vector<std::byte> bytes(sizeof head + failure.text.size() + failure.hint.size());
  std::memcpy(bytes.data(), head, sizeof head);
  const std::string text = failure.text + failure.hint;
  if (!text.empty()) std::memcpy(bytes.data() + sizeof head, text.data(), text.size());
  return bytes;
}

std::pair<int, Failure> unpack(std::span<const std::byte> bytes) {
  std::array<int, 5> head;
  HETSGD_CHECK_GE(bytes.size(), sizeof head);
  std::memcpy(head.data(), bytes.data(), sizeof head);
  const std::string text(reinterpret_cast<const char*>(bytes.data()) + sizeof head,
                         bytes.size() - sizeof head);
  const auto length = static_cast<std::size_t>(head[4]);
  return {head[0],
          {.code = head[1],
           .is_check = head[2] != 0,
           .interrupted = head[3],
           .text = text.substr(0, length),
           .hint = text.substr(length)}};
}

}  // namespace hetsgd::mpi
