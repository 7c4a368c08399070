// Two ranks exchange vectors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "cluster/comm.hpp"

namespace hetsgd {

inline constexpr std::size_t kExchangePiece = std::size_t{256} << 10;  // bytes of one message
inline constexpr std::size_t kExchangeAhead = 8;                       // messages on their way

// Sends `out` to `peer` and receives `in` from it, which does the same with the lengths swapped.
// Long vectors travel in pieces, some of them on their way at a time: where messages are copies in
// shared memory, the copies stay in the cache; where they travel, their latencies overlap, and the
// time is that of one message as long as kExchangeAhead pieces take longer than a latency.
template <class T>
void exchange(Comm& comm, int peer, int tag, std::span<const T> out, std::span<T> in,
              Traffic kind = Traffic::control) {
  static constexpr std::size_t kNumbers = kExchangePiece / sizeof(T);
  const auto count = [](std::size_t n) {
    return std::max<std::size_t>(1, (n + kNumbers - 1) / kNumbers);
  };
  const auto piece = [](auto x, std::size_t i) {
    return x.subspan(i * kNumbers, std::min(kNumbers, x.size() - i * kNumbers));
  };
  const std::size_t sends = count(out.size()), receives = count(in.size());
  std::size_t sent = 0;
  for (std::size_t received = 0; received < receives; ++received) {
    for (; sent < sends && sent < received + kExchangeAhead; ++sent) {
      comm.send<T>(peer, tag, piece(out, sent), kind);
    }
    comm.receive<T>(peer, tag, piece(in, received));
  }
  for (; sent < sends; ++sent) comm.send<T>(peer, tag, piece(out, sent), kind);
}

}  // namespace hetsgd
