#include "cluster/all_to_all.hpp"

#include <cstring>
#include <vector>

#include "core/error.hpp"
#include "core/stream_copy.hpp"

namespace hetsgd {

void check_parts(const AllToAll& mine, int rank, int size) {
  const auto check = [&](std::span<const std::size_t> counts, std::size_t elements,
                         const char* verb) {
    if (counts.size() == static_cast<std::size_t>(size) && AllToAll::sum(counts) == elements) {
      return;
    }
    throw CheckFailure(fmt::format(
        "rank {} {} {} elements in an all_to_all of {} ranks, but its {} counts add up to {}", rank,
        verb, elements, size, counts.size(), AllToAll::sum(counts)));
  };
  check(mine.send_counts, mine.send_elements, "sends");
  check(mine.receive_counts, mine.receive_elements, "receives");
  check_same_part(rank, mine.part_for(rank).size(), rank, mine.room_for(rank).size());
}

void check_same_part(int from, std::size_t sent, int to, std::size_t expected) {
  if (sent == expected) return;
  throw CheckFailure(
      fmt::format("ranks {} and {} differ in an all_to_all: rank {} sends {} bytes to rank {}, "
                  "which expects {}",
                  from, to, from, sent, to, expected));
}

void check_same_parts(int rank_a, const AllToAll& a, int rank_b, const AllToAll& b) {
  const auto sent = [](const AllToAll& parts, int to) {
    return parts.width * parts.send_counts[static_cast<std::size_t>(to)];
  };
  const auto expected = [](const AllToAll& parts, int from) {
    return parts.width * parts.receive_counts[static_cast<std::size_t>(from)];
  };
  check_same_part(rank_a, sent(a, rank_b), rank_b, expected(b, rank_a));
  check_same_part(rank_b, sent(b, rank_a), rank_a, expected(a, rank_b));
}

// Sender by sender, so that what each sends is read from its beginning to its end.
void move_parts(std::span<const void* const> all, std::size_t begin, std::size_t end) {
  const auto parts = [&](std::size_t r) -> const AllToAll& {
    return *static_cast<const AllToAll*>(all[r]);
  };
  std::vector<std::byte*> room(end - begin);
  for (std::size_t to = begin; to < end; ++to) {
    room[to - begin] = static_cast<std::byte*>(parts(to).receive);
  }
  for (std::size_t from = 0; from < all.size(); ++from) {
    const std::byte* part = parts(from).part_for(static_cast<int>(begin)).data();
    for (std::size_t to = begin; to < end; ++to) {
      const std::size_t bytes = parts(from).width * parts(from).send_counts[to];
      if (bytes >= kStreamedCopy) {
        stream_copy(room[to - begin], part, bytes);
      } else if (bytes > 0) {
        std::memcpy(room[to - begin], part, bytes);
      }
      room[to - begin] += bytes;
      part += bytes;
    }
  }
}

}  // namespace hetsgd
