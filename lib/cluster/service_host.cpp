#include "cluster/service_host.hpp"

#include "cluster/blocking.hpp"
#include "core/error.hpp"

namespace hetsgd {

void OwedReply::answer(std::span<const std::byte> reply, std::span<const float> payload,
                       Traffic kind) {
  HETSGD_CHECK(!answered_);
  if (reply.size() != reply_bytes_ || payload.size() != payload_count_) {
    throw CheckFailure(fmt::format(
        "{} answers rank {} with {} bytes and {} elements, which expects {} bytes and {}",
        service_name(service_), from_, reply.size(), payload.size(), reply_bytes_, payload_count_));
  }
  deliver(reply, payload, kind);
  answered_ = true;
}

std::exception_ptr OwedReply::unanswered() const {
  if (answered_ || std::uncaught_exceptions() > 0) return nullptr;
  return std::make_exception_ptr(CheckFailure(fmt::format(
      "{} dropped a request of rank {} without an answer", service_name(service_), from_)));
}

}  // namespace hetsgd
