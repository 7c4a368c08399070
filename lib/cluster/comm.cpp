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

std::shared_ptr<const void> Comm::agree_raw(const void* mine, std::size_t bytes, const Maker& make,
                                            Traffic kind) {
  std::vector<std::byte> all(static_cast<std::size_t>(size()) * bytes);
  all_gather_raw(mine, bytes, all.data(), kind);
  return make(all.data());
}

}  // namespace hetsgd
