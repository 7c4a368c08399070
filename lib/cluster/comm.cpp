#include "cluster/comm.hpp"

#include <algorithm>
#include <vector>

#include "core/error.hpp"

namespace hetsgd {

void check_rank(int rank, int size) {
  if (rank >= 0 && rank < size) return;
  throw CheckFailure(fmt::format("rank {} is named in a group of {}", rank, size));
}

void Comm::sendrecv_bytes(int peer, int tag, std::span<const std::byte> out,
                          std::span<std::byte> in, Traffic kind) {
  const auto count = [](std::size_t bytes) {
    return (bytes + kSendrecvPiece - 1) / kSendrecvPiece;
  };
  const auto piece = [](auto bytes, std::size_t i) {
    return bytes.subspan(i * kSendrecvPiece,
                         std::min(kSendrecvPiece, bytes.size() - i * kSendrecvPiece));
  };
  const std::size_t sends = count(out.size()), receives = count(in.size());
  std::size_t sent = 0;
  for (std::size_t received = 0; received < receives; ++received) {
    for (; sent < sends && sent < received + kSendrecvAhead; ++sent) {
      send_bytes(peer, tag, piece(out, sent), kind);
    }
    receive_bytes(peer, tag, piece(in, received));
  }
  for (; sent < sends; ++sent) send_bytes(peer, tag, piece(out, sent), kind);
}

namespace {

// Checks what a rank can know of its own request.
void check_request(const CollectiveRequest& request, const Comm& comm) {
  const Collective collective = request.call.collective;
  if (collective == Collective::broadcast) check_rank(request.call.root, comm.size());
  if (collective == Collective::all_to_all) check_parts(request.parts, comm.rank(), comm.size());
}

}  // namespace

void Comm::make(const CollectiveRequest& request) {
  check_request(request, *this);
  make_raw(request);
}

Pending Comm::start(const CollectiveRequest& request) {
  const Collective collective = request.call.collective;
  if (collective == Collective::barrier || collective == Collective::split ||
      collective == Collective::agree) {
    throw CheckFailure(fmt::format("{} cannot be started", collective_name(collective)));
  }
  check_request(request, *this);
  if (size() > 1) return Pending(start_raw(request));
  make_raw(request);
  return {};
}

std::unique_ptr<Comm> Comm::split(int color, int key) {
  SplitPart part{.choice = {color, key}, .comm = nullptr};
  make({.call = {.collective = Collective::split}, .out = &part});
  return std::move(part.comm);
}

void Comm::agree_by_gathering(const CollectiveRequest& request) {
  std::vector<std::byte> all(static_cast<std::size_t>(size()) * request.call.count);
  CollectiveRequest gather = request;
  gather.call.collective = Collective::all_gather;
  gather.out = all.data();
  make_raw(gather);
  auto& part = *static_cast<AgreePart*>(request.out);
  part.made = (*part.make)(all.data());
}

}  // namespace hetsgd
