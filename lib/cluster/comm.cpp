#include "cluster/comm.hpp"

#include <algorithm>
#include <vector>

#include "core/error.hpp"

namespace hetsgd {

void check_rank(int rank, int size) {
  if (rank >= 0 && rank < size) return;
  throw CheckFailure(fmt::format("rank {} is named in a group of {}", rank, size));
}

void Comm::sendrecv_raw(int peer, int tag, std::span<const std::byte> out, std::span<std::byte> in,
                        Traffic kind) {
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
      send_raw(peer, tag, piece(out, sent), kind, false);
    }
    receive_raw(peer, tag, piece(in, received));
  }
  for (; sent < sends; ++sent) send_raw(peer, tag, piece(out, sent), kind, false);
}

void Comm::check_request(const CollectiveRequest& request) const {
  const Collective collective = request.call.collective;
  if (collective == Collective::broadcast) check_rank(request.call.root, size());
  if (collective == Collective::all_to_all) check_parts(request.parts, rank(), size());
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
