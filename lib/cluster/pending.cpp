#include "cluster/pending.hpp"

#include "core/error.hpp"

namespace hetsgd {

void call_now(Comm& comm, const CollectiveRequest& request) {
  const CollectiveCall& call = request.call;
  switch (call.collective) {
    case Collective::all_reduce:
      return comm.all_reduce_raw(request.out, call.count, call.element, call.op, call.kind);
    case Collective::reduce_scatter:
      return comm.reduce_scatter_raw(request.out, call.count, call.element, call.op, call.kind);
    case Collective::broadcast:
      return comm.broadcast_raw(request.out, call.count, call.root, call.kind);
    case Collective::all_gather:
      return comm.all_gather_raw(request.in, call.count, request.out, call.kind);
    case Collective::all_to_all:
      return comm.all_to_all_raw(request.parts, call.kind);
    default:
      throw CheckFailure(fmt::format("{} cannot be started", collective_name(call.collective)));
  }
}

Pending Comm::start(const CollectiveRequest& request) {
  if (request.call.collective == Collective::all_to_all) {
    check_parts(request.parts, rank(), size());
  }
  if (size() > 1) return Pending(start_raw(request));
  call_now(*this, request);
  return {};
}

void Pending::settle() noexcept {
  if (!call_) return;
  call_->settle(std::uncaught_exceptions() > exceptions_);
  call_.reset();
}

}  // namespace hetsgd
