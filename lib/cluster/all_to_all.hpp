// What a rank brings to Comm::all_to_all: one part for each rank and room for one part of each,
// with a length per pair. All that the clusters share of it.
//
//   rank r's send     [ part for 0 | part for 1 | ... | part for r | ... ]   send_counts[to]
//   rank r's receive  [ room for 0 | room for 1 | ... | room for r | ... ]   receive_counts[from]
//
// The part of rank a for rank b goes to the room for a at b; a part for oneself is copied as well.
#pragma once

#include <cstddef>
#include <numeric>
#include <span>
#include <type_traits>

namespace hetsgd {

// The parts lie one after the other, in the order of ranks, in `send` and in `receive`; `width`
// bytes are one element. Refers to the caller's memory: the counts, too, must stay until the call
// is complete. check_parts() says whether the fields fit together; the members below rely on it.
struct AllToAll {
  const void* send = nullptr;
  std::size_t send_elements = 0;
  std::span<const std::size_t> send_counts = {};  // elements, by rank
  void* receive = nullptr;
  std::size_t receive_elements = 0;
  std::span<const std::size_t> receive_counts = {};
  std::size_t width = 1;

  static std::size_t sum(std::span<const std::size_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  }
  std::size_t send_bytes() const { return width * send_elements; }
  std::size_t receive_bytes() const { return width * receive_elements; }
  // The part for rank `to`, and the room for that of rank `from`. Each adds up the counts before
  // it, O(ranks): a loop over all ranks keeps a running offset instead, as move_parts() does.
  std::span<const std::byte> part_for(int to) const {
    const auto r = static_cast<std::size_t>(to);
    return {static_cast<const std::byte*>(send) + width * sum(send_counts.first(r)),
            width * send_counts[r]};
  }
  std::span<std::byte> room_for(int from) const {
    const auto r = static_cast<std::size_t>(from);
    return {static_cast<std::byte*>(receive) + width * sum(receive_counts.first(r)),
            width * receive_counts[r]};
  }
  // Bytes that leave for others and come from others: what a rank keeps for itself is on no wire.
  std::size_t bytes_out(int rank) const {
    return send_bytes() - width * send_counts[static_cast<std::size_t>(rank)];
  }
  std::size_t bytes_in(int rank) const {
    return receive_bytes() - width * receive_counts[static_cast<std::size_t>(rank)];
  }
};

// Copied as bytes and without conversion, hence trivially copyable. Checks nothing (check_parts).
template <class T>
AllToAll all_to_all_parts(std::span<const T> send, std::span<const std::size_t> send_counts,
                          std::span<T> receive, std::span<const std::size_t> receive_counts) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {send.data(),    send.size(),    send_counts, receive.data(),
          receive.size(), receive_counts, sizeof(T)};
}

// Throws CheckFailure unless rank `rank` of `size` may bring this: as many counts as ranks, which
// add up to the elements that are there, and one length for what it gives to itself.
void check_parts(const AllToAll& mine, int rank, int size);
// Throws CheckFailure unless the bytes that rank `from` sends to rank `to` are those that `to`
// expects.
void check_same_part(int from, std::size_t sent, int to, std::size_t expected);
// The same for both directions between two ranks, where one side sees the other's AllToAll. Both
// have passed check_parts().
void check_same_parts(int rank_a, const AllToAll& a, int rank_b, const AllToAll& b);

// In one address space: gives ranks [begin, end) what all send to them. all[r]: rank r's AllToAll,
// whose parts agree in pairs (checked by the caller). Threads may do disjoint ranges at once: each
// writes to the rooms of its own receivers only.
void move_parts(std::span<const void* const> all, std::size_t begin, std::size_t end);

}  // namespace hetsgd
