#include "cluster/cuda/ring_group.hpp"

#include <algorithm>
#include <cstdint>

#include "core/error.hpp"
#include "linalg/cuda/index.hpp"
#include "linalg/cuda/reduction.hpp"

namespace hetsgd::cuda {

namespace {

constexpr const char* kPurpose = "what comes from other GPUs in a collective";
constexpr std::size_t kAlignment = 256;

const std::byte* at(const void* memory, std::size_t offset) {
  return static_cast<const std::byte*>(memory) + offset;
}
std::byte* at(void* memory, std::size_t offset) { return static_cast<std::byte*>(memory) + offset; }

Reduction reduction(ReduceOp op) {
  return op == ReduceOp::sum   ? Reduction::sum
         : op == ReduceOp::max ? Reduction::max
                               : Reduction::min;
}

template <class T>
void reduce_typed(const Stream& stream, std::size_t n, ReduceOp op, std::span<const void* const> in,
                  std::span<void* const> out) {
  std::array<const T*, kMostOperands> inputs;
  std::array<T*, kMostOperands> outputs;
  for (std::size_t r = 0; r < in.size(); ++r) inputs[r] = static_cast<const T*>(in[r]);
  for (std::size_t j = 0; j < out.size(); ++j) outputs[j] = static_cast<T*>(out[j]);
  reduce_vectors(stream.get(), n, reduction(op), inputs.data(), in.size(), outputs.data(),
                 out.size());
}

}  // namespace

void reduce_on(const Stream& stream, std::size_t n, Element element, ReduceOp op,
               std::span<const void* const> in, std::span<void* const> out) {
  HETSGD_CHECK_LE(in.size(), kMostOperands);
  HETSGD_CHECK_LE(out.size(), kMostOperands);
  switch (element) {
    case Element::float32:
      return reduce_typed<float>(stream, n, op, in, out);
    case Element::float64:
      return reduce_typed<double>(stream, n, op, in, out);
    case Element::int64:
      return reduce_typed<std::int64_t>(stream, n, op, in, out);
    case Element::byte:
      break;
  }
  throw CheckFailure("bytes cannot be reduced");
}

// The streams of one rank. `adds` waits for the data of other GPUs and adds them up; data for
// others wait for `ready` of their piece.
struct RingGroup::Member {
  struct Other {
    CopyStream pull, push;
  };

  Member(const RingGroup& group, int rank) : gpu(group.gpu(rank)) {
    HETSGD_CUDA(cudaSetDevice(gpu));
    adds = std::make_unique<Stream>();
    scratch = std::make_unique<DeviceMemory>(*adds);
    for (auto& event : ready) event = std::make_unique<Event>();
    others.resize(static_cast<std::size_t>(group.size()));
    for (int step = 1; step < group.size(); ++step) {
      const int j = (rank + step) % group.size(), other = group.gpu(j);
      if (other == gpu) continue;
      const bool direct = group.direct(gpu, other);
      for (int k = 0; k < group.size(); ++k) {  // ranks of one GPU share the lanes to it
        if (group.gpu(k) == other && others[static_cast<std::size_t>(k)]) {
          others[static_cast<std::size_t>(j)] = others[static_cast<std::size_t>(k)];
        }
      }
      if (others[static_cast<std::size_t>(j)]) continue;
      others[static_cast<std::size_t>(j)] = std::make_shared<Other>(
          Other{CopyStream(gpu, other, CopyStream::Direction::pull, direct),
                CopyStream(gpu, other, CopyStream::Direction::push, direct)});
    }
  }

  // Room for `bytes` that every stream may use.
  std::byte* room(std::size_t bytes) {
    std::byte* const memory = scratch->reserve<std::byte>(bytes, kPurpose);
    if (memory != known) adds->synchronize();
    return known = memory;
  }
  void synchronize() const {
    for (const auto& other : others) {
      if (other) other->push.synchronize();
    }
    adds->synchronize();
  }
  // The same after a failure; further errors are ignored.
  void settle() const noexcept {
    try {
      synchronize();
    } catch (...) {
    }
  }

  int gpu;
  std::unique_ptr<Stream> adds;
  std::unique_ptr<DeviceMemory> scratch;
  std::byte* known = nullptr;                   // where the scratch memory was last
  std::array<std::unique_ptr<Event>, 2> ready;  // one per piece, in turns
  std::vector<std::shared_ptr<Other>> others;   // by rank; null: on the same GPU
};

RingGroup::RingGroup(std::vector<int> gpus, const GpuGroupOptions& options)
    : gpus_(std::move(gpus)), options_(options), members_(gpus_.size()) {
  HETSGD_CHECK_LE(gpus_.size(), kMostRanks);
  HETSGD_CHECK_LE(gpus_.size(), kMostOperands);
}

RingGroup::~RingGroup() = default;

RingGroup::Member& RingGroup::member(int rank) {
  auto& mine = members_[static_cast<std::size_t>(rank)];
  if (!mine) mine = std::make_unique<Member>(*this, rank);
  HETSGD_CUDA(cudaSetDevice(mine->gpu));
  return *mine;
}

std::size_t RingGroup::piece_of(std::size_t bytes) const {
  const std::size_t pieces = std::max<std::size_t>(1, ceil_divide(bytes, options_.piece_bytes));
  return std::max<std::size_t>(1, ceil_divide(bytes, pieces));
}

void RingGroup::move(int rank, const CollectiveCall& call, Inputs in, Outputs out) {
  try {
    share(rank, call, in, out);
  } catch (...) {
    // Copies that have been started still use the others' buffers.
    if (const auto& mine = members_[static_cast<std::size_t>(rank)]) mine->settle();
    throw;
  }
}

void RingGroup::share(int rank, const CollectiveCall& call, Inputs in, Outputs out) {
  switch (call.collective) {
    case Collective::all_reduce:
      return all_reduce(rank, call, in, out);
    case Collective::reduce_scatter:
      return reduce(rank, block_of(rank, size(), call.count), call, in, out, false);
    case Collective::broadcast:
      return broadcast(rank, call, in, out);
    case Collective::all_gather:
      return all_gather(rank, call.count, in, out);
    case Collective::all_to_all:
      return all_to_all(rank, in);
    default:
      throw CheckFailure("a collective without data between GPUs");
  }
}

void RingGroup::all_reduce(int rank, const CollectiveCall& call, Inputs in, Outputs out) {
  reduce(rank, whole_lines(rank, size(), call.count, call.element), call, in, out, true);
}

// out[rank] <- the slice reduced over all ranks, for_all: every out. Pieces take turns in two
// rooms: one is filled while the other is added up.
void RingGroup::reduce(int rank, Block slice, const CollectiveCall& call, Inputs in, Outputs out,
                       bool for_all) {
  const std::size_t width = element_bytes(call.element);
  const std::size_t piece = ceil_divide(piece_of(slice.size() * width), width);
  if (slice.size() == 0) return;
  Member& me = member(rank);
  const std::size_t p = in.size(), room_bytes = round_up(piece * width, kAlignment);
  const auto far = static_cast<std::size_t>(
      std::ranges::count_if(me.others, [](const auto& other) { return other != nullptr; }));
  const std::size_t rooms = piece < slice.size() ? 2 : 1;
  std::byte* const memory = me.room(rooms * far * room_bytes);
  std::array<const void*, kMostOperands> operands;
  std::array<void*, kMostOperands> results;
  for (std::size_t begin = slice.begin, turn = 0; begin < slice.end; begin += piece, ++turn) {
    const std::size_t n = std::min(piece, slice.end - begin), offset = begin * width;
    Event& ready = *me.ready[turn % 2];
    std::byte* room = memory + turn % rooms * far * room_bytes;
    std::size_t count = 0;
    results[count++] = at(out[static_cast<std::size_t>(rank)], offset);
    operands[static_cast<std::size_t>(rank)] = at(in[static_cast<std::size_t>(rank)], offset);
    for (std::size_t step = 1; step < p; ++step) {
      const std::size_t j = (static_cast<std::size_t>(rank) + step) % p;
      if (me.others[j]) {
        me.others[j]->pull.after(ready);  // `ready` of two pieces before: the room is free
        me.others[j]->pull.copy(room, at(in[j], offset), n * width);
        me.others[j]->pull.before(*me.adds);
        operands[j] = room;
        room += room_bytes;
      } else {
        operands[j] = at(in[j], offset);
        if (for_all) results[count++] = at(out[j], offset);
      }
    }
    reduce_on(*me.adds, n, call.element, call.op, std::span(operands).first(p),
              std::span(results).first(count));
    ready.record(*me.adds);
    for (std::size_t step = 1; for_all && step < p; ++step) {
      const std::size_t j = (static_cast<std::size_t>(rank) + step) % p;
      if (!me.others[j]) continue;
      me.others[j]->push.after(ready);
      me.others[j]->push.copy(at(out[j], offset), results[0], n * width);
    }
  }
  me.synchronize();
}

// Partition r goes from the root to rank r, which hands it on.
void RingGroup::broadcast(int rank, const CollectiveCall& call, Inputs in, Outputs out) {
  const Block slice = whole_lines(rank, size(), call.count, Element::byte);
  const std::size_t piece = piece_of(slice.size());
  if (slice.size() == 0) return;
  Member& me = member(rank);
  const auto r = static_cast<std::size_t>(rank), root = static_cast<std::size_t>(call.root);
  const std::size_t p = in.size();
  for (std::size_t begin = slice.begin, turn = 0; begin < slice.end; begin += piece, ++turn) {
    const std::size_t bytes = std::min(piece, slice.end - begin);
    const void* source = at(in[root], begin);
    if (rank != call.root && me.others[root]) {
      me.others[root]->pull.copy(at(out[r], begin), source, bytes);
      me.others[root]->pull.before(*me.adds);
      source = at(out[r], begin);
    }
    Event& ready = *me.ready[turn % 2];
    ready.record(*me.adds);
    for (std::size_t step = 0; step < p; ++step) {
      const std::size_t j = (r + step) % p;
      if (j == root || at(out[j], begin) == source) continue;
      if (me.others[j]) {
        me.others[j]->push.after(ready);
        me.others[j]->push.copy(at(out[j], begin), source, bytes);
      } else {
        HETSGD_CUDA(cudaMemcpyAsync(at(out[j], begin), source, bytes, cudaMemcpyDeviceToDevice,
                                    me.adds->get()));
      }
    }
  }
  me.synchronize();
}

void RingGroup::all_gather(int rank, std::size_t bytes, Inputs in, Outputs out) {
  if (bytes == 0) return;
  Member& me = member(rank);
  const std::size_t p = in.size(), r = static_cast<std::size_t>(rank);
  for (std::size_t step = 0; step < p; ++step) {
    const std::size_t j = (r + step) % p;
    std::byte* const target = at(out[j], r * bytes);
    if (me.others[j]) {
      me.others[j]->push.copy(target, in[r], bytes);
    } else if (target != in[r]) {
      HETSGD_CUDA(cudaMemcpyAsync(target, in[r], bytes, cudaMemcpyDeviceToDevice, me.adds->get()));
    }
  }
  me.synchronize();
}

// Each rank fetches its parts: its own first, then those of the ranks behind it.
void RingGroup::all_to_all(int rank, Inputs in) {
  Member& me = member(rank);
  const auto parts = [&](int r) -> const AllToAll& {
    return *static_cast<const AllToAll*>(in[static_cast<std::size_t>(r)]);
  };
  for (int step = 0; step < size(); ++step) {
    const int from = (rank + step) % size();
    const std::span<std::byte> room = parts(rank).room_for(from);
    if (room.empty()) continue;
    const std::byte* const part = parts(from).part_for(rank).data();
    if (const auto& other = me.others[static_cast<std::size_t>(from)]) {
      other->pull.copy(room.data(), part, room.size());
      other->pull.before(*me.adds);
    } else {
      HETSGD_CUDA(cudaMemcpyAsync(room.data(), part, room.size(), cudaMemcpyDeviceToDevice,
                                  me.adds->get()));
    }
  }
  me.synchronize();
}

void RingGroup::fetch(int rank, int from, const void* source, void* target, std::size_t bytes) {
  if (bytes == 0) return;
  Member& me = member(rank);
  if (const auto& other = me.others[static_cast<std::size_t>(from)]) {
    other->pull.copy(target, source, bytes);
    other->pull.synchronize();
  } else {
    HETSGD_CUDA(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, me.adds->get()));
    me.adds->synchronize();
  }
}

}  // namespace hetsgd::cuda
