#include "collective/all_to_all.hpp"

#include <cstring>
#include <numeric>
#include <vector>

#include "core/rank_index.hpp"

namespace hetsgd {

namespace {

// The elements before each rank's part.
std::vector<std::size_t> part_offsets(std::span<const std::size_t> counts) {
  std::vector<std::size_t> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), std::size_t{0});
  return offsets;
}

// Copies the part that a rank gives to itself: between host and GPU by way of a message to itself.
void keep_own_part(Comm& comm, Device& device, int tag, std::span<const std::byte> part,
                   std::span<std::byte> room, Traffic kind) {
  if (part.empty()) return;
  const bool from_host = device.host_accessible(part.data());
  const bool to_host = device.host_accessible(room.data());
  if (from_host && to_host) {
    std::memcpy(room.data(), part.data(), part.size());
    return;
  }
  if (!from_host && !to_host && part.size() % sizeof(float) == 0) {
    device.copy(part.size() / sizeof(float), reinterpret_cast<const float*>(part.data()),
                reinterpret_cast<float*>(room.data()));
    return device.synchronize();  // another device of this GPU may read it next
  }
  comm.post(comm.rank(), tag, part, kind);
  comm.receive(comm.rank(), tag, room);
}

// Empty parts travel as well: a receiver that expects bytes of a rank that sends none finds out.
void scatter_all_to_all(Comm& comm, Device& device, int tag, const AllToAll& mine, Traffic kind) {
  const int p = comm.size(), me = comm.rank();
  check_parts(mine, me, p);
  const auto out = part_offsets(mine.send_counts), in = part_offsets(mine.receive_counts);
  const auto part = [&](int to) {
    return std::span(static_cast<const std::byte*>(mine.send) + mine.width * out[at(to)],
                     mine.width * mine.send_counts[at(to)]);
  };
  const auto room = [&](int from) {
    return std::span(static_cast<std::byte*>(mine.receive) + mine.width * in[at(from)],
                     mine.width * mine.receive_counts[at(from)]);
  };
  for (int d = 1; d < p; ++d) {
    const int to = (me + d) % p;
    comm.post(to, tag, part(to), kind);
  }
  keep_own_part(comm, device, tag, part(me), room(me), kind);
  // In the order in which they come if all ranks begin at once.
  for (int d = 1; d < p; ++d) {
    const int from = (me - d + p) % p;
    comm.receive(from, tag, room(from));
  }
}

}  // namespace

void exchange_parts(Exchange how, Comm& comm, Device& device, int tag,
                    const CollectiveRequest& request) {
  if (how == Exchange::blocking) return comm.make(request);
  scatter_all_to_all(comm, device, tag, request.parts, request.call.kind);
}

}  // namespace hetsgd
