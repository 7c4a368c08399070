#include "cluster/realtime/service_token.hpp"

#include <exception>

#include "cluster/blocking.hpp"
#include "core/error.hpp"

namespace hetsgd::realtime {

// Thrown into the handler, whose mistake it is: the handler's exception then ends the run.
void check_answer(const std::string& service, int from, const AnswerSize& answer,
                  const AnswerSize& expected) {
  if (answer == expected) return;
  throw CheckFailure(
      fmt::format("{} answers rank {} with {} bytes and {} elements, which expects {} bytes and {}",
                  service_name(service), from, answer.reply_bytes, answer.payload_count,
                  expected.reply_bytes, expected.payload_count));
}

// A destructor calls this, which must not throw: the run is aborted with an error that is made
// here. Its caller is still blocked, and is unwound by the abort.
void end_run_of_dropped_request(World& world, const std::string& service, int from) {
  // When the handler throws, that is the error to report.
  if (world.aborting() || std::uncaught_exceptions() > 0) return;
  world.abort(std::make_exception_ptr(CheckFailure(fmt::format(
      "{} dropped a request of rank {} without an answer", service_name(service), from))));
}

}  // namespace hetsgd::realtime
