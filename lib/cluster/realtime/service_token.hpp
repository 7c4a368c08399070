// What the pending answers of services in real time have in common, in one wording. A token stands
// for an answer that a handler owes; the handler may keep it and answer during a later request, but
// must not lose it, for its caller would wait for ever.
#pragma once

#include <cstddef>
#include <string>

#include "cluster/realtime/world.hpp"

namespace hetsgd::realtime {

struct AnswerSize {
  std::size_t reply_bytes = 0;
  std::size_t payload_count = 0;  // floats
  bool operator==(const AnswerSize&) const = default;
};

// Errors: check, the answer to rank `from` has another size than the caller has room for.
void check_answer(const std::string& service, int from, const AnswerSize& answer,
                  const AnswerSize& expected);

// A token of `service` ends without having answered rank `from`: that ends the run, unless it ends
// for another reason. Called by the token's destructor, without the world's mutex.
void end_run_of_dropped_request(World& world, const std::string& service, int from);

}  // namespace hetsgd::realtime
