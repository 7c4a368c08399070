#include "cluster/collective_call.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace hetsgd {

std::string_view collective_name(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::broadcast:
      return "broadcast";
    case Collective::all_gather:
      return "all_gather";
    case Collective::agree:
      return "agree";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::barrier:
      return "barrier";
    case Collective::split:
      return "split";
    case Collective::while_paused_together:
      return "the pause of all workers (evaluate_here)";
  }
  return "?";
}

std::size_t element_bytes(Element element) {
  switch (element) {
    case Element::float32:
      return sizeof(float);
    case Element::float64:
      return sizeof(double);
    case Element::int64:
      return sizeof(std::int64_t);
    case Element::byte:
      return 1;
  }
  return 1;
}

Block whole_lines(int rank, int size, std::size_t count, Element element) {
  const std::size_t per_line = 64 / element_bytes(element);
  const std::size_t lines = (count + per_line - 1) / per_line;
  const auto begin_of = [&](int r) {
    return std::min(
        count, lines * static_cast<std::size_t>(r) / static_cast<std::size_t>(size) * per_line);
  };
  return {begin_of(rank), begin_of(rank + 1)};
}

namespace {

std::string_view op_name(ReduceOp op) {
  return op == ReduceOp::sum ? "sum" : op == ReduceOp::max ? "max" : "min";
}

std::string_view element_name(Element element) {
  switch (element) {
    case Element::float32:
      return "float32";
    case Element::float64:
      return "float64";
    case Element::int64:
      return "int64";
    case Element::byte:
      return "bytes";
  }
  return "?";
}

}  // namespace

std::string describe(const CollectiveCall& call) {
  const auto name = collective_name(call.collective);
  const auto kind = kTrafficNames[static_cast<std::size_t>(call.kind)];
  switch (call.collective) {
    case Collective::all_reduce:
    case Collective::reduce_scatter:
      return fmt::format("{} ({}) of {} {} as {}", name, op_name(call.op), call.count,
                         element_name(call.element), kind);
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

void check_same_sendrecv(int rank, const SendrecvLengths& mine, int tag, int peer,
                         const SendrecvLengths& theirs) {
  if (mine.in == theirs.out && mine.out == theirs.in) return;
  throw CheckFailure(fmt::format(
      "rank {} exchanges {} for {} bytes with tag {} with rank {}, which gives {} for {} bytes",
      rank, mine.out, mine.in, tag, peer, theirs.out, theirs.in));
}

}  // namespace hetsgd
