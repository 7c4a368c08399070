#include "cluster/collective_call.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <tuple>

#include "core/error.hpp"
#include "core/rank_index.hpp"
#include "core/stream_copy.hpp"

namespace hetsgd {

std::string_view collective_name(Collective collective) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "all_reduce", "broadcast",      "all_gather",
      "agree",      "reduce_scatter", "all_to_all",
      "barrier",    "split",          "the pause of all workers (evaluate_here)"};
  return kNames[static_cast<std::size_t>(collective)];
}

std::size_t element_bytes(Element element) {
  switch (element) {
    case Element::float32:
      return sizeof(float);
    case Element::float64:
    case Element::int64:
      return sizeof(double);
    case Element::byte:
      break;
  }
  return 1;
}

Block whole_lines(int rank, int size, std::size_t count, Element element) {
  const std::size_t per_line = 64 / element_bytes(element);
  const std::size_t lines = (count + per_line - 1) / per_line;
  const auto begin_of = [&](int r) { return std::min(count, lines * at(r) / at(size) * per_line); };
  return {begin_of(rank), begin_of(rank + 1)};
}

std::string describe(const CollectiveCall& call) {
  static constexpr std::array<std::string_view, 3> kOps = {"sum", "max", "min"};
  static constexpr std::array<std::string_view, 4> kElements = {"float32", "float64", "int64",
                                                                "bytes"};
  const auto name = collective_name(call.collective);
  const auto kind = kTrafficNames[static_cast<std::size_t>(call.kind)];
  switch (call.collective) {
    case Collective::all_reduce:
    case Collective::reduce_scatter:
      return fmt::format("{} ({}) of {} {} as {}", name, kOps[static_cast<std::size_t>(call.op)],
                         call.count, kElements[static_cast<std::size_t>(call.element)], kind);
    case Collective::broadcast:
      return fmt::format("{} from {} of {} bytes as {}", name, call.root, call.count, kind);
    case Collective::all_gather:
    case Collective::agree:
      return fmt::format("{} of {} bytes per rank as {}", name, call.count, kind);
    case Collective::all_to_all:
      return fmt::format("{} of elements of {} bytes as {}", name, call.count, kind);
    default:
      return std::string(name);
  }
}

void check_same_call(int rank_a, const CollectiveCall& a, int rank_b, const CollectiveCall& b) {
  if (a == b) return;
  throw CheckFailure(
      fmt::format("ranks {} and {} differ in one collective: rank {} calls {}, rank {} calls {}",
                  rank_a, rank_b, rank_a, describe(a), rank_b, describe(b)));
}

CallTraffic traffic_of(const CollectiveRequest& request, int rank, int size) {
  const CollectiveCall& call = request.call;
  const std::size_t others = at(size) - 1, bytes = call.bytes();
  const std::size_t mine = block_of(rank, size, call.count).size() * element_bytes(call.element);
  switch (call.collective) {
    case Collective::all_reduce:
      return {others * mine + bytes - mine, others * mine + bytes - mine};
    case Collective::reduce_scatter:
      return {bytes - mine, others * mine};
    case Collective::broadcast:
      return rank == call.root ? CallTraffic{others * bytes, 0} : CallTraffic{0, bytes};
    case Collective::all_gather:
    case Collective::agree:
      return {others * bytes, others * bytes};
    case Collective::all_to_all:
      return {request.parts.bytes_out(rank), request.parts.bytes_in(rank)};
    default:
      return {};
  }
}

CollectiveMemory memory_of(const CollectiveRequest& request, int rank, int size) {
  const CollectiveCall& call = request.call;
  const std::size_t bytes = call.bytes(), unit = element_bytes(call.element);
  switch (call.collective) {
    case Collective::all_reduce:
      return {request.in, bytes, request.out, bytes, true, {0, bytes}};
    case Collective::reduce_scatter: {
      const Block mine = block_of(rank, size, call.count);
      return {request.in, bytes, request.out, bytes, true, {mine.begin * unit, mine.end * unit}};
    }
    case Collective::broadcast:
      if (rank == call.root) return {.in = request.in, .in_bytes = bytes};
      return {.out = request.out, .out_bytes = bytes, .changed = {0, bytes}};
    case Collective::all_gather:
      return {request.in, bytes, request.out, at(size) * bytes, false, {0, at(size) * bytes}};
    case Collective::all_to_all: {
      const AllToAll& parts = request.parts;
      const std::size_t receive = parts.receive_bytes();
      return {parts.send, parts.send_bytes(), parts.receive, receive, false, {0, receive}};
    }
    default:
      return {.in = request.in, .out = request.out};
  }
}

void check_parts(const AllToAll& mine, int rank, int size) {
  const auto check = [&](std::span<const std::size_t> counts, std::size_t elements,
                         const char* verb) {
    if (counts.size() == at(size) && AllToAll::sum(counts) == elements) {
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
    return parts.width * parts.send_counts[at(to)];
  };
  const auto expected = [](const AllToAll& parts, int from) {
    return parts.width * parts.receive_counts[at(from)];
  };
  check_same_part(rank_a, sent(a, rank_b), rank_b, expected(b, rank_a));
  check_same_part(rank_b, sent(b, rank_a), rank_a, expected(a, rank_b));
}

// Goes sender by sender, so that the data of each are read from beginning to end.
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

std::vector<std::vector<int>> plan_groups(std::span<const SplitChoice> by_rank) {
  std::vector<int> order(by_rank.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](int rank) { return by_rank[at(rank)].color < 0; });
  std::ranges::sort(order, {}, [&](int rank) {
    return std::tuple(by_rank[at(rank)].color, by_rank[at(rank)].key, rank);
  });
  std::vector<std::vector<int>> groups;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || by_rank[at(order[i])].color != by_rank[at(order[i - 1])].color) {
      groups.emplace_back();
    }
    groups.back().push_back(order[i]);
  }
  return groups;
}

void check_same_sendrecv(int rank, const SendrecvLengths& mine, int tag, int peer,
                         const SendrecvLengths& theirs) {
  if (mine.in == theirs.out && mine.out == theirs.in) return;
  throw CheckFailure(fmt::format(
      "rank {} exchanges {} for {} bytes with tag {} with rank {}, which gives {} for {} bytes",
      rank, mine.out, mine.in, tag, peer, theirs.out, theirs.in));
}

}  // namespace hetsgd
